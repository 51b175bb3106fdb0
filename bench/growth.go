package main

import "fmt"

// A growth is what each of many costs, at several sizes of the same process. Every size
// is compared with the process before there were any, so that what is paid once for many
// shows as less for each.
type growth []grown

type grown struct {
	n    int
	each footprint
}

// sizes are powers of ten from the first one on, as far as they are smaller than n, and n.
func sizes(first, n int) (all []int) {
	for size := first; size < n; size *= 10 {
		all = append(all, size)
	}
	return append(all, n)
}

// grow lets a process grow to each of the sizes, and measures it there. add adds as many
// as are missing.
func (p *process) grow(sizes []int, without footprint, add func(missing int) error) (g growth, err error) {
	there := 0
	for _, n := range sizes {
		if err := add(n - there); err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		there = n
		with, err := p.footprint()
		if err != nil {
			return nil, err
		}
		g = append(g, grown{n, with.minus(without, n)})
	}
	return g, nil
}

// last is the footprint of each when there were most of them, nothing if there were none.
func (g growth) last() (f footprint) {
	if len(g) > 0 {
		f = g[len(g)-1].each
	}
	return f
}

// own is what belongs to one of many alone: its heap and its stacks.
func (f footprint) own() float64 { return f.Heap + f.Stacks }

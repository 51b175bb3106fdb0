package main

import "fmt"

// A growth is the memory that each of many streams, calls or sessions takes, at several sizes
// of the same process. Every size is compared with the process before there were any, so that
// the figure for each falls if a cost arises only once.
type growth []grown

type grown struct {
	n    int
	each footprint
}

// sizes returns the powers of ten from first on that are smaller than n, and n.
func sizes(first, n int) (all []int) {
	for size := first; size < n; size *= 10 {
		all = append(all, size)
	}
	return append(all, n)
}

// grow lets a process grow to each of the sizes and measures it there. add adds the missing
// number.
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

// last returns the footprint of each at the largest size, and zero if there were none.
func (g growth) last() (f footprint) {
	if len(g) > 0 {
		f = g[len(g)-1].each
	}
	return f
}

// own returns the heap and the stacks together.
func (f footprint) own() float64 { return f.Heap + f.Stacks }

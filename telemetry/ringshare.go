package telemetry

import "container/heap"

// A ringShare counts the traces of a line of a ring, or of an end with its lines.
type ringShare struct {
	n        int
	oldest   uint64 // the number of the trace that it loses next
	position int    // in the heap

	// Of an end.
	name  string
	lines map[ringLine]*ringShare
	most  ringShares // those of lines

	// Of a line.
	of          *ringShare
	line        ringLine
	first, last int32 // entries of the ring
}

// ringShares is a heap. The share that loses its oldest trace next is at its root: the largest one, and
// among those of one size the one with the oldest trace.
type ringShares []*ringShare

func (h *ringShares) add(s *ringShare)    { heap.Push(h, s) }
func (h *ringShares) fix(s *ringShare)    { heap.Fix(h, s.position) }
func (h *ringShares) remove(s *ringShare) { heap.Remove(h, s.position) }

// Len implements [heap.Interface], as the other methods do.
func (h ringShares) Len() int { return len(h) }

func (h ringShares) Less(i, j int) bool {
	if h[i].n != h[j].n {
		return h[i].n > h[j].n
	}
	return h[i].oldest < h[j].oldest
}

func (h ringShares) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].position, h[j].position = i, j
}

func (h *ringShares) Push(x any) {
	s := x.(*ringShare)
	s.position = len(*h)
	*h = append(*h, s)
}

func (h *ringShares) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}

package task

// A taskHeap orders tasks by when they expire.
type taskHeap []*keptTask

func (h taskHeap) Len() int           { return len(h) }
func (h taskHeap) Less(i, j int) bool { return h[i].rec.Expires.Before(h[j].rec.Expires) }

func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heap, h[j].heap = i, j
}

// Push implements heap.Interface.
func (h *taskHeap) Push(x any) {
	k := x.(*keptTask)
	k.heap = len(*h)
	*h = append(*h, k)
}

// Pop implements heap.Interface.
func (h *taskHeap) Pop() any {
	last := len(*h) - 1
	k := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return k
}

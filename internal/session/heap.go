package session

// A placedHeap is a heap whose items know their places, so that any of them can be moved or removed
// by package heap. The zero value is empty, with the zero value of the order.
type placedHeap[T any, O placedOrder[T]] struct {
	order O
	list  []T
}

// A placedOrder is the order of a [placedHeap].
type placedOrder[T any] interface {
	before(a, b T) bool
	// position is where the item keeps its place.
	position(item T) *int
}

// Len implements [heap.Interface], as the other methods do.
func (h *placedHeap[T, O]) Len() int { return len(h.list) }

func (h *placedHeap[T, O]) Less(i, j int) bool { return h.order.before(h.list[i], h.list[j]) }

func (h *placedHeap[T, O]) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	*h.order.position(h.list[i]), *h.order.position(h.list[j]) = i, j
}

func (h *placedHeap[T, O]) Push(x any) {
	item := x.(T)
	*h.order.position(item) = len(h.list)
	h.list = append(h.list, item)
}

func (h *placedHeap[T, O]) Pop() any {
	last := len(h.list) - 1
	item := h.list[last]
	var none T
	h.list[last] = none
	h.list = h.list[:last]
	return item
}

package resume

import (
	"container/heap"
	"container/list"
)

// A memoryOwner has the events of all sessions of one owner.
type memoryOwner struct {
	key      any
	sessions int
	events   list.List // of *memoryEvent, oldest first
	bytes    int
	position int // in Memory.largest
}

// owner returns the owner with a key. The caller must hold m.mu.
func (m *Memory) owner(key any) *memoryOwner {
	o := m.owners[key]
	if o == nil {
		o = &memoryOwner{key: key}
		m.owners[key] = o
		heap.Push(&m.largest, o)
	}
	return o
}

// leave notes that an owner has a session less. The caller must hold m.mu.
func (m *Memory) leave(o *memoryOwner) {
	if o.sessions--; o.sessions == 0 {
		heap.Remove(&m.largest, o.position)
		delete(m.owners, o.key)
	}
}

// change changes what an owner holds. The caller must hold m.mu.
func (m *Memory) change(o *memoryOwner, by int) {
	o.bytes += by
	m.bytes += by
	heap.Fix(&m.largest, o.position)
}

// An ownerHeap has the owner with the most bytes at its root; of several that one with the
// oldest event.
type ownerHeap []*memoryOwner

// Len implements [heap.Interface], as the other methods do.
func (h ownerHeap) Len() int { return len(h) }

func (h ownerHeap) Less(i, j int) bool {
	if h[i].bytes != h[j].bytes {
		return h[i].bytes > h[j].bytes
	}
	a, b := h[i].events.Front(), h[j].events.Front()
	return a != nil && (b == nil || a.Value.(*memoryEvent).number < b.Value.(*memoryEvent).number)
}

func (h ownerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].position, h[j].position = i, j
}

func (h *ownerHeap) Push(x any) {
	o := x.(*memoryOwner)
	o.position = len(*h)
	*h = append(*h, o)
}

func (h *ownerHeap) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return o
}

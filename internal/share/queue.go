package share

import (
	"container/heap"
	"sync"
)

// A Queue bounds how many requests wait. While it is full, a request takes the place of another
// one that has less right to it:
//
//   - Classes share the queue. If the class of the newcomer has at least two requests less in it
//     than the largest class, the caller that has most requests there loses its newest one,
//     unless the newcomer's caller has as many requests in the whole queue.
//   - Callers share their class. A caller that has at least two requests less in its class than
//     the caller that has most takes the place of that one's newest request.
//   - Callers share the queue. A caller that has at least two requests less than the caller that
//     has most takes the place of that one's newest request in the class where it has most.
//
// The first of these rules that finds a place decides. It is two requests less, because with one less
// the two callers would only change places. Its methods are safe for concurrent use.
type Queue struct {
	size int

	mu      sync.Mutex // guards the rest, and all places
	n       int
	classes map[any]*class
	callers map[*Caller]*line
	most    lines // a heap of callers
}

// A class is a group of requests that wait for the same thing, by caller.
type class struct {
	key   any
	n     int
	lines map[*Caller]*line
	heap  lines // the longest at its root
}

// A line has the requests of one caller in one class. Those of a caller in all classes are only
// counted, in a line that has no class.
type line struct {
	class       *class
	caller      *Caller
	n           int
	position    int // in the heap
	first, last *Place
}

// A Place is what a request has that waits.
type Place struct {
	queue      *Queue
	line       *line // nil once it was left or lost
	prev, next *Place
	owner      any
}

// NewQueue returns a queue with room for so many requests.
func NewQueue(size int) *Queue {
	return &Queue{size: size, classes: map[any]*class{}, callers: map[*Caller]*line{}}
}

// Enter takes a place for a request of a caller. Requests with the same class wait for the same
// thing. The place is nil if there is none for this caller. If another request has lost its
// place, Enter returns that one's owner, which must stop waiting.
func (q *Queue) Enter(c *Caller, of, owner any) (place *Place, displaced any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n >= q.size {
		victim := q.victim(c, of)
		if victim == nil {
			return nil, nil
		}
		displaced = victim.owner
		q.remove(victim)
	}
	k := q.classes[of]
	if k == nil {
		k = &class{key: of, lines: map[*Caller]*line{}}
		q.classes[of] = k
	}
	l := k.lines[c]
	if l == nil {
		l = &line{class: k, caller: c}
		k.lines[c] = l
		heap.Push(&k.heap, l)
	}
	place = &Place{queue: q, line: l, prev: l.last, owner: owner}
	if l.last != nil {
		l.last.next = place
	} else {
		l.first = place
	}
	l.last = place
	l.n++
	k.n++
	q.n++
	heap.Fix(&k.heap, l.position)
	all := q.callers[c]
	if all == nil {
		all = &line{caller: c}
		q.callers[c] = all
		heap.Push(&q.most, all)
	}
	all.n++
	heap.Fix(&q.most, all.position)
	return place, displaced
}

// victim returns the place that a newcomer takes, or nil. The caller must hold q.mu.
func (q *Queue) victim(c *Caller, of any) *Place {
	if q.n == 0 {
		return nil
	}
	var largest *class
	for _, k := range q.classes {
		if largest == nil || k.n > largest.n {
			largest = k
		}
	}
	ownSize, mine := 0, 0
	own := q.classes[of]
	if own != nil {
		ownSize = own.n
		if l := own.lines[c]; l != nil {
			mine = l.n
		}
	}
	if l := largest.heap[0]; ownSize+1 < largest.n && q.held(c) < q.held(l.caller) {
		return l.last
	}
	if own != nil && mine+1 < own.heap[0].n {
		return own.heap[0].last
	}
	if most := q.most[0]; q.held(c)+1 < most.n {
		return q.longest(most.caller).last
	}
	return nil
}

// held returns how many requests a caller has in all classes. The caller must hold q.mu.
func (q *Queue) held(c *Caller) int {
	if all := q.callers[c]; all != nil {
		return all.n
	}
	return 0
}

// longest returns the line of a caller in the class where it has most requests. The caller must
// hold q.mu.
func (q *Queue) longest(c *Caller) (longest *line) {
	for _, k := range q.classes {
		if l := k.lines[c]; l != nil && (longest == nil || l.n > longest.n) {
			longest = l
		}
	}
	return longest
}

// Leave gives the place up, unless the request has lost it.
func (p *Place) Leave() {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	if p.line != nil {
		p.queue.remove(p)
	}
}

// remove takes a place out of the queue. The caller must hold q.mu.
func (q *Queue) remove(p *Place) {
	l := p.line
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		l.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		l.last = p.prev
	}
	p.line, p.prev, p.next = nil, nil, nil
	q.n--
	all := q.callers[l.caller]
	if all.n--; all.n > 0 {
		heap.Fix(&q.most, all.position)
	} else {
		heap.Remove(&q.most, all.position)
		delete(q.callers, l.caller)
	}
	k := l.class
	k.n--
	if l.n--; l.n > 0 {
		heap.Fix(&k.heap, l.position)
		return
	}
	heap.Remove(&k.heap, l.position)
	delete(k.lines, l.caller)
	if k.n == 0 {
		delete(q.classes, k.key)
	}
}

// Len returns how many requests wait, and Size how many may.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}

// LenOf returns how many requests of a class wait.
func (q *Queue) LenOf(of any) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.classes[of]; k != nil {
		return k.n
	}
	return 0
}

// Size returns how many requests may wait.
func (q *Queue) Size() int { return q.size }

// lines is a heap of lines, the longest at its root.
type lines []*line

// Len implements [heap.Interface], as the other methods do.
func (h lines) Len() int           { return len(h) }
func (h lines) Less(i, j int) bool { return h[i].n > h[j].n }

func (h lines) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].position, h[j].position = i, j
}

func (h *lines) Push(x any) {
	l := x.(*line)
	l.position = len(*h)
	*h = append(*h, l)
}

func (h *lines) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}

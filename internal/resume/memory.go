package resume

import (
	"bytes"
	"cmp"
	"container/heap"
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/store"
)

// Memory is a [store.EventStore] in the memory of one process, for the sessions of
// one core. It is bounded by the limits max_events, max_event_bytes and
// max_event_bytes_total of that core. Over a limit of a session its oldest events are
// deleted, and over the total those of the owner with the most bytes.
type Memory struct {
	mu       sync.Mutex // guards the rest
	limits   limits.Limits
	reached  func(limit string)
	sessions map[string]*memorySession
	owners   map[any]*memoryOwner
	largest  ownerHeap
	bytes    int
	appended uint64 // events so far
}

// memorySession is what is kept for one session.
type memorySession struct {
	name    string
	owner   *memoryOwner
	events  []*memoryEvent // oldest first
	streams map[string][]*memoryEvent
	bytes   int
	used    bool // an event is being added: the session stays, even if it is empty
	// evicted is told of events that were deleted because of a limit. May be nil.
	evicted func(stream string, seq uint64, limit string)
}

// An eviction is an event that was deleted, and the limit because of which. evicted is what its session
// has at that moment, and nil if it has none.
type eviction struct {
	*memoryEvent
	limit   string
	evicted func(stream string, seq uint64, limit string)
}

type memoryEvent struct {
	store.Event
	number  uint64
	at      int64 // when it was appended, in Unix nanoseconds
	session *memorySession
	place   *list.Element // in the events of the owner
}

// A memoryOwner has the events of all sessions of one owner.
type memoryOwner struct {
	key      any
	sessions int
	events   list.List // of *memoryEvent, oldest first
	bytes    int
	position int // in Memory.largest
}

// eventOverhead is about what an event takes beside its data, in bytes. The buffer of the data may be
// larger than the data by eventSlack, or by a quarter.
const (
	eventOverhead = 256
	eventSlack    = 64
)

func (e *memoryEvent) size() int { return len(e.Data) + eventOverhead }

// NewMemory returns an empty store. The core that it is given to sets its bounds.
func NewMemory() *Memory {
	return &Memory{limits: limits.Limits{}.WithDefaults(), sessions: map[string]*memorySession{}, owners: map[any]*memoryOwner{}}
}

// Bind sets the bounds, and the function that is told when one is reached. It may be nil.
func (m *Memory) Bind(l limits.Limits, reached func(limit string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limits, m.reached = l, reached
}

// Held returns how many bytes the store keeps.
func (m *Memory) Held() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// Largest returns how many bytes the owner with the most has, and its key; nil if there is none.
func (m *Memory) Largest() (held int, owner any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.largest) == 0 {
		return 0, nil
	}
	return m.largest[0].bytes, m.largest[0].key
}

// Append implements [store.EventStore]. The session is an owner of its own.
func (m *Memory) Append(_ context.Context, session string, e store.Event) error {
	return m.appendOf(session, session, e, nil)
}

// appendOf is Append for a session that belongs to an owner, who may have several. evicted is told
// when one of the session's events is deleted because of a limit. It may be nil.
func (m *Memory) appendOf(owner any, session string, e store.Event, evicted func(stream string, seq uint64, limit string)) error {
	out, err := m.append(owner, session, e, evicted)
	m.mu.Lock()
	reached := m.reached
	m.mu.Unlock()
	for _, ev := range out {
		if reached != nil {
			reached(ev.limit)
		}
		if ev.evicted != nil {
			ev.evicted(ev.Stream, ev.Seq, ev.limit)
		}
	}
	return err
}

// append keeps an event and returns those that it has pushed out. One that is too large has pushed
// out none, but has reached a limit.
func (m *Memory) append(owner any, session string, e store.Event, evicted func(string, uint64, string)) (out []eviction, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[session]
	if s == nil {
		s = &memorySession{name: session, owner: m.owner(owner), streams: map[string][]*memoryEvent{}}
		s.owner.sessions++
		m.sessions[session] = s
	}
	s.used, s.evicted = true, evicted
	defer func() {
		s.used = false
		m.forgetEmpty(s)
	}()
	ev := &memoryEvent{Event: e, at: time.Now().UnixNano(), session: s}
	if cap(e.Data)-len(e.Data) > max(eventSlack, len(e.Data)/4) {
		ev.Data = bytes.Clone(e.Data)
	}
	l, size := &m.limits, ev.size()
	if size > min(l.MaxEventBytes, l.MaxEventBytesTotal) {
		limit := limits.NameEventBytes
		if size > l.MaxEventBytesTotal {
			limit = limits.NameEventBytesTotal
		}
		return []eviction{{limit: limit}}, tooLarge(size)
	}
	for len(s.events) > 0 && len(s.events) >= l.MaxEvents {
		out = append(out, m.evictBy(limits.NameEvents, s.events[0]))
	}
	for len(s.events) > 0 && s.bytes+size > l.MaxEventBytes {
		out = append(out, m.evictBy(limits.NameEventBytes, s.events[0]))
	}
	m.change(s.owner, size) // the new event counts when the largest share is looked for
	for m.bytes > l.MaxEventBytesTotal {
		oldest := m.largest[0].events.Front()
		if oldest == nil { // its share is this event alone
			m.change(s.owner, -size)
			return append(out, eviction{limit: limits.NameEventBytesTotal}), tooLarge(size)
		}
		out = append(out, m.evictBy(limits.NameEventBytesTotal, oldest.Value.(*memoryEvent)))
	}
	s.events = append(s.events, ev)
	s.streams[e.Stream] = append(s.streams[e.Stream], ev)
	s.bytes += size
	m.appended++
	ev.number = m.appended
	ev.place = s.owner.events.PushBack(ev)
	heap.Fix(&m.largest, s.owner.position)
	return out, nil
}

func tooLarge(size int) error {
	return fmt.Errorf("%w: it takes %d bytes", store.ErrEventTooLarge, size)
}

// evictBy deletes an event because of a limit, as evict does.
func (m *Memory) evictBy(limit string, e *memoryEvent) eviction {
	m.evict(e)
	return eviction{e, limit, e.session.evicted}
}

// evict deletes an event, which must be the oldest one of its session and so of its stream
// too. The caller must hold m.mu.
func (m *Memory) evict(e *memoryEvent) {
	s := e.session
	s.events = shift(s.events)
	if s.streams[e.Stream] = shift(s.streams[e.Stream]); len(s.streams[e.Stream]) == 0 {
		delete(s.streams, e.Stream)
	}
	s.bytes -= e.size()
	s.owner.events.Remove(e.place)
	m.change(s.owner, -e.size())
	m.forgetEmpty(s)
}

// forgetEmpty forgets a session without events. The caller must hold m.mu.
func (m *Memory) forgetEmpty(s *memorySession) {
	if len(s.events) > 0 || s.used {
		return
	}
	delete(m.sessions, s.name)
	m.leave(s.owner)
}

// shift takes the first event off a slice, which must not keep it alive.
func shift(events []*memoryEvent) []*memoryEvent {
	events[0] = nil
	return events[1:]
}

// After implements [store.EventStore].
func (m *Memory) After(_ context.Context, session, stream string, seq uint64) ([]store.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[session]
	if s == nil {
		return nil, nil
	}
	kept := s.streams[stream]
	first, _ := slices.BinarySearchFunc(kept, seq+1, func(e *memoryEvent, seq uint64) int {
		return cmp.Compare(e.Seq, seq)
	})
	events := make([]store.Event, 0, len(kept)-first)
	for _, e := range kept[first:] {
		events = append(events, e.Event)
	}
	return events, nil
}

// has reports whether an event is there.
func (m *Memory) has(session, stream string, seq uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[session]
	if s == nil {
		return false
	}
	kept := s.streams[stream]
	return len(kept) > 0 && kept[0].Seq <= seq && seq <= kept[len(kept)-1].Seq
}

// Delete implements [store.EventStore].
func (m *Memory) Delete(_ context.Context, session string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[session]; s != nil {
		for len(s.events) > 0 {
			m.evict(s.events[0])
		}
	}
	return nil
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

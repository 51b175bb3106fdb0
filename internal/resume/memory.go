package resume

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/store"
)

// Memory is a [store.EventStore] in the memory of one process, for the sessions of
// one core. It is bounded by the limits max_events, max_event_bytes and
// max_event_bytes_total of that core; what is over them pushes out the oldest
// events.
type Memory struct {
	mu       sync.Mutex // guards the rest
	limits   limits.Limits
	reached  func(limit string)
	sessions map[string]*memorySession
	order    list.List // of *memoryEvent, oldest first
	bytes    int
}

// memorySession is what is kept for one session.
type memorySession struct {
	name    string
	events  []*memoryEvent // oldest first
	streams map[string][]*memoryEvent
	bytes   int
}

type memoryEvent struct {
	store.Event
	session *memorySession
	place   *list.Element
}

// eventOverhead is about what an event takes beside its data.
const eventOverhead = 256

func (e *memoryEvent) size() int { return len(e.Data) + eventOverhead }

// NewMemory returns an empty store. The core that it is given to sets its bounds.
func NewMemory() *Memory {
	return &Memory{limits: limits.Limits{}.WithDefaults(), sessions: map[string]*memorySession{}}
}

// Bind sets the bounds, and the function that is told when one is reached. It may be nil.
func (m *Memory) Bind(l limits.Limits, reached func(limit string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limits, m.reached = l, reached
}

// Append implements [store.EventStore].
func (m *Memory) Append(_ context.Context, session string, e store.Event) error {
	full, reached, err := m.append(session, e)
	if reached != nil {
		for _, limit := range full {
			reached(limit)
		}
	}
	return err
}

// append keeps an event and returns the limits that have pushed out others.
func (m *Memory) append(session string, e store.Event) (full []string, reached func(string), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[session]
	if s == nil {
		s = &memorySession{name: session, streams: map[string][]*memoryEvent{}}
	}
	ev := &memoryEvent{Event: e, session: s}
	l := &m.limits
	if size := ev.size(); size > min(l.MaxEventBytes, l.MaxEventBytesTotal) {
		limit := limits.NameEventBytes
		if size > l.MaxEventBytesTotal {
			limit = limits.NameEventBytesTotal
		}
		return []string{limit}, m.reached, fmt.Errorf("%w: it takes %d bytes", store.ErrEventTooLarge, size)
	}
	for len(s.events) > 0 && len(s.events) >= l.MaxEvents {
		full = append(full, limits.NameEvents)
		m.evict(s.events[0])
	}
	for len(s.events) > 0 && s.bytes+ev.size() > l.MaxEventBytes {
		full = append(full, limits.NameEventBytes)
		m.evict(s.events[0])
	}
	for m.bytes+ev.size() > l.MaxEventBytesTotal {
		full = append(full, limits.NameEventBytesTotal)
		m.evict(m.order.Front().Value.(*memoryEvent))
	}
	m.sessions[session] = s
	s.events = append(s.events, ev)
	s.streams[e.Stream] = append(s.streams[e.Stream], ev)
	s.bytes += ev.size()
	m.bytes += ev.size()
	ev.place = m.order.PushBack(ev)
	return full, m.reached, nil
}

// evict deletes an event, which must be the oldest one of its session and so of its stream
// too. The caller must hold m.mu.
func (m *Memory) evict(e *memoryEvent) {
	s := e.session
	s.events = shift(s.events)
	if s.streams[e.Stream] = shift(s.streams[e.Stream]); len(s.streams[e.Stream]) == 0 {
		delete(s.streams, e.Stream)
	}
	if len(s.events) == 0 {
		delete(m.sessions, s.name)
	}
	s.bytes -= e.size()
	m.bytes -= e.size()
	m.order.Remove(e.place)
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

// Delete implements [store.EventStore].
func (m *Memory) Delete(_ context.Context, session string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[session]; s != nil {
		for _, e := range s.events {
			m.order.Remove(e.place)
		}
		m.bytes -= s.bytes
		delete(m.sessions, session)
	}
	return nil
}

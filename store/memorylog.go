package store

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// A memoryLog has the events of one session, oldest first.
type memoryLog struct {
	events []Event
	bytes  int
	ends   time.Time
}

func eventSize(e Event) int { return len(e.Data) + len(e.Note) + EventOverhead }

// log returns the events of a session, or nil. The caller must hold m.mu.
func (m *Memory) log(session string) *memoryLog {
	l := m.logs[session]
	if l != nil && !m.time().Before(l.ends) {
		delete(m.logs, session)
		return nil
	}
	return l
}

// Append implements [EventLog].
func (m *Memory) Append(_ context.Context, session string, e Event, b EventBounds) (out []EvictedEvent, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := eventSize(e)
	if size > b.Bytes || b.Events < 1 {
		return nil, fmt.Errorf("%w: it takes %d bytes", ErrEventTooLarge, size)
	}
	l := m.log(session)
	if l == nil {
		l = &memoryLog{}
	}
	if last := l.last(e.Stream); e.Seq != last+1 {
		return nil, fmt.Errorf("%w: event %d follows event %d", ErrEventFenced, e.Seq, last)
	}
	for len(l.events) >= b.Events || l.bytes+size > b.Bytes {
		old := l.events[0]
		out = append(out, EvictedEvent{old.Stream, old.Seq, len(l.events) < b.Events})
		l.bytes -= eventSize(old)
		l.events = l.events[1:]
	}
	e.Data, e.Note = bytes.Clone(e.Data), bytes.Clone(e.Note)
	l.events, l.bytes, l.ends = append(l.events, e), l.bytes+size, m.time().Add(b.Life)
	if m.logs == nil {
		m.logs = map[string]*memoryLog{}
	}
	m.logs[session] = l
	return out, nil
}

// last returns the number of the last event of a stream, or 0.
func (l *memoryLog) last(stream string) (seq uint64) {
	for _, e := range l.events {
		if e.Stream == stream {
			seq = e.Seq
		}
	}
	return seq
}

// After implements [EventLog].
func (m *Memory) After(_ context.Context, session, stream string, seq uint64) (events []Event, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.log(session); l != nil {
		for _, e := range l.events {
			if e.Stream == stream && e.Seq > seq {
				events = append(events, e)
			}
		}
	}
	return events, nil
}

// Events returns how many events there are.
func (m *Memory) Events() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for session := range m.logs {
		if l := m.log(session); l != nil {
			n += len(l.events)
		}
	}
	return n
}

// Delete implements [EventLog].
func (m *Memory) Delete(_ context.Context, session string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.logs, session)
	return nil
}

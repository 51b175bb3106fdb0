package resume

import "time"

// Held is what the store in memory keeps, of one session or of all.
type Held struct {
	Bytes, Events, Streams int
	Oldest                 time.Time // when the oldest event was appended; zero if there is none
}

// Total returns what the store keeps of all sessions, without the number of streams. It takes time for
// each owner.
func (m *Memory) Total() Held {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := Held{Bytes: m.bytes}
	var oldest int64
	for _, o := range m.owners {
		total.Events += o.events.Len()
		if front := o.events.Front(); front != nil {
			if at := front.Value.(*memoryEvent).at; oldest == 0 || at < oldest {
				oldest = at
			}
		}
	}
	if oldest != 0 {
		total.Oldest = time.Unix(0, oldest)
	}
	return total
}

// of returns what the store keeps of a session.
func (m *Memory) of(session string) (held Held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[session]
	if s == nil {
		return held
	}
	held.Bytes, held.Events, held.Streams = s.bytes, len(s.events), len(s.streams)
	if len(s.events) > 0 {
		held.Oldest = time.Unix(0, s.events[0].at)
	}
	return held
}

// Held returns what the store in memory keeps of the session. It is nothing for another store.
func (ls *Logs) Held() Held {
	memory, ok := ls.events.store.Events.(*Memory)
	if !ok {
		return Held{}
	}
	return memory.of(ls.events.name)
}

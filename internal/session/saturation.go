package session

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// A saturation notices that a server is full for so long that it should get no requests for a
// while. The queue counts as full from the moment when a request found no place in it, until a
// quarter of the places is free. The zero value is a server that is not full. Its methods are
// safe for concurrent use.
type saturation struct {
	full atomic.Bool // since fullSince; else clear since clearSince

	mu         sync.Mutex // guards the rest
	fullSince  time.Time
	clearSince time.Time
	saturated  bool
}

// overflow notes that a request found the queue full. The others may have left it since then, and
// did not see that they had to tell.
func (s *saturation) overflow(q *share.Queue, now func() time.Time) {
	if s.full.Load() {
		return
	}
	s.mu.Lock()
	if !s.full.Swap(true) {
		s.fullSince = now()
	}
	s.mu.Unlock()
	s.relieved(q, now)
}

// relieved notes that a request has left the queue.
func (s *saturation) relieved(q *share.Queue, now func() time.Time) {
	if s.full.Load() && q.Len() < (3*q.Size()+3)/4 {
		s.clear(now())
	}
}

func (s *saturation) clear(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full.Swap(false) {
		s.clearSince = now
	}
}

// check returns how long all slots have been held and the queue full, if that is longer than
// the grace; 0 otherwise. Once it was, it stays so until the server has not been full for the
// grace.
func (s *saturation) check(now time.Time, slots *share.Pool, grace time.Duration) time.Duration {
	if u := slots.Usage(); u.Used < u.Size {
		s.clear(now) // there is a slot for whoever comes: the queue waits for something else
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case grace < 0:
		s.saturated = false
	case s.full.Load():
		s.saturated = s.saturated || now.Sub(s.fullSince) >= grace
	default:
		s.saturated = s.saturated && now.Sub(s.clearSince) < grace
	}
	if !s.saturated {
		return 0
	}
	return max(now.Sub(s.fullSince), 1)
}

// Saturated returns for how long the server has been full: all slots are held, and requests find
// no place in the queue. It is 0 if that has not been so for longer than saturation_grace.
func (c *Core) Saturated() time.Duration {
	return c.saturation.check(time.Now(), c.slots, c.limits.SaturationGrace)
}

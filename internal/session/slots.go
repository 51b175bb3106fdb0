package session

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// A Class is a concurrency limit that the routes which name it share.
type Class struct {
	Name string
	sem  *semaphore.Weighted
}

// NewClass returns a class of which at most limit handlers run at once.
func NewClass(name string, limit int) *Class {
	return &Class{Name: name, sem: semaphore.NewWeighted(int64(limit))}
}

// slots are the concurrency slots that one request needs: its session's, its
// class's and the process's. A request that cannot have all of them at once waits
// for the one that is missing and holds none of the others meanwhile: a slow class
// must not use up the slots of a session. Each limit serves its waiters in order.
type slots struct {
	sems [3]*semaphore.Weighted
	n    int
	// class is the slot of the class. holders counts what runs in it: the request's handler, and
	// the task that it has become.
	class   *semaphore.Weighted
	holders atomic.Int32
}

func (s *slots) want(sem *semaphore.Weighted) {
	if sem != nil {
		s.sems[s.n] = sem
		s.n++
	}
}

func (s *slots) wantClass(c *Class) {
	s.class = c.sem
	s.holders.Store(1)
	s.want(c.sem)
}

// share makes another holder of the slot of the class; false if there is none, or not
// any more.
func (s *slots) share() bool {
	for {
		n := s.holders.Load()
		if n == 0 {
			return false
		}
		if s.holders.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// giveClass returns the slot of the class when its last holder does.
func (s *slots) giveClass() {
	if s.holders.Add(-1) == 0 {
		s.class.Release(1)
	}
}

// try takes all slots at once, or none.
func (s *slots) try() bool { return s.tryBut(-1) < 0 }

// tryBut takes all slots but one, which the request has already. It returns which
// one is missing, having given back the others, or -1.
func (s *slots) tryBut(has int) (missing int) {
	for i := range s.n {
		if i == has || s.sems[i].TryAcquire(1) {
			continue
		}
		for j := range i {
			if j != has {
				s.sems[j].Release(1)
			}
		}
		return i
	}
	return -1
}

// wait takes all slots; on false it holds none.
func (s *slots) wait(ctx context.Context) bool {
	missing := s.tryBut(-1)
	for missing >= 0 {
		has := missing
		if s.sems[has].Acquire(ctx, 1) != nil {
			return false
		}
		if missing = s.tryBut(has); missing >= 0 {
			s.sems[has].Release(1)
		}
	}
	return true
}

// give returns all slots, once.
func (s *slots) give() {
	for i := range s.n {
		if s.sems[i] == s.class {
			s.giveClass()
		} else {
			s.sems[i].Release(1)
		}
	}
	s.n = 0
}

// places bound how many requests wait or run at once. Their methods are safe for concurrent
// use.
type places struct {
	waiting atomic.Int64
	size    int64
}

func (w *places) enter() bool {
	for {
		n := w.waiting.Load()
		if n >= w.size {
			return false
		}
		if w.waiting.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (w *places) leave() { w.waiting.Add(-1) }

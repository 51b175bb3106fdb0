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
// class's and the process's, always taken in this order. A request that cannot
// have all of them waits in a first-in, first-out queue of bounded length.
type slots struct {
	sems [3]*semaphore.Weighted
	n    int
}

func (s *slots) want(sem *semaphore.Weighted) {
	if sem != nil {
		s.sems[s.n] = sem
		s.n++
	}
}

// try takes all slots at once, or none.
func (s *slots) try() bool {
	for i := range s.n {
		if !s.sems[i].TryAcquire(1) {
			s.give(i)
			return false
		}
	}
	return true
}

// wait takes the slots one after the other; on false it holds none.
func (s *slots) wait(ctx context.Context) bool {
	for i := range s.n {
		if s.sems[i].Acquire(ctx, 1) != nil {
			s.give(i)
			return false
		}
	}
	return true
}

// give returns the first n slots.
func (s *slots) give(n int) {
	for i := range n {
		s.sems[i].Release(1)
	}
}

// A waitingRoom bounds how many requests wait for slots.
type waitingRoom struct {
	waiting atomic.Int64
	size    int64
}

func (w *waitingRoom) enter() bool {
	if w.waiting.Add(1) > w.size {
		w.waiting.Add(-1)
		return false
	}
	return true
}

func (w *waitingRoom) leave() { w.waiting.Add(-1) }

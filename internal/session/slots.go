package session

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// slots are the concurrency slots that one request needs: its session's, its
// class's and the process's. A request that cannot have all of them at once waits
// for the one that is missing and holds none of the others meanwhile: a slow class
// must not use up the slots of a session. The session's slots are those of one caller, and
// serve their waiters in order; the others are shared between callers.
type slots struct {
	caller  *share.Caller
	session *semaphore.Weighted // or nil
	class   *Class              // or nil
	process *share.Pool
	held    bool
	// handler is the part of the request's handler in the slot of the class.
	handler classPart
	// holders counts what runs in the class: the request's handler, and the task that it has
	// become.
	holders atomic.Int32
}

// The slots of a request, in the order in which it takes them.
const (
	sessionSlot = iota
	classSlot
	processSlot
	numSlots
	noSlot = -1
)

// wantClass makes the class one of those that the request needs a slot of.
func (s *slots) wantClass(c *Class) {
	s.class = c
	s.handler.state.Store(partHeld)
	s.holders.Store(1)
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
		s.class.pool.Release(s.caller)
	}
}

// takeClass makes another holder of the slot of the class, for which it waits if the class has it back.
// It returns the cause of ctx if that ends first.
func (s *slots) takeClass(ctx context.Context) error {
	if s.share() {
		return nil
	}
	s.class.resuming.Add(1)
	err := s.class.pool.Acquire(ctx, s.caller)
	s.class.resuming.Add(-1)
	if err != nil {
		return err
	}
	for !s.holders.CompareAndSwap(0, 1) {
		if s.share() { // another holder was faster
			s.class.pool.Release(s.caller)
			return nil
		}
	}
	return nil
}

// tryOne takes one slot, if the request needs it.
func (s *slots) tryOne(slot int) bool {
	switch {
	case slot == processSlot:
		return s.process.TryAcquire(s.caller)
	case slot == classSlot && s.class != nil:
		return s.class.pool.TryAcquire(s.caller)
	case slot == sessionSlot && s.session != nil:
		return s.session.TryAcquire(1)
	}
	return true
}

// waitOne takes one slot that the request needs, and waits for it.
func (s *slots) waitOne(ctx context.Context, slot int) error {
	switch slot {
	case processSlot:
		return s.process.Acquire(ctx, s.caller)
	case classSlot:
		return s.class.pool.Acquire(ctx, s.caller)
	}
	return s.session.Acquire(ctx, 1)
}

// giveOne returns one slot, if the request needed it.
func (s *slots) giveOne(slot int) {
	switch {
	case slot == processSlot:
		s.process.Release(s.caller)
	case slot == classSlot && s.class != nil:
		s.class.pool.Release(s.caller)
	case slot == sessionSlot && s.session != nil:
		s.session.Release(1)
	}
}

// try takes all slots at once, or none.
func (s *slots) try() bool { return s.tryBut(noSlot) == noSlot }

// tryBut takes all slots but one, which the request has already. It returns which
// one is missing, having given back the others, or noSlot.
func (s *slots) tryBut(has int) (missing int) {
	for slot := range numSlots {
		if slot == has || s.tryOne(slot) {
			continue
		}
		for taken := range slot {
			if taken != has {
				s.giveOne(taken)
			}
		}
		return slot
	}
	s.held = true
	return noSlot
}

// wait takes all slots; on false it holds none.
func (s *slots) wait(ctx context.Context) bool {
	missing := s.tryBut(noSlot)
	for missing != noSlot {
		has := missing
		if s.waitOne(ctx, has) != nil {
			return false
		}
		if missing = s.tryBut(has); missing != noSlot {
			s.giveOne(has)
		}
	}
	return true
}

// give returns all slots, once.
func (s *slots) give() {
	if !s.held {
		return
	}
	s.held = false
	s.giveOne(sessionSlot)
	if s.class != nil {
		s.handler.end(s)
	}
	s.giveOne(processSlot)
}

// places bound how many requests of a session wait. Their methods are safe for concurrent use.
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

// A classPart is what one holder has of the slot of a class: a handler, or the task that it has become.
// A holder whose route yields lets its part go while it waits for its client. The zero value has no part.
// Its methods are safe for concurrent use.
type classPart struct{ state atomic.Uint32 }

// What a holder has.
const (
	partNone    uint32 = iota // nothing, or nothing any more
	partHeld                  // the slot
	partYielded               // the slot again, as soon as it takes it
)

// yield lets the part go.
func (p *classPart) yield(of *slots) {
	if p.state.CompareAndSwap(partHeld, partYielded) {
		of.giveClass()
	}
}

// resume takes a part that was let go, and waits for it. It returns the cause of ctx if that ends first.
func (p *classPart) resume(ctx context.Context, of *slots) error {
	if p.state.Load() != partYielded {
		return nil
	}
	if err := of.takeClass(ctx); err != nil {
		return err
	}
	if !p.state.CompareAndSwap(partYielded, partHeld) {
		of.giveClass() // the holder has ended, or another of its goroutines has taken the part
	}
	return nil
}

// end gives the part back for good.
func (p *classPart) end(of *slots) {
	if p.state.Swap(partNone) == partHeld {
		of.giveClass()
	}
}

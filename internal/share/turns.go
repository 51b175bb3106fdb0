package share

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Turns lets only so many goroutines at once do work for callers that takes processor time. The others
// wait. As in a [Pool], the next turn goes to the caller that holds the fewest. If several hold as few, it
// goes to the one that was served longest ago. So a caller with hundreds of busy connections has as much
// of the processors as a caller with one. There is no reserve, because a turn is short: a lone
// caller may take all turns. See also [Turns.SpareOne]. Its methods are safe for concurrent use.
//
// A goroutine must give its turn back before it waits for something. If it does not, or needs long, the
// turn lapses after one to two slices while others wait: the goroutine goes on, and another one
// gets the turn. So no goroutine that blocks can stop the others.
type Turns struct {
	pool  *Pool
	slice time.Duration

	// Guarded by pool.mu.
	held  Turn // of the list of turns: next is the oldest one, prev the newest
	timer *time.Timer
	armed bool // the timer runs
	waits TurnWaits
	spare []*waiter // for goroutines that will wait
	last  uint64    // the hash of the caller that wanted the last turn
	began time.Time // when that was another caller than the one before

	// several counts down with each turn. It begins at severalTurns with a turn of another caller than the one before, and
	// again if that was within severalFor.
	several atomic.Int32
}

const (
	severalTurns = 1000
	severalFor   = 10 * time.Second
)

// A Turn is a turn that is held, or the zero value. It must not be copied. [Turn.Give] is safe for
// concurrent use; one goroutine may take a turn, and another one give it back.
type Turn struct {
	of     atomic.Pointer[Turns] // nil if it is not held
	caller *Caller

	// Guarded by the pool of of.
	prev, next *Turn
	seen       bool // it was held when the timer fired last
	lapsed     bool
}

// TurnWaits says how much was waited for turns so far.
type TurnWaits struct {
	Waits  uint64        // goroutines that had to wait, and do not any more
	Waited time.Duration // all of them together
	Lapsed uint64        // turns that were taken away
}

// ErrNoTurn is the error of a wait that took too long.
var ErrNoTurn = errors.New("share: no turn in time")

// SpareOne has the last of several turns be taken only by a caller that is alone: no other one holds a turn or waits for
// one. It returns t, and must be called before the first Take.
//
// With as many turns as processors, all processors can be busy for callers. The Go runtime then asks the kernel only once
// in 10 ms what has come over the connections, and hears late of a caller with one message. With a turn to spare, one
// processor mostly has time to ask. The plain version is to leave this out: docs/limits.md has the figures of both.
func (t *Turns) SpareOne() *Turns {
	if t.pool.size > 1 {
		t.pool.spared = 1
	}
	return t
}

// Take takes a turn for a caller, and waits for it at most for patience. u must not be held; its owner
// must call [Turn.Give], and have a reference to the caller until then. Take returns the cause of ctx
// if that ends first, or ErrNoTurn. Then u is not held.
func (t *Turns) Take(ctx context.Context, u *Turn, c *Caller, patience time.Duration) error {
	p := t.pool
	p.mu.Lock()
	t.note(c)
	a := p.account(c)
	if p.mayEnter(c, a, 1) {
		p.take(a, 1)
		t.add(u, c)
		p.mu.Unlock()
		return nil
	}
	w := t.waiter()
	p.enqueue(c, a, w)
	t.arm()
	p.mu.Unlock()
	return t.wait(ctx, u, c, w, patience)
}

// Several reports whether several callers wanted turns lately: until one of them has wanted all for 10 seconds, and a thousand of them.
func (t *Turns) Several() bool { return t.several.Load() > 0 }

// note notes who wants a turn. It seldom looks at the clock while a caller is alone. The caller must hold pool.mu.
func (t *Turns) note(c *Caller) {
	left := t.several.Load()
	switch {
	case t.last != c.hash:
		if t.last != 0 {
			t.began = time.Now()
			t.several.Store(severalTurns)
		}
		t.last = c.hash
	case left > 1 || left == 1 && time.Since(t.began) > severalFor:
		t.several.Store(left - 1)
	case left == 1:
		t.several.Store(severalTurns)
	}
}

// waiter returns a waiter for one turn. The caller must hold pool.mu.
func (t *Turns) waiter() *waiter {
	n := len(t.spare)
	if n == 0 {
		return newWaiter(1)
	}
	w := t.spare[n-1]
	t.spare = t.spare[:n-1]
	w.has = false
	return w
}

// wait waits for a turn.
func (t *Turns) wait(ctx context.Context, u *Turn, c *Caller, w *waiter, patience time.Duration) error {
	began, p := time.Now(), t.pool
	if w.timer == nil {
		w.timer = time.NewTimer(patience)
	} else {
		w.timer.Reset(patience)
	}
	var err error
	select {
	case <-w.granted:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-w.timer.C:
		err = ErrNoTurn
	}
	w.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.waits.Waits++
	t.waits.Waited += time.Since(began)
	if err != nil {
		p.withdraw(c, p.account(c), w)
		return err
	}
	t.add(u, c)
	if len(t.spare) < maxSpare {
		t.spare = append(t.spare, w)
	}
	return nil
}

// Give gives the turn back, if it is held. u may be nil.
func (u *Turn) Give() {
	if u == nil || u.of.Load() == nil {
		return
	}
	t := u.of.Swap(nil)
	if t == nil {
		return // another goroutine gives it back
	}
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	if !u.lapsed {
		t.remove(u)
	}
}

// add adds a turn to those that are held. The caller must hold pool.mu, as that of the methods below.
func (t *Turns) add(u *Turn, c *Caller) {
	if t.held.next == nil {
		t.held.prev, t.held.next = &t.held, &t.held
	}
	u.caller, u.seen, u.lapsed = c, false, false
	u.prev, u.next = t.held.prev, &t.held
	u.prev.next, u.next.prev = u, u
	u.of.Store(t)
}

func (t *Turns) remove(u *Turn) {
	u.prev.next, u.next.prev = u.next, u.prev
	t.pool.release(u.caller, 1)
}

// arm starts the timer that has turns lapse. It runs only while somebody waits.
func (t *Turns) arm() {
	switch {
	case t.armed:
		return
	case t.timer == nil:
		t.timer = time.AfterFunc(t.slice, t.lapse)
	default:
		t.timer.Reset(t.slice)
	}
	t.armed = true
}

// lapse takes away the turns that it has seen before.
func (t *Turns) lapse() {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	t.armed = false
	for u := t.held.next; u != nil && u != &t.held; {
		next := u.next
		if u.seen {
			u.lapsed = true
			t.waits.Lapsed++
			t.remove(u)
		}
		u.seen = true
		u = next
	}
	if t.pool.waiters > 0 {
		t.arm()
	}
}

// Usage returns the state of the turns.
func (t *Turns) Usage() Usage { return t.pool.Usage() }

// Largest returns how many turns that one of the callers holds that holds most, and whose they are.
func (t *Turns) Largest(among []*Caller) (held int, of Key) { return t.pool.Largest(among) }

// Waits returns how much was waited so far.
func (t *Turns) Waits() TurnWaits {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	return t.waits
}

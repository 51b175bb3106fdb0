package session

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Work is what a handler does: a [*Request] until its handler has returned and the fate of
// its answer is known, and a [*Detached], which goes on as a task after that.
type Work interface {
	// Cancellation returns why and when the context of the work was cancelled, and nil if it
	// was not.
	Cancellation() (*mcp.CancelError, time.Time)
	// Observed returns what the observer has set as the Observation of the work.
	Observed() any
	// LogAttrs returns the fields by which logs name the work.
	LogAttrs() []any

	part() *work
	labels() *Series
	context() context.Context
	started() bool // the handler was called
	cancelPhase() int
	number() string
	// interrupt cancels the handler and leaves it time to return.
	interrupt(err *mcp.CancelError) bool
	// release gives up a hold.
	release()
	// leave is called when the last hold was given up, and the observer knows.
	leave()
}

// work is what requests and detached work have in common: the first cause of a cancellation
// that wins, the place in the live set, and what happens to a handler that ignores its
// context.
type work struct {
	// Observation belongs to the observer, which sets it in Begin or Detached.
	Observation any

	marks     atomic.Uint32 // see [Mark]
	core      *Core
	self      Work // that this is a part of
	life      life
	began     time.Time
	cancel    context.CancelCauseFunc
	cancelled atomic.Pointer[cancellation]
	unwind    atomic.Pointer[time.Timer] // of cancelled work that has not returned
	// holds counts the uses of the work: its handler, the fate of its answer, and each
	// cancellation or abandonment that goes on. At zero the work leaves the live set.
	holds atomic.Int32

	// Guarded by lane.mu.
	lane       *lane
	prev, next *work
	observed   bool // the observer knows of it
	returned   bool
	abandoned  bool
}

// A life is what kind of work it is: an index of the counters.
type life uint8

const (
	requestLife life = iota
	taskLife
	numLives
)

// A cancellation is when and why work was cancelled.
type cancellation struct {
	err *mcp.CancelError
	at  time.Time
}

func (w *work) part() *work { return w }

// Observed implements [Work].
func (w *work) Observed() any { return w.Observation }

// Cancellation implements [Work].
func (w *work) Cancellation() (*mcp.CancelError, time.Time) {
	if c := w.cancelled.Load(); c != nil {
		return c.err, c.at
	}
	return nil, time.Time{}
}

// age returns the time since the work began.
func (w *work) age() time.Duration { return time.Since(w.began) }

// hold keeps the work in the live set until release; false if it has left.
func (w *work) hold() bool {
	for {
		n := w.holds.Load()
		if n == 0 {
			return false
		}
		if w.holds.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// finish tells the observer of the end, and takes the work out of the live set: in this
// order, because a drain waits for the live set, and what the observer has to say must not
// come after the end.
func (w *work) finish() {
	w.core.tell("Finished", func(o Observer) { o.Finished(w.self) })
	w.self.leave()
	w.lane.mu.Lock()
	w.lane.remove(w)
	sealed := w.lane.sealed
	w.lane.mu.Unlock()
	if sealed {
		w.core.ledger.left()
	}
}

// cancelWith cancels the context of the work, counts the cause and looks after the handler.
// It returns false for a task that has returned or was cancelled before; of a request the
// caller must have won the cause.
func (w *work) cancelWith(err *mcp.CancelError) bool {
	w.lane.mu.Lock()
	if w.life == taskLife && (w.returned || w.cancelled.Load() != nil) {
		w.lane.mu.Unlock()
		return false
	}
	phase := w.self.cancelPhase()
	w.cancelled.Store(&cancellation{err, time.Now()})
	w.lane.of(w.self.labels()).cancelled[w.life][indexOf(causes, err.Cause)][phase]++
	observed := w.observed
	w.lane.mu.Unlock()
	w.cancel(err)
	if observed {
		w.core.tell("Cancelled", func(o Observer) { o.Cancelled(w.self, err, cancelPhases[phase]) })
	}
	w.watchUnwind()
	return true
}

// panicked counts a panic of the work, or, with a nil value, a runtime.Goexit.
func (w *work) panicked(value any, stack []byte) {
	w.lane.mu.Lock()
	w.lane.of(w.self.labels()).panics++
	w.lane.mu.Unlock()
	w.core.tell("Panicked", func(o Observer) { o.Panicked(w.self, value, stack) })
	w.core.logger.ErrorContext(w.self.context(), "handler.panic",
		append(w.self.LogAttrs(), "panic", panicText(value), "stack", string(stack))...)
}

// hasReturned reports whether the handler has returned.
func (w *work) hasReturned() bool {
	w.lane.mu.Lock()
	defer w.lane.mu.Unlock()
	return w.returned
}

// noteReturn notes that the handler has returned, late or not, and reports whether it was
// abandoned before.
func (w *work) noteReturn() (abandoned bool) {
	w.lane.mu.Lock()
	w.returned = true
	abandoned = w.abandoned
	w.lane.mu.Unlock()
	if t := w.unwind.Load(); t != nil {
		t.Stop()
	}
	return abandoned
}

// logLateReturn logs the return of an abandoned handler. A log handler may block: what others
// wait for is given back before.
func (w *work) logLateReturn() {
	w.core.logger.InfoContext(w.self.context(), "handler.returned", w.self.LogAttrs()...)
}

// watchUnwind looks after a cancelled handler: it warns when the handler has not returned
// within the clean-up grace, and abandons it after the abandon grace.
func (w *work) watchUnwind() {
	if !w.self.started() {
		return
	}
	limits := &w.core.limits
	w.unwind.Store(time.AfterFunc(limits.CleanupGrace, func() {
		if w.hasReturned() {
			return
		}
		w.core.logger.WarnContext(w.self.context(), "handler.slow_unwind", w.self.LogAttrs()...)
		w.unwind.Store(time.AfterFunc(limits.AbandonGrace-limits.CleanupGrace, func() { w.abandon() }))
	}))
}

// abandon counts a handler that has not returned; false if it has.
func (w *work) abandon() bool {
	if !w.self.started() || !w.hold() {
		return false
	}
	defer w.self.release()
	cause := w.endCause()
	w.lane.mu.Lock()
	returned, first, observed := w.returned, !w.returned && !w.abandoned, w.observed
	if first {
		w.abandoned = true
		w.lane.of(w.self.labels()).abandoned[indexOf(causes, cause)]++
	}
	w.lane.mu.Unlock()
	if first {
		w.core.logger.WarnContext(w.self.context(), "handlers.abandoned", append(w.self.LogAttrs(), "cause", cause)...)
		if observed {
			w.core.tell("Abandoned", func(o Observer) { o.Abandoned(w.self) })
		}
	}
	return !returned
}

// endCause returns the cause with which abandoned work was cancelled.
func (w *work) endCause() mcp.Cause {
	if err, _ := w.Cancellation(); err != nil {
		return err.Cause
	}
	return mcp.CauseServerShutdown
}

// describe names work that was left behind.
func (w *work) describe() string {
	s := w.self.labels()
	return fmt.Sprintf("%s %s (%s, %v)", s.Method, s.Target, w.self.number(), w.age().Round(time.Millisecond))
}

// A HandlerPanic carries the panic of a handler from the goroutine on which it
// happened to that of its request, which panics with it.
type HandlerPanic struct {
	Value any // nil for a runtime.Goexit
	Stack []byte
}

// Error returns the panic's text.
func (p *HandlerPanic) Error() string { return panicText(p.Value) }

// panicText is how logs tell of a panic; nil is a runtime.Goexit.
func panicText(value any) string {
	if value == nil {
		return "goexit"
	}
	return fmt.Sprint(value)
}

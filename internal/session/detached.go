package session

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Detached is the work of a handler that goes on after its request was answered: a
// task. It has no answer and no connection, and of the request's slots only that of
// the class, which bounds what runs. It shares with a request the
// first cause that wins, what happens to a handler that ignores it, and the drain.
// Its methods may be called from any goroutine.
type Detached struct {
	Series *Series
	// Name tells it from others in logs and snapshots.
	Name string
	// Observation belongs to the observer, which sets it in Detached.
	Observation any

	// Principal is on whose behalf it runs, or nil.
	Principal *auth.Principal

	core      *Core
	began     time.Time
	deadline  time.Time
	class     *slots // in whose class it runs, or nil
	cancel    context.CancelCauseFunc
	ctx       atomic.Pointer[context.Context]
	cancelled atomic.Pointer[cancellation] // written with core.detached.mu held
	unwind    atomic.Pointer[time.Timer]   // of a cancelled handler that has not returned

	// Guarded by core.detached.mu.
	observed  bool // the observer knows of it
	returned  bool
	abandoned bool
	end       DetachedEnd
	// holds counts who still has something to do with the work: the handler, and whoever
	// cancels or abandons it. At zero it leaves the set.
	holds int
}

// A DetachedEnd is how detached work has ended.
type DetachedEnd struct {
	Status mcp.TaskStatus
	// Error is the error of a failed task, ToolError that its result has isError set.
	Error     *mcp.Error
	ToolError bool
	// Hidden is the error of the handler, unless its client is told just that.
	Hidden error
}

// StoppedEnd is how work ends that was cancelled, whether or not its handler returns: what
// we do to it is a failure, what its client wants is none.
func StoppedEnd(cause mcp.Cause) DetachedEnd {
	switch {
	case !cause.Fault():
		return DetachedEnd{Status: mcp.TaskCancelled}
	case cause == mcp.CauseDeadline:
		return failedEnd(cause, "the task took longer than it may live")
	}
	return failedEnd(cause, "the task was cancelled: "+string(cause))
}

func failedEnd(cause mcp.Cause, message string) DetachedEnd {
	err := mcp.NewError(mcp.CodeInternalError, "%s", message).WithData(mcp.ErrorData{Reason: string(cause)})
	return DetachedEnd{Status: mcp.TaskFailed, Error: err}
}

// detachedSet holds the detached work of a core.
type detachedSet struct {
	mu     sync.Mutex
	all    map[*Detached]struct{}
	sealed bool
	idle   chan struct{} // closed when the set is sealed and empty
}

// Detach enters work that goes on after r was answered. Its context has the values of
// ctx and not its cancellation, and tells of the deadline, which the caller enforces.
// The drain waits for the work like for a request, until [Detached.Done] is called.
// Detach returns an error answer when the server drains or too much work is detached.
func (c *Core) Detach(ctx context.Context, r *Request, name string, deadline time.Time) (*Detached, *mcp.Error) {
	d := &Detached{Series: r.Route.Series, Name: name, core: c, began: time.Now(), deadline: deadline, holds: 1}
	if r.Conn != nil {
		d.Principal = r.Conn.Principal
	}
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	d.cancel = cancel
	d.adopt(&requestContext{base, deadline})
	set := &c.detached
	set.mu.Lock()
	sealed, full := set.sealed, len(set.all) >= c.limits.MaxRunningTasks
	if !sealed && !full {
		set.all[d] = struct{}{}
	}
	set.mu.Unlock()
	switch {
	case sealed:
		cancel(mcp.ErrServerShutdown)
		return nil, shuttingDown()
	case full:
		cancel(mcp.ErrRequestDone)
		c.ledger.limitReached(limits.NameRunningTasks)
		return nil, overload(limits.NameRunningTasks)
	}
	if r.slots.share() {
		d.class = &r.slots
	}
	d.observe()
	context.AfterFunc(r.ctx, func() { d.orphaned(r) })
	return d, nil
}

// observe tells the observer of work that has entered the set, and of its cancellation
// if a drain was faster.
func (d *Detached) observe() {
	d.adopt(d.core.observer.Detached(d.Context(), d))
	set := &d.core.detached
	set.mu.Lock()
	d.observed = true
	early := d.cancelled.Load()
	set.mu.Unlock()
	if early != nil {
		d.core.observer.DetachedCancelled(d, early.err)
	}
}

// orphaned cancels work whose request has ended without the answer that would have
// told of the work: nobody can ask for it. A handler that was only told to hurry may
// still have answered.
func (d *Detached) orphaned(r *Request) {
	switch err, _ := r.Cancellation(); {
	case err == nil: // answered
	case err.Cause == mcp.CauseServerShutdown, err.Cause == mcp.CauseTransportClose:
	default:
		d.Cancel(err)
	}
}

// Context returns the context of the work.
func (d *Detached) Context() context.Context { return *d.ctx.Load() }

// adopt replaces the context by one that is derived from it, such as one with a span.
func (d *Detached) adopt(ctx context.Context) { d.ctx.Store(&ctx) }

// Cancel cancels the context of the work, unless it was cancelled before or has
// ended, and reports whether this call did. Work that does not end is abandoned like
// the handler of a request.
func (d *Detached) Cancel(err *mcp.CancelError) bool {
	set := &d.core.detached
	set.mu.Lock()
	if d.returned || d.cancelled.Load() != nil {
		set.mu.Unlock()
		return false
	}
	d.cancelled.Store(&cancellation{err, time.Now()})
	d.holds++
	observed := d.observed
	set.mu.Unlock()
	defer d.release()
	d.cancel(err)
	ln := d.core.ledger.lane()
	ln.mu.Lock()
	ln.of(d.Series).tasksCancelled[causeIndex(err.Cause)]++
	ln.mu.Unlock()
	if observed {
		d.core.observer.DetachedCancelled(d, err)
	}
	d.core.logger.InfoContext(d.Context(), "task.cancelled", append(d.logAttrs(), "cause", err.Cause)...)
	d.watchUnwind()
	return true
}

// Cancellation returns why and when the work was cancelled; nil if it was not.
func (d *Detached) Cancellation() (*mcp.CancelError, time.Time) {
	if c := d.cancelled.Load(); c != nil {
		return c.err, c.at
	}
	return nil, time.Time{}
}

// Panicked records a panic of the work, or, with a nil value, a runtime.Goexit.
func (d *Detached) Panicked(value any, stack []byte) {
	ln := d.core.ledger.lane()
	ln.mu.Lock()
	ln.of(d.Series).panics++
	ln.mu.Unlock()
	d.core.observer.DetachedPanicked(d, value, stack)
	d.core.logger.ErrorContext(d.Context(), "handler.panic",
		append(d.logAttrs(), "panic", panicText(value), "stack", string(stack))...)
}

// Done says that the work has ended, and how. The end of abandoned work is known already.
func (d *Detached) Done(end DetachedEnd) {
	set := &d.core.detached
	set.mu.Lock()
	d.returned = true
	abandoned := d.abandoned
	if !abandoned {
		d.end = end
	}
	set.mu.Unlock()
	if t := d.unwind.Load(); t != nil {
		t.Stop()
	}
	d.cancel(mcp.ErrRequestDone)
	if d.class != nil {
		d.class.giveClass()
	}
	if !abandoned {
		d.core.countRefusal(end.Error)
	}
	if abandoned {
		d.core.logger.InfoContext(d.Context(), "handler.returned", d.logAttrs()...)
	}
	d.release()
}

// release gives up a hold. Whoever gives up the last one takes the work out of the set.
func (d *Detached) release() {
	set := &d.core.detached
	set.mu.Lock()
	d.holds--
	over := d.holds == 0
	set.mu.Unlock()
	if !over {
		return
	}
	d.core.observer.DetachedFinished(d)
	set.mu.Lock()
	delete(set.all, d)
	last := set.sealed && len(set.all) == 0
	set.mu.Unlock()
	if last {
		close(set.idle)
	}
}

// BeganAt returns when the work was detached.
func (d *Detached) BeganAt() time.Time { return d.began }

// End returns how the work has ended; the zero value before that.
func (d *Detached) End() DetachedEnd {
	d.core.detached.mu.Lock()
	defer d.core.detached.mu.Unlock()
	return d.end
}

func (d *Detached) over() bool {
	d.core.detached.mu.Lock()
	defer d.core.detached.mu.Unlock()
	return d.returned
}

// watchUnwind looks after cancelled work as [Core.watchUnwind] does after a request's
// handler.
func (d *Detached) watchUnwind() {
	limits := &d.core.limits
	d.unwind.Store(time.AfterFunc(limits.CleanupGrace, func() {
		if d.over() {
			return
		}
		d.core.logger.WarnContext(d.Context(), "handler.slow_unwind", d.logAttrs()...)
		d.unwind.Store(time.AfterFunc(limits.AbandonGrace-limits.CleanupGrace, func() { d.abandon() }))
	}))
}

// abandon counts work that has not ended; false if it has.
func (d *Detached) abandon() bool {
	cause := mcp.CauseServerShutdown
	if err, _ := d.Cancellation(); err != nil {
		cause = err.Cause
	}
	set := &d.core.detached
	set.mu.Lock()
	returned, first := d.returned, !d.returned && !d.abandoned
	observed := d.observed
	if first {
		d.abandoned, d.end = true, StoppedEnd(cause)
		d.holds++
	}
	set.mu.Unlock()
	if first {
		defer d.release()
		ln := d.core.ledger.lane()
		ln.mu.Lock()
		ln.of(d.Series).abandoned[causeIndex(cause)]++
		ln.mu.Unlock()
		d.core.logger.WarnContext(d.Context(), "handlers.abandoned", append(d.logAttrs(), "cause", cause)...)
		if observed {
			d.core.observer.DetachedAbandoned(d)
		}
	}
	return !returned
}

// logAttrs are the fields by which logs name the work.
func (d *Detached) logAttrs() []any {
	attrs := []any{"method", d.Series.Method, "target", d.Series.Target, "task", d.Name, "age", time.Since(d.began)}
	return appendText(attrs, "principal", logline.Printable(d.Principal.String(), maxClientText))
}

// describe names work that was left behind.
func (d *Detached) describe() string {
	return fmt.Sprintf("%s %s (task %s, %v)", d.Series.Method, d.Series.Target, d.Name, time.Since(d.began).Round(time.Millisecond))
}

// seal ends the entering of work. idle is closed when the last has ended.
func (s *detachedSet) seal() {
	s.mu.Lock()
	first := !s.sealed
	s.sealed = true
	empty := len(s.all) == 0
	s.mu.Unlock()
	if first && empty {
		close(s.idle)
	}
}

// list returns a private copy of the set.
func (s *detachedSet) list() []*Detached {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Detached, 0, len(s.all))
	for d := range s.all {
		all = append(all, d)
	}
	return all
}

// A DetachedInfo describes detached work.
type DetachedInfo struct {
	Detached  *Detached
	Age       time.Duration
	Left      time.Duration    // of its life; negative if that is over
	Cancel    *mcp.CancelError // nil if not cancelled
	CancelFor time.Duration    // since the cancellation
	Abandoned bool
}

// snapshot describes the set at a moment.
func (s *detachedSet) snapshot(now time.Time) []DetachedInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	infos := make([]DetachedInfo, 0, len(s.all))
	for d := range s.all {
		info := DetachedInfo{Detached: d, Age: now.Sub(d.began), Left: d.deadline.Sub(now), Abandoned: d.abandoned}
		if c := d.cancelled.Load(); c != nil {
			info.Cancel, info.CancelFor = c.err, now.Sub(c.at)
		}
		infos = append(infos, info)
	}
	return infos
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

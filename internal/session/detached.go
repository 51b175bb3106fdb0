package session

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Detached is the work of a handler that goes on after its request was answered: a
// task. It has no answer and no connection. Of the request's slots it has only that of the
// class, which bounds what runs. Its methods are safe for concurrent use.
type Detached struct {
	work
	Series *Series
	// Name tells it from others in logs and snapshots.
	Name string
	// Audit belongs to the observer, which sets it in Detached.
	Audit any
	// Principal is on whose behalf it runs, or nil.
	Principal *auth.Principal
	// Run is 1, or for work that was restarted which run of its handler it is.
	Run int

	client, version string // of its client, as that says
	deadline        time.Time
	caller          *share.Caller
	class           *slots    // in whose class it runs
	inClass         classPart // of the slot of that class
	yields          bool      // it lets its part go while it is blocked
	blocked         blockedTime
	ctx             atomic.Pointer[context.Context]
	status          atomic.Pointer[mcp.TaskStatus]
	end             DetachedEnd // guarded by lane.mu
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
	if cause == mcp.CauseReplicaLost {
		return failedEnd(cause, "the replica that ran the task is lost")
	}
	return failedEnd(cause, "the task was cancelled: "+string(cause))
}

func failedEnd(cause mcp.Cause, message string) DetachedEnd {
	err := mcp.NewError(mcp.CodeInternalError, "%s", message).WithData(mcp.ErrorData{Reason: string(cause)})
	return DetachedEnd{Status: mcp.TaskFailed, Error: err}
}

// Detach enters work that goes on after r was answered. Its context has the values of
// ctx and not its cancellation, and tells of the deadline, which the caller enforces.
// The drain waits for the work like for a request, until [Detached.Done] is called.
// Detach returns an error answer after the drain's deadline, or if too much work is detached.
func (c *Core) Detach(ctx context.Context, r *Request, name string, deadline time.Time) (*Detached, *mcp.Error) {
	d, refused := c.detach(ctx, r, name, deadline, func(w *work) bool { return c.ledger.follow(&r.work, w) })
	if refused != nil {
		return nil, refused
	}
	if d.class.share() {
		d.inClass.state.Store(partHeld)
	}
	d.observe(r)
	context.AfterFunc(r.ctx, func() { d.orphaned(r) })
	return d, nil
}

// detach puts work into the live set by calling enter. Nobody is told of it, and it has no part of its class.
func (c *Core) detach(ctx context.Context, r *Request, name string, deadline time.Time, enter func(*work) bool) (*Detached, *mcp.Error) {
	d := &Detached{Series: r.Route.Series, Name: name, Run: 1, deadline: deadline, class: &r.slots, yields: r.Route.YieldsClass}
	d.core, d.self, d.life, d.began = c, d, taskLife, time.Now()
	d.holds.Store(1)
	if r.Conn != nil {
		d.Principal = r.Conn.Principal
	}
	d.client, d.version = c.ClientOf(r.Inbound, r.session)
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	d.cancel = cancel
	d.adopt(&requestContext{base, deadline})
	d.caller = r.caller.Hold()
	switch full := !c.running.TryAcquire(d.caller); {
	case full && !c.Draining():
		cancel(mcp.ErrRequestDone)
		d.caller.Release()
		c.ledger.limitReached(limits.NameRunningTasks)
		return nil, Overload(limits.NameRunningTasks)
	case full || !enter(&d.work):
		if !full {
			c.running.Release(d.caller)
		}
		d.caller.Release()
		cancel(mcp.ErrServerShutdown)
		return nil, ShuttingDown()
	}
	return d, nil
}

// observe tells the observer of work that has entered the live set, and of its cancellation
// if a drain was faster.
func (d *Detached) observe(r *Request) {
	d.core.tell("Detached", func(o Observer) { d.adopt(o.Detached(d.Context(), r, d)) })
	d.lane.mu.Lock()
	d.observed = true
	early := d.cancelled.Load()
	d.lane.mu.Unlock()
	if early != nil {
		d.core.tell("Cancelled", func(o Observer) { o.Cancelled(d, early.err, cancelPhases[cancelRunning]) })
	}
}

// orphaned cancels work whose request has ended without the answer that would have
// told of the work: no client can ask for it. A handler that was only told to hurry may
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
	if !d.hold() {
		return false
	}
	defer d.release()
	if !d.cancelWith(err) {
		return false
	}
	d.core.logger.InfoContext(d.Context(), "task.cancelled", append(d.LogAttrs(), "cause", err.Cause)...)
	return true
}

// Panicked records a panic of the work, or, with a nil value, a runtime.Goexit.
func (d *Detached) Panicked(value any, stack []byte) { d.panicked(value, stack) }

// Done says that the work has ended, and how. The end of abandoned work is known already.
func (d *Detached) Done(end DetachedEnd) {
	d.lane.mu.Lock()
	d.end = end
	d.lane.mu.Unlock()
	abandoned := d.noteReturn()
	d.cancel(mcp.ErrRequestDone)
	d.inClass.end(d.class)
	if abandoned {
		d.logLateReturn()
	} else {
		d.core.countRefusal(end.Error)
	}
	d.release()
}

// End returns how the work has ended; the zero value before that.
func (d *Detached) End() DetachedEnd {
	d.lane.mu.Lock()
	defer d.lane.mu.Unlock()
	if d.abandoned {
		return StoppedEnd(d.endCause())
	}
	return d.end
}

// Caller returns whose share of the server the work takes. It must not have ended.
func (d *Detached) Caller() share.Key { return d.caller.Key() }

// BeganAt returns when the work was detached.
func (d *Detached) BeganAt() time.Time { return d.began }

func (d *Detached) labels() *Series          { return d.Series }
func (d *Detached) context() context.Context { return d.Context() }
func (d *Detached) started() bool            { return true }
func (d *Detached) number() string           { return "task " + d.Name }

func (d *Detached) interrupt(err *mcp.CancelError) bool { return d.Cancel(err) }

// release gives up a hold.
func (d *Detached) release() {
	if d.holds.Add(-1) == 0 {
		d.finish()
		d.caller.Release()
	}
}

// leave implements [Work].
func (d *Detached) leave() { d.core.running.Release(d.caller) }

// Client returns what the client of the call says of itself, cut and fit to print.
func (d *Detached) Client() (name, version string) { return d.client, d.version }

// SetStatus says which status the clients of the task are told.
func (d *Detached) SetStatus(s mcp.TaskStatus) { d.status.Store(&s) }

// Status returns the latest status of SetStatus, or that the task works.
func (d *Detached) Status() mcp.TaskStatus {
	if s := d.status.Load(); s != nil {
		return *s
	}
	return mcp.TaskWorking
}

// LogAttrs implements [Work].
func (d *Detached) LogAttrs() []any {
	attrs := []any{"method", d.Series.Method, "target", d.Series.Target, "task", d.Name, "age", d.age()}
	if d.Run > 1 {
		attrs = append(attrs, "run", d.Run)
	}
	attrs = appendText(appendText(attrs, "client", d.client), "client_version", d.version)
	return appendText(attrs, "principal", logline.Printable(d.Principal.String(), maxClientText))
}

// cancelPhase implements [Work]: a task runs until it returns.
func (*Detached) cancelPhase() int { return cancelRunning }

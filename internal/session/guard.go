package session

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A guard contains the panics of an observer: they are counted and logged, and the
// core goes on as if the callback had returned. Without it a panic in a callback
// would end the process, or leave a session whose end nobody announces.
// (A callback that calls runtime.Goexit cannot be contained: the goroutine that it
// ends is the core's.)
type guard struct {
	core     *Core
	observer Observer
}

// contain is deferred by every callback.
func (g guard) contain(callback string) {
	if v := recover(); v != nil {
		g.core.containedPanic(callback, v, debug.Stack())
	}
}

// containedPanic counts and logs the panic of something that only records.
func (c *Core) containedPanic(where string, value any, stack []byte) {
	c.ledger.count(func(t *tally) { t.observerPanics++ })
	c.logger.Error("observer.panic", "callback", where, "panic", value, "stack", string(stack))
}

// ContainedPanic counts and logs a panic that a middleware has contained, of something
// that it was given only to record.
func (r *Request) ContainedPanic(where string, value any, stack []byte) {
	r.core.containedPanic(where, value, stack)
}

func (g guard) Begin(ctx context.Context, r *Request) (derived context.Context) {
	derived = ctx
	defer g.contain("Begin")
	return g.observer.Begin(ctx, r)
}

func (g guard) Rejected(r *Request, reason mcp.RejectReason, err *mcp.Error) {
	defer g.contain("Rejected")
	g.observer.Rejected(r, reason, err)
}

func (g guard) Started(r *Request) {
	defer g.contain("Started")
	g.observer.Started(r)
}

func (g guard) Acknowledged(r *Request) {
	defer g.contain("Acknowledged")
	g.observer.Acknowledged(r)
}

func (g guard) Cancelled(r *Request, cancel *mcp.CancelError) {
	defer g.contain("Cancelled")
	g.observer.Cancelled(r, cancel)
}

func (g guard) Panicked(r *Request, value any, stack []byte) {
	defer g.contain("Panicked")
	g.observer.Panicked(r, value, stack)
}

func (g guard) Dropped(r *Request, reason mcp.DropReason) {
	defer g.contain("Dropped")
	g.observer.Dropped(r, reason)
}

func (g guard) NotificationDropped(r *Request, method string, reason mcp.DropReason) {
	defer g.contain("NotificationDropped")
	g.observer.NotificationDropped(r, method, reason)
}

func (g guard) Abandoned(r *Request) {
	defer g.contain("Abandoned")
	g.observer.Abandoned(r)
}

func (g guard) Finished(r *Request) {
	defer g.contain("Finished")
	g.observer.Finished(r)
}

func (g guard) Detached(ctx context.Context, d *Detached) (derived context.Context) {
	derived = ctx
	defer g.contain("Detached")
	return g.observer.Detached(ctx, d)
}

func (g guard) DetachedCancelled(d *Detached, cancel *mcp.CancelError) {
	defer g.contain("DetachedCancelled")
	g.observer.DetachedCancelled(d, cancel)
}

func (g guard) DetachedPanicked(d *Detached, value any, stack []byte) {
	defer g.contain("DetachedPanicked")
	g.observer.DetachedPanicked(d, value, stack)
}

func (g guard) DetachedAbandoned(d *Detached) {
	defer g.contain("DetachedAbandoned")
	g.observer.DetachedAbandoned(d)
}

func (g guard) DetachedFinished(d *Detached) {
	defer g.contain("DetachedFinished")
	g.observer.DetachedFinished(d)
}

func (g guard) Notified(ctx context.Context, in *Inbound, s *Session) (derived context.Context, end func()) {
	derived, end = ctx, func() {}
	defer g.contain("Notified")
	derived, done := g.observer.Notified(ctx, in, s)
	return derived, func() {
		defer g.contain("Notified")
		done()
	}
}

func (g guard) Asked(
	ctx context.Context, s *Session, method string, params []byte,
) (sent []byte, end func(mcp.ID, error)) {
	sent, end = params, func(mcp.ID, error) {}
	defer g.contain("Asked")
	sent, done := g.observer.Asked(ctx, s, method, params)
	return sent, func(id mcp.ID, err error) {
		defer g.contain("Asked")
		done(id, err)
	}
}

func (g guard) Written(c *Conn, n int, took time.Duration) {
	defer g.contain("Written")
	g.observer.Written(c, n, took)
}

func (g guard) SessionOpened(s *Session) {
	defer g.contain("SessionOpened")
	g.observer.SessionOpened(s)
}

func (g guard) SessionClosed(s *Session, cause mcp.Cause) {
	defer g.contain("SessionClosed")
	g.observer.SessionClosed(s, cause)
}

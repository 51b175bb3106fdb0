package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// An Observer is told what happens to requests and sessions. The core counts by
// itself (see [Core.Snapshot]); an observer adds spans, histograms and exemplars. The
// core calls it without holding a lock, from many goroutines; for one request,
// Begin comes first and Finished or Rejected last. A panic in a callback is counted,
// logged and contained; a callback may close sessions, but must not wait for them.
type Observer interface {
	// Begin is told of a request that has arrived, before it is admitted or rejected.
	// The context that it returns is the handler's; it must be derived from ctx. It
	// may keep what it needs in r.Observation.
	Begin(ctx context.Context, r *Request) context.Context
	// Rejected ends a request that was refused before admission.
	Rejected(r *Request, reason mcp.RejectReason, err *mcp.Error)
	// Started: a slot is free and the handler is about to be called.
	Started(r *Request)
	// Acknowledged: the request has become a subscription, which has no part in the
	// durations of operations from here on.
	Acknowledged(r *Request)
	// Cancelled: the request's context was cancelled, for the first and only time.
	Cancelled(r *Request, cancel *mcp.CancelError)
	// Panicked: the handler panicked; value is nil for runtime.Goexit.
	Panicked(r *Request, value any, stack []byte)
	// Dropped: the answer will not be sent.
	Dropped(r *Request, reason mcp.DropReason)
	// NotificationDropped: a notification about the request will not be sent.
	NotificationDropped(r *Request, method string, reason mcp.DropReason)
	// Abandoned: the handler ignored its cancelled context for too long.
	Abandoned(r *Request)
	// Finished: the handler has returned and the fate of the answer is known. After
	// Abandoned it tells of the late return.
	Finished(r *Request)
	// Detached: a request goes on as d, a task, and will be answered with that. The context
	// that it returns is the one of the work; it must be derived from ctx. It may keep what
	// it needs in d.Observation. Of the calls about d it is the first, and DetachedFinished
	// is the last.
	Detached(ctx context.Context, d *Detached) context.Context
	// DetachedCancelled: the context of the work was cancelled, for the first and only time.
	DetachedCancelled(d *Detached, cancel *mcp.CancelError)
	// DetachedPanicked: the handler panicked; value is nil for runtime.Goexit.
	DetachedPanicked(d *Detached, value any, stack []byte)
	// DetachedAbandoned: the handler ignored its cancelled context for too long.
	DetachedAbandoned(d *Detached)
	// DetachedFinished: the handler has returned. After DetachedAbandoned it tells of the
	// late return.
	DetachedFinished(d *Detached)
	// Notified frames the handling of a notification: it returns the context for it,
	// derived from ctx, and a function that is called at its end. s may be nil.
	Notified(ctx context.Context, in *Inbound, s *Session) (context.Context, func())
	// Asked frames a request to the client: it returns the params that are sent, into
	// whose _meta it may have put something, and a function that is called at the end of
	// the wait with the id, the zero value if the request was not made, and the error. ctx
	// is that of who asks.
	Asked(ctx context.Context, s *Session, method string, params []byte) (_ []byte, end func(id mcp.ID, err error))
	// Written: a message of n bytes took so long to write and flush.
	Written(c *Conn, n int, took time.Duration)
	// SessionOpened and SessionClosed frame the life of a connection or a legacy session.
	SessionOpened(s *Session)
	SessionClosed(s *Session, cause mcp.Cause)
}

// NopObserver observes nothing. Embed it to implement a part of [Observer].
type NopObserver struct{}

// Begin implements [Observer].
func (NopObserver) Begin(ctx context.Context, _ *Request) context.Context { return ctx }

// Rejected implements [Observer].
func (NopObserver) Rejected(*Request, mcp.RejectReason, *mcp.Error) {}

// Started implements [Observer].
func (NopObserver) Started(*Request) {}

// Acknowledged implements [Observer].
func (NopObserver) Acknowledged(*Request) {}

// Cancelled implements [Observer].
func (NopObserver) Cancelled(*Request, *mcp.CancelError) {}

// Panicked implements [Observer].
func (NopObserver) Panicked(*Request, any, []byte) {}

// Dropped implements [Observer].
func (NopObserver) Dropped(*Request, mcp.DropReason) {}

// NotificationDropped implements [Observer].
func (NopObserver) NotificationDropped(*Request, string, mcp.DropReason) {}

// Abandoned implements [Observer].
func (NopObserver) Abandoned(*Request) {}

// Finished implements [Observer].
func (NopObserver) Finished(*Request) {}

// Detached implements [Observer].
func (NopObserver) Detached(ctx context.Context, _ *Detached) context.Context { return ctx }

// DetachedCancelled implements [Observer].
func (NopObserver) DetachedCancelled(*Detached, *mcp.CancelError) {}

// DetachedPanicked implements [Observer].
func (NopObserver) DetachedPanicked(*Detached, any, []byte) {}

// DetachedAbandoned implements [Observer].
func (NopObserver) DetachedAbandoned(*Detached) {}

// DetachedFinished implements [Observer].
func (NopObserver) DetachedFinished(*Detached) {}

// Notified implements [Observer].
func (NopObserver) Notified(ctx context.Context, _ *Inbound, _ *Session) (context.Context, func()) {
	return ctx, func() {}
}

// Asked implements [Observer].
func (NopObserver) Asked(_ context.Context, _ *Session, _ string, params []byte) ([]byte, func(mcp.ID, error)) {
	return params, func(mcp.ID, error) {}
}

// Written implements [Observer].
func (NopObserver) Written(*Conn, int, time.Duration) {}

// SessionOpened implements [Observer].
func (NopObserver) SessionOpened(*Session) {}

// SessionClosed implements [Observer].
func (NopObserver) SessionClosed(*Session, mcp.Cause) {}

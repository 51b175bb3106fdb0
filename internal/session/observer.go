package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
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
	// Cancelled: the context of the work was cancelled, for the first and only time, in a phase of
	// [CancelPhases].
	Cancelled(w Work, cancel *mcp.CancelError, phase string)
	// TraceOf returns the trace context of the span in ctx as text, for another replica; "" if there is none.
	TraceOf(ctx context.Context) string
	// CameThrough: a message about the request has come through another replica. kind is [ThroughCancel],
	// [ThroughAnswer] or [ThroughEnd]. What it does is told after that, unless something else was quicker.
	CameThrough(r *Request, kind string, t Through)
	// Panicked: the handler panicked; value is nil for runtime.Goexit.
	Panicked(w Work, value any, stack []byte)
	// Dropped: the answer will not be sent.
	Dropped(r *Request, reason mcp.DropReason)
	// Stored: the answer is in the event store, and was not sent. The context that it returns is for
	// the log line that is written if no client fetches the answer. It should not keep the request.
	Stored(r *Request) context.Context
	// AnswerExpired: no client can fetch a stored answer any more. It must not change a. p is the principal
	// of the request, or nil.
	AnswerExpired(a *ExpiredAnswer, p *auth.Principal)
	// NotificationDropped: a notification about the request will not be sent.
	NotificationDropped(r *Request, method string, reason mcp.DropReason)
	// Abandoned: the handler ignored its cancelled context for too long.
	Abandoned(w Work)
	// Finished: the handler has returned and, of a request, the fate of the answer is known.
	// After Abandoned it tells of the late return.
	Finished(w Work)
	// Detached: a request goes on as d, a task, and will be answered with that. The context
	// that it returns is the one of the work; it must be derived from ctx. It may keep what
	// it needs in d.Observation and d.Audit. Of the calls about d it is the first, and Finished
	// is the last.
	Detached(ctx context.Context, r *Request, d *Detached) context.Context
	// Notified frames the handling of a notification: it returns the context for it,
	// derived from ctx, and a function that is called at its end. s may be nil.
	Notified(ctx context.Context, in *Inbound, s *Session) (context.Context, func())
	// NotificationEnded tells what came of a notification, before the function that Notified
	// has returned is called. ctx is the context of Notified. s may be nil.
	NotificationEnded(ctx context.Context, in *Inbound, s *Session, end NotificationEnd)
	// ExchangeRefused: an HTTP exchange has ended before it carried a message, or a byte
	// stream before its first one.
	ExchangeRefused(x *RefusedExchange)
	// ExchangeEnded: an event stream over HTTP has ended, or the peer of an HTTP exchange has left before
	// its answer was written.
	ExchangeEnded(e *ExchangeEnd)
	// ResourceUnsubscribed: a legacy session was subscribed to a resource for so long. end is one of
	// [ResourceSubscriptionEnds].
	ResourceUnsubscribed(s *Session, end string, age time.Duration)
	// Asked frames a request to the client: it returns the params that are sent, into
	// whose _meta it may have put something, and a function that is called at the end of
	// the wait with the id, the zero value if the request was not made, and the error. ctx
	// is the context of the caller of Ask.
	Asked(ctx context.Context, s *Session, method string, params []byte) (_ []byte, end func(id mcp.ID, err error))
	// Written: a message of n bytes took so long to write and flush.
	Written(c *Conn, n int, took time.Duration)
	// SessionOpened and SessionClosed frame the life of a connection or a legacy session.
	SessionOpened(s *Session)
	SessionClosed(s *Session, cause mcp.Cause)
	// SessionDeleted: the client has deleted its session, over conn. SessionClosed follows.
	SessionDeleted(s *Session, conn *Conn)
}

// A NotificationEnd is what came of a notification. The zero value says that it was handled.
type NotificationEnd struct {
	Ignored  mcp.IgnoreReason // it concerned nothing, or came too often
	Rejected mcp.RejectReason // it was rejected before a session could receive it
	Refusal  *mcp.Refusal     // of one that came too often; else nil
}

// A RefusedExchange is an HTTP exchange, or a byte stream, that was refused before it carried a
// message.
type RefusedExchange struct {
	// Conn is the connection, with the principal if that was found before.
	Conn *Conn
	// Method is the method of HTTP, "" for a byte stream.
	Method string
	// Reason is why. Refusal is that of the authenticator, else nil.
	Reason  mcp.RefuseReason
	Refusal *mcp.Refusal
	// Status is the status of the HTTP response, or 0.
	Status int
}

// A NopObserver observes nothing. Embed it to implement a part of [Observer].
type NopObserver struct{}

func (NopObserver) Begin(ctx context.Context, _ *Request) context.Context { return ctx }
func (NopObserver) Rejected(*Request, mcp.RejectReason, *mcp.Error)       {}
func (NopObserver) Started(*Request)                                      {}
func (NopObserver) Acknowledged(*Request)                                 {}
func (NopObserver) Cancelled(Work, *mcp.CancelError, string)              {}
func (NopObserver) TraceOf(context.Context) string                        { return "" }
func (NopObserver) CameThrough(*Request, string, Through)                 {}
func (NopObserver) Panicked(Work, any, []byte)                            {}
func (NopObserver) Dropped(*Request, mcp.DropReason)                      {}
func (NopObserver) NotificationDropped(*Request, string, mcp.DropReason)  {}
func (NopObserver) Abandoned(Work)                                        {}
func (NopObserver) Finished(Work)                                         {}
func (NopObserver) ExchangeRefused(*RefusedExchange)                      {}
func (NopObserver) SessionDeleted(*Session, *Conn)                        {}
func (NopObserver) ExchangeEnded(*ExchangeEnd)                            {}
func (NopObserver) AnswerExpired(*ExpiredAnswer, *auth.Principal)         {}
func (NopObserver) ResourceUnsubscribed(*Session, string, time.Duration)  {}
func (NopObserver) Written(*Conn, int, time.Duration)                     {}
func (NopObserver) SessionOpened(*Session)                                {}
func (NopObserver) SessionClosed(*Session, mcp.Cause)                     {}

func (NopObserver) Stored(*Request) context.Context { return context.Background() }

func (NopObserver) Detached(ctx context.Context, _ *Request, _ *Detached) context.Context {
	return ctx
}

func (NopObserver) NotificationEnded(context.Context, *Inbound, *Session, NotificationEnd) {}

func (NopObserver) Notified(ctx context.Context, _ *Inbound, _ *Session) (context.Context, func()) {
	return ctx, func() {}
}

func (NopObserver) Asked(_ context.Context, _ *Session, _ string, params []byte) ([]byte, func(mcp.ID, error)) {
	return params, func(mcp.ID, error) {}
}

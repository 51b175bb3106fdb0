// Package observe reports the events of the session core to package telemetry, through its public
// API.
package observe

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// An Observer reports the events of a core to telemetry.
type Observer struct {
	t *telemetry.Telemetry

	mu    sync.RWMutex // guards the rest
	known map[string]*telemetry.Series
}

var _ session.Observer = (*Observer)(nil)

// New returns an observer that reports to t.
func New(t *telemetry.Telemetry) *Observer {
	return &Observer{t: t, known: map[string]*telemetry.Series{}}
}

// KnowNotification allows the name of a notification in spans and metrics. It must be a constant of
// the program. Other notifications that are not the protocol's are "_OTHER".
func (o *Observer) KnowNotification(method string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known[method] = o.t.Series(method, "")
}

// Knows reports whether a notification is one of the program's.
func (o *Observer) Knows(method string) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	_, known := o.known[method]
	return known
}

// operation returns the operation of a request. It is nil if no observer has begun one.
func operation(r *session.Request) *telemetry.Operation {
	op, _ := r.Observation.(*telemetry.Operation)
	return op
}

// Begin implements [session.Observer].
func (o *Observer) Begin(ctx context.Context, r *session.Request) context.Context {
	if !o.t.Enabled() {
		return ctx
	}
	of := r.Route.Series
	info := telemetry.Info{
		Series: o.t.Series(of.Method, of.Target), Version: r.Version, Header: r.Header,
		ArrivedAt: r.ArrivedAt(), Origin: (*origin)(r), Class: r.Route.Class.Label(),
	}
	addConn(&info, r.Conn)
	addCarrier(&info, r.Inbound)
	ctx, op := o.t.Begin(ctx, info)
	r.Observation = op
	return ctx
}

// Rejected implements [session.Observer].
func (o *Observer) Rejected(r *session.Request, reason mcp.RejectReason, err *mcp.Error) {
	if op := operation(r); op != nil {
		if refusal, ok := mcp.AsRefusal(err); ok {
			op.Error(refusal)
		}
		out := telemetry.Outcome{Rejected: reason, Err: err}
		addTimes(&out, r)
		op.End(out)
	}
}

// Started implements [session.Observer].
func (o *Observer) Started(r *session.Request) {
	if op := operation(r); op != nil {
		wait, _ := r.QueueWait()
		op.Started(wait)
	}
}

// Stored implements [session.Observer].
func (o *Observer) Stored(r *session.Request) context.Context {
	return trace.ContextWithSpanContext(context.Background(), operation(r).SpanContext())
}

// AnswerExpired implements [session.Observer].
func (o *Observer) AnswerExpired(a *session.ExpiredAnswer, p *auth.Principal) {
	o.t.AnswerExpired(telemetry.Info{
		Method: a.Method, Target: a.Target, Principal: p,
		Client: &mcp.Implementation{Name: a.Client, Version: a.ClientVersion},
	}, a.Reason)
}

// Acknowledged implements [session.Observer].
func (o *Observer) Acknowledged(r *session.Request) { operation(r).Acknowledged() }

// An observation is the operation of a request, or a task.
type observation interface {
	Panicked(value any, stack []byte)
	Error(err error)
	Abandoned(out telemetry.Outcome)
	End(out telemetry.Outcome)
}

// observationOf returns the observation of work. It is nil if telemetry is disabled.
func observationOf(w session.Work) observation {
	x, _ := w.Observed().(observation)
	return x
}

// Cancelled implements [session.Observer].
func (o *Observer) Cancelled(w session.Work, cancel *mcp.CancelError, phase string) {
	switch x := observationOf(w).(type) {
	case *telemetry.Operation:
		x.CancelledIn(phase, cancel.Cause, cancel.Detail)
	case *telemetry.Task:
		x.Cancelled(cancel.Cause, cancel.Detail)
	}
}

// TraceOf implements [session.Observer].
func (o *Observer) TraceOf(ctx context.Context) string { return o.t.TraceParent(ctx) }

// CameThrough implements [session.Observer].
func (o *Observer) CameThrough(r *session.Request, kind string, t session.Through) {
	operation(r).Signalled(kind, t.Replica, t.Trace)
}

// Panicked implements [session.Observer].
func (o *Observer) Panicked(w session.Work, value any, stack []byte) {
	if x := observationOf(w); x != nil {
		x.Panicked(value, stack)
	}
}

// Abandoned implements [session.Observer].
func (o *Observer) Abandoned(w session.Work) {
	if x := observationOf(w); x != nil {
		var out telemetry.Outcome
		addOutcome(&out, w)
		x.Abandoned(out)
	}
}

// Finished implements [session.Observer].
func (o *Observer) Finished(w session.Work) {
	if x := observationOf(w); x != nil {
		var out telemetry.Outcome
		if hidden := addOutcome(&out, w); hidden != nil {
			x.Error(hidden)
		}
		x.End(out)
	}
}

// Dropped implements [session.Observer].
func (o *Observer) Dropped(r *session.Request, reason mcp.DropReason) { operation(r).Dropped(reason) }

// NotificationDropped implements [session.Observer].
func (o *Observer) NotificationDropped(r *session.Request, method string, reason mcp.DropReason) {
	operation(r).NotificationDropped(method, reason)
}

// addTimes adds the sizes and times of a request at its end.
func addTimes(out *telemetry.Outcome, r *session.Request) {
	out.RequestBytes, out.AnswerBytes, out.Settled, out.Blocked = r.Bytes, r.ReplyBytes(), r.Latency(), r.Blocked()
	out.Started, _ = r.QueueWait()
	out.Returned, _ = r.HandlerDone()
	out.SettledIn, out.Streams = r.SettledIn().String(), r.Route.Streams
	addCancellation(out, r, r.ArrivedAt())
}

// addOutcome adds the outcome of work. hidden is the own error of a task's handler if the client is
// not told it.
func addOutcome(out *telemetry.Outcome, w session.Work) (hidden error) {
	switch w := w.(type) {
	case *session.Request:
		addTimes(out, w)
		fate, dropped := w.Fate()
		out.Err, out.Fate, out.Dropped = w.Error(), telemetry.Fate(fate.String()), dropped
		if after, ok := w.Acknowledged(); ok {
			out.Acknowledged, out.SubscriptionEnd = after, w.End()
		}
	case *session.Detached:
		end := w.End()
		out.TaskStatus, out.Err, out.ToolError, out.Settled = end.Status, end.Error, end.ToolError, time.Since(w.BeganAt())
		addCancellation(out, w, w.BeganAt())
		return end.Hidden
	}
	return nil
}

// addCancellation adds the cause and the time of a cancellation. began is when the work began.
func addCancellation(out *telemetry.Outcome, w session.Work, began time.Time) {
	if cancel, at := w.Cancellation(); cancel != nil {
		out.Cancelled, out.CancelledAfter = cancel, at.Sub(began)
	}
}

// Detached implements [session.Observer].
func (o *Observer) Detached(ctx context.Context, _ *session.Request, d *session.Detached) context.Context {
	ctx, task := o.t.BeginTask(ctx, d.Series.Target, d.Name)
	if task != nil {
		d.Observation = task
	}
	if d.Run > 1 {
		task.Restarted(d.Run, d.Principal)
	}
	return ctx
}

// Notified implements [session.Observer].
func (o *Observer) Notified(ctx context.Context, in *session.Inbound, s *session.Session) (context.Context, func()) {
	if !o.t.Enabled() {
		return ctx, func() {}
	}
	info := describe(in, s)
	addCarrier(&info, in)
	o.mu.RLock()
	info.Series = o.known[in.Method]
	o.mu.RUnlock()
	return o.t.Notification(ctx, info)
}

// NotificationEnded implements [session.Observer].
func (o *Observer) NotificationEnded(context.Context, *session.Inbound, *session.Session, session.NotificationEnd) {
}

// ExchangeRefused implements [session.Observer].
func (o *Observer) ExchangeRefused(*session.RefusedExchange) {}

// SessionDeleted implements [session.Observer].
func (o *Observer) SessionDeleted(*session.Session, *session.Conn) {}

// ExchangeEnded implements [session.Observer].
func (o *Observer) ExchangeEnded(e *session.ExchangeEnd) {
	var info telemetry.Info
	var op *telemetry.Operation
	switch {
	case e.Request != nil:
		info, op = (*origin)(e.Request).Describe(), operation(e.Request)
	case e.Session != nil:
		info = describeSession(e.Session, e.Session.Peer())
	}
	addConn(&info, e.Conn)
	info.Via, info.ForwardedFor = e.Conn.Via(e.Header)
	o.t.ExchangeEnded(info, op, e.Kind, e.Reason, e.Age)
}

// ResourceUnsubscribed implements [session.Observer].
func (o *Observer) ResourceUnsubscribed(_ *session.Session, end string, age time.Duration) {
	o.t.ResourceUnsubscribed(end, age)
}

// Asked implements [session.Observer].
func (o *Observer) Asked(
	ctx context.Context, s *session.Session, method string, params []byte,
) ([]byte, func(id mcp.ID, err error)) {
	if !o.t.Enabled() {
		return params, func(mcp.ID, error) {}
	}
	info := describeSession(s, s.Peer())
	info.Method = method
	meta, end := o.t.Ask(ctx, info)
	return wire.SetMeta(params, meta), end
}

// Written implements [session.Observer].
func (o *Observer) Written(c *session.Conn, _ int, took time.Duration) {
	o.t.Written(c.Transport, took)
}

// SessionOpened implements [session.Observer].
func (o *Observer) SessionOpened(*session.Session) {}

// SessionClosed implements [session.Observer].
func (o *Observer) SessionClosed(s *session.Session, cause mcp.Cause) {
	o.t.SessionEnded(describeSession(s, s.Peer()), cause)
}

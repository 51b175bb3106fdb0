// Package observe tells package telemetry what happens in our own core, through its
// public API.
package observe

import (
	"context"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// An Observer is what a core reports to.
type Observer struct {
	t *telemetry.Telemetry

	mu    sync.RWMutex // guards the rest
	known map[string]*telemetry.Series
}

var _ session.Observer = (*Observer)(nil)

// New returns an observer that tells t.
func New(t *telemetry.Telemetry) *Observer {
	return &Observer{t: t, known: map[string]*telemetry.Series{}}
}

// KnowNotification names a notification, a constant of the program, in spans and
// metrics. All but those of the protocol and those that are known are "_OTHER".
func (o *Observer) KnowNotification(method string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known[method] = o.t.Series(method, "")
}

// A knownSeries is what a series of the core remembers.
type knownSeries struct {
	t      *telemetry.Telemetry
	series *telemetry.Series
}

// seriesOf returns the series of telemetry for one of the core, which remembers it.
func (o *Observer) seriesOf(s *session.Series) *telemetry.Series {
	if known, ok := s.Observation.Load().(*knownSeries); ok && known.t == o.t {
		return known.series
	}
	known := &knownSeries{o.t, o.t.Series(s.Method, s.Target)}
	s.Observation.Store(known)
	return known.series
}

// operation returns the operation of a request; nil if no observer has begun one.
func operation(r *session.Request) *telemetry.Operation {
	op, _ := r.Observation.(*telemetry.Operation)
	return op
}

// Begin implements [session.Observer].
func (o *Observer) Begin(ctx context.Context, r *session.Request) context.Context {
	if !o.t.Enabled() {
		return ctx
	}
	info := telemetry.Info{
		Series: o.seriesOf(r.Route.Series), Version: r.Version, Header: r.Header,
		ArrivedAt: r.ArrivedAt(), Origin: (*origin)(r),
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

// Acknowledged implements [session.Observer].
func (o *Observer) Acknowledged(r *session.Request) { operation(r).Acknowledged() }

// Cancelled implements [session.Observer].
func (o *Observer) Cancelled(r *session.Request, cancel *mcp.CancelError) {
	operation(r).Cancelled(cancel.Cause, cancel.Detail)
}

// Panicked implements [session.Observer].
func (o *Observer) Panicked(r *session.Request, value any, stack []byte) {
	operation(r).Panicked(value, stack)
}

// Dropped implements [session.Observer].
func (o *Observer) Dropped(r *session.Request, reason mcp.DropReason) { operation(r).Dropped(reason) }

// NotificationDropped implements [session.Observer].
func (o *Observer) NotificationDropped(r *session.Request, method string, reason mcp.DropReason) {
	operation(r).NotificationDropped(method, reason)
}

// Abandoned implements [session.Observer].
func (o *Observer) Abandoned(r *session.Request) {
	if op := operation(r); op != nil {
		var out telemetry.Outcome
		addOutcome(&out, r)
		op.Abandoned(out)
	}
}

// Finished implements [session.Observer].
func (o *Observer) Finished(r *session.Request) {
	if op := operation(r); op != nil {
		var out telemetry.Outcome
		addOutcome(&out, r)
		op.End(out)
	}
}

// addTimes adds what is known at the end of any request.
func addTimes(out *telemetry.Outcome, r *session.Request) {
	out.RequestBytes, out.AnswerBytes, out.Settled, out.Blocked = r.Bytes, r.ReplyBytes(), r.Latency(), r.Blocked()
	out.Started, _ = r.QueueWait()
	out.Returned, _ = r.HandlerDone()
	if cancel, at := r.Cancellation(); cancel != nil {
		out.Cancelled, out.CancelledAfter = cancel, at.Sub(r.ArrivedAt())
	}
}

// addOutcome adds what has become of an admitted request.
func addOutcome(out *telemetry.Outcome, r *session.Request) {
	addTimes(out, r)
	fate, dropped := r.Fate()
	out.Err, out.Fate, out.Dropped = r.Error(), telemetry.Fate(fate.String()), dropped
	if after, ok := r.Acknowledged(); ok {
		out.Acknowledged, out.SubscriptionEnd = after, r.End()
	}
}

// Detached implements [session.Observer].
func (o *Observer) Detached(ctx context.Context, d *session.Detached) context.Context {
	ctx, task := o.t.BeginTask(ctx, d.Series.Target, d.Name)
	d.Observation = task
	return ctx
}

func taskOf(d *session.Detached) *telemetry.Task {
	task, _ := d.Observation.(*telemetry.Task)
	return task
}

// DetachedCancelled implements [session.Observer].
func (o *Observer) DetachedCancelled(d *session.Detached, cancel *mcp.CancelError) {
	taskOf(d).Cancelled(cancel.Cause, cancel.Detail)
}

// DetachedPanicked implements [session.Observer].
func (o *Observer) DetachedPanicked(d *session.Detached, value any, stack []byte) {
	taskOf(d).Panicked(value, stack)
}

// DetachedAbandoned implements [session.Observer].
func (o *Observer) DetachedAbandoned(d *session.Detached) {
	taskOf(d).Abandoned(taskOutcome(d))
}

// DetachedFinished implements [session.Observer].
func (o *Observer) DetachedFinished(d *session.Detached) {
	task := taskOf(d)
	if hidden := d.End().Hidden; hidden != nil {
		task.Error(hidden)
	}
	task.End(taskOutcome(d))
}

func taskOutcome(d *session.Detached) telemetry.Outcome {
	end := d.End()
	out := telemetry.Outcome{
		TaskStatus: end.Status, Err: end.Error, ToolError: end.ToolError, Settled: time.Since(d.BeganAt()),
	}
	if cancel, at := d.Cancellation(); cancel != nil {
		out.Cancelled, out.CancelledAfter = cancel, at.Sub(d.BeganAt())
	}
	return out
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

// Package auditing makes the records of the audit of what the session core reports, and passes it on
// to telemetry. A server without an audit does not use it.
package auditing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An Observer reports to telemetry and records in the audit.
type Observer struct {
	*observe.Observer
	core *session.Core
	log  *audit.Log
}

var _ session.Observer = (*Observer)(nil)

// New returns an observer that reports to telemetry by o, and records in log what core does.
func New(o *observe.Observer, core *session.Core, log *audit.Log) *Observer {
	return &Observer{Observer: o, core: core, log: log}
}

// Strict reports whether each request needs a place for its record.
func (o *Observer) Strict() bool { return o.log.Strict() }

// by names what refuses calls because there is no place for their records.
const by = "audit"

// Reserve takes a place for the record of a request, if the log is strict. The error refuses the
// request: there is none.
func (o *Observer) Reserve(r *session.Request) error {
	switch {
	case !o.log.Strict():
	case o.log.Reserve():
		r.SetMark(session.MarkReserved)
	default:
		return &mcp.Refusal{Status: 503, Reason: by, By: by, Limit: limit, RetryAfter: time.Second}
	}
	return nil
}

// limit is the name of the bound of a sink's queue.
const limit = "audit_queue"

// add records work once. A place that was reserved for it is used.
func (o *Observer) add(w interface{ HasMark(session.Mark) bool }, r audit.Record) {
	if w.HasMark(session.MarkReserved) {
		o.log.AddReserved(r)
	} else {
		o.log.Add(r)
	}
}

// Rejected implements [session.Observer].
func (o *Observer) Rejected(r *session.Request, reason mcp.RejectReason, err *mcp.Error) {
	defer o.Observer.Rejected(r, reason, err) // also if a redactor panics
	rec := o.describe(r)
	refused := rejection(r, reason, err, &rec)
	if r.Conn != nil && r.Conn.Principal != nil && rec.Stage != audit.StageAudit {
		o.add(r, rec)
		return
	}
	if r.HasMark(session.MarkReserved) {
		o.log.Release()
	}
	rec.Reason = refused
	o.log.AddRefusal(rec)
}

// Abandoned implements [session.Observer].
func (o *Observer) Abandoned(w session.Work) {
	defer o.Observer.Abandoned(w)
	o.ended(w, true)
}

// Finished implements [session.Observer].
func (o *Observer) Finished(w session.Work) {
	defer o.Observer.Finished(w)
	o.ended(w, false)
}

// ended records work, unless it was abandoned before.
func (o *Observer) ended(w session.Work, abandoned bool) {
	switch w := w.(type) {
	case *session.Request:
		if w.SetMark(session.MarkRecorded) {
			rec := o.describe(w)
			conclude(w, &rec)
			if abandoned {
				rec.Outcome = audit.OutcomeAbandoned
			}
			o.add(w, rec)
		}
	case *session.Detached:
		if rec, ok := w.Audit.(*audit.Record); ok && w.SetMark(session.MarkRecorded) {
			concludeTask(w, rec)
			if abandoned {
				rec.Outcome = audit.OutcomeAbandoned
			}
			o.add(w, *rec)
		}
	}
}

// Detached implements [session.Observer]. What the record of the task has of its request is kept.
func (o *Observer) Detached(ctx context.Context, r *session.Request, d *session.Detached) context.Context {
	rec := o.describe(r)
	addDecision(r.Decision(), &rec)
	rec.Arguments = nil // the record of the call has their digest
	rec.Task, rec.Time = d.Name, d.BeganAt()
	d.Audit = &rec
	if sc := trace.SpanContextFromContext(ctx); rec.TraceID == "" && sc.HasTraceID() { // a restarted task has no call here
		rec.TraceID = sc.TraceID().String()
	}
	if d.Run > 1 && r.HasMark(session.MarkReserved) || o.log.Strict() && o.log.Reserve() {
		d.SetMark(session.MarkReserved)
	}
	return o.Observer.Detached(ctx, r, d)
}

// NotificationEnded implements [session.Observer]. It records the notifications that act: cancels, and
// those of the program; and all that were refused.
func (o *Observer) NotificationEnded(ctx context.Context, in *session.Inbound, s *session.Session, end session.NotificationEnd) {
	defer o.Observer.NotificationEnded(ctx, in, s, end)
	refused := end.Rejected != "" || end.Refusal != nil
	if in.Method != mcp.NotificationCancelled && !refused && !o.Knows(in.Method) {
		return
	}
	rec := o.describeMessage(in, s)
	rec.Time = time.Now()
	if sc := trace.SpanContextFromContext(ctx); sc.HasTraceID() {
		rec.TraceID = sc.TraceID().String()
	}
	rec.Decision, rec.Stage, rec.Outcome = audit.DecisionAllow, audit.StageHandler, audit.OutcomeOK
	switch {
	case end.Refusal != nil:
		rec.Decision, rec.Stage, rec.Outcome = audit.DecisionRefused, audit.StageRate, audit.OutcomeRefused
		rec.Reason, rec.Rule, rec.ErrorCode = end.Refusal.Reason, end.Refusal.By, end.Refusal.Code()
	case end.Rejected != "":
		rec.Decision, rec.Stage, rec.Outcome = audit.DecisionRefused, stages[end.Rejected], audit.OutcomeRefused
		rec.Reason = string(end.Rejected)
	case end.Ignored != "":
		rec.Outcome, rec.Reason = audit.OutcomeIgnored, string(end.Ignored)
	}
	if refused && rec.Principal == nil {
		o.log.AddRefusal(rec)
		return
	}
	o.log.Add(rec)
}

// ExchangeRefused implements [session.Observer].
func (o *Observer) ExchangeRefused(x *session.RefusedExchange) {
	defer o.Observer.ExchangeRefused(x)
	rec := audit.Record{
		Time: time.Now(), Operation: x.Method, Decision: audit.DecisionRefused, Stage: stageOfExchange(x.Reason),
		Outcome: audit.OutcomeRefused, Reason: string(x.Reason), ErrorCode: mcp.Code(x.Status),
	}
	if x.Method == "" {
		rec.Operation = "connect"
	}
	if x.Refusal != nil {
		rec.Reason, rec.Rule, rec.ErrorCode = x.Refusal.Reason, x.Refusal.By, x.Refusal.Code()
	}
	addConn(x.Conn, &rec)
	if rec.Principal == nil {
		o.log.AddRefusal(rec)
		return
	}
	o.log.Add(rec)
}

// SessionDeleted implements [session.Observer].
func (o *Observer) SessionDeleted(s *session.Session, conn *session.Conn) {
	defer o.Observer.SessionDeleted(s, conn)
	rec := audit.Record{
		Time: time.Now(), Operation: "DELETE", Target: s.LogID(), Session: s.LogID(),
		Decision: audit.DecisionAllow, Stage: audit.StageHandler, Outcome: audit.OutcomeOK,
	}
	if p := s.Peer(); p != nil {
		rec.ClientName, rec.ClientVersion = p.Client.Name, p.Client.Version
	}
	addConn(conn, &rec)
	o.log.Add(rec)
}

package adapt

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// byAudit names what refuses calls because there is no place for their records.
const byAudit = "audit"

// reserve takes a place for the record of the call, if the audit is strict. An SDK may serve a call several times, if its
// handler asks the client something; the call has one record.
func (c *Call) reserve() error {
	log := c.adapter.guard.log
	if !log.Strict() || c.reserved {
		return nil
	}
	if !log.Reserve() {
		return &mcp.Refusal{Status: http.StatusServiceUnavailable, Reason: byAudit, By: byAudit, Limit: "audit_queue", RetryAfter: time.Second}
	}
	c.reserved = true
	return nil
}

// shownID is how much of the id of a session or a task a record has.
const shownID = 8

// record adds the record of the call to the audit.
func (c *Call) record(out telemetry.Outcome) {
	log := c.adapter.guard.log
	if log == nil {
		return
	}
	req := c.Request
	client := req.Client()
	rec := audit.Record{
		Time: c.arrivedAt, Principal: req.Principal, ClientName: client.Name, ClientVersion: client.Version,
		Address: req.Peer.Addr, Transport: req.Peer.Transport, Session: shownOf(req.Peer.SessionID),
		RequestID: req.ID.String(), Operation: req.Method, Target: targetOf(req), Arguments: c.arguments,
		TraceID: c.Operation().TraceID(), Duration: time.Since(c.arrivedAt),
		Decision: audit.DecisionAllow, Stage: audit.StageHandler, Outcome: audit.OutcomeOK,
	}
	if c.task {
		rec.Stage, rec.Arguments = audit.StageTask, nil // the record of the call that began the task has their digest
	}
	c.conclude(&rec, out)
	switch {
	case c.reserved:
		log.AddReserved(rec)
	case rec.Principal == nil && rec.Outcome == audit.OutcomeRefused || rec.Stage == audit.StageAudit:
		log.AddRefusal(rec)
	default:
		log.Add(rec)
	}
}

// targetOf returns what a request is about.
func targetOf(req *middleware.Request) string {
	switch {
	case req.Method == mcp.MethodCompletionComplete:
		ref := jsonvalue.Member(req.Params, "ref")
		return text(jsonvalue.Member(ref, "name")) + text(jsonvalue.Member(ref, "uri"))
	case strings.HasPrefix(req.Method, "tasks/"): // the id of a task lets its caller read it
		return shownOf(req.Target)
	}
	return req.Target
}

// shownOf returns what a record has of an id. It does not keep the rest of a long one, such as that of a sealed session.
func shownOf(id string) string {
	const copied = 64 // bytes: less than what a record takes anyway
	start := id[:min(shownID, len(id))]
	if len(id) > copied {
		return strings.Clone(start)
	}
	return start
}

// conclude adds to a record what was decided, and what came of the call.
func (c *Call) conclude(rec *audit.Record, out telemetry.Outcome) {
	if out.Err != nil {
		rec.ErrorCode, rec.Outcome = out.Err.Code, audit.OutcomeError
	}
	if d := c.admission; d != nil && d.decision != nil {
		rec.Decision, rec.Rule, rec.Reason, rec.DryRun = audit.DecisionOf(d.decision), d.decision.Rule, d.decision.Reason, d.decision.DryRun
		if d.decision.Err != nil && rec.Reason == "" {
			rec.Reason = d.decision.Err.Error()
		}
		if d.err != nil {
			rec.Outcome, rec.Stage = audit.OutcomeRefused, audit.StagePolicy
			if rec.Decision == audit.DecisionNeedScopes {
				rec.Stage = audit.StageScope
			}
			return
		}
	}
	refusal, refused := mcp.AsRefusal(c.failure)
	var cancelled *mcp.CancelError
	errors.As(c.cancelledBy(), &cancelled)
	switch {
	case c.admission != nil && c.admission.err != nil: // without a decision: it is ambiguous
		turnedDown(rec, audit.StageSchema, "", reasonAmbiguous)
	case c.turnedAway.Load():
		turnedDown(rec, audit.StageDrain, "", string(mcp.RejectShuttingDown))
	case refused && refusal.By == byAudit && refusal.Reason == byAudit:
		turnedDown(rec, audit.StageAudit, refusal.By, refusal.Reason)
	case refused && refusal.Reason == rates.Reason:
		turnedDown(rec, audit.StageRate, refusal.By, refusal.Reason)
	case refused && c.Stranger:
		turnedDown(rec, audit.StageToken, refusal.By, refusal.Reason)
	case refused:
		turnedDown(rec, audit.StageMiddleware, refusal.By, logline.Printable(refusal.Reason, maxReason))
	case c.subscribed.Load():
		rec.Cause = mcp.Cause(out.SubscriptionEnd)
	case cancelled != nil && cancelled.Cause == mcp.CauseDeadline:
		rec.Cause, rec.Stage = cancelled.Cause, audit.StageDeadline
	case cancelled != nil && out.Err != nil:
		rec.Cause, rec.Outcome = cancelled.Cause, audit.OutcomeCancelled
	case out.Err == nil && c.toolError:
		rec.Outcome = audit.OutcomeToolError
	}
}

// cancelledBy returns the error with which the context of the handler has ended, or nil.
func (c *Call) cancelledBy() error {
	if c.Err() == nil {
		return nil
	}
	return context.Cause(c)
}

// turnedDown says that something else than a policy has refused the operation.
func turnedDown(rec *audit.Record, stage audit.Stage, rule, reason string) {
	rec.Decision, rec.DryRun, rec.Stage, rec.Outcome, rec.Rule, rec.Reason = audit.DecisionRefused, false, stage, audit.OutcomeRefused, rule, reason
}

package auditing

import (
	"time"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// stages are where requests are rejected, without the refusals of rules.
var stages = map[mcp.RejectReason]audit.Stage{
	mcp.RejectEra: audit.StageEra, mcp.RejectSessionUnknown: audit.StageSession, mcp.RejectNotInitialized: audit.StageSession,
	mcp.RejectDuplicateID: audit.StageID, mcp.RejectOverload: audit.StageOverload, mcp.RejectShuttingDown: audit.StageDrain,
	mcp.RejectRefused: audit.StageAdmission,
}

// stageOfExchange returns where an HTTP exchange without a message was refused.
func stageOfExchange(reason mcp.RefuseReason) audit.Stage {
	switch reason {
	case mcp.RefuseHost:
		return audit.StageHost
	case mcp.RefuseOrigin:
		return audit.StageOrigin
	case mcp.RefuseAuthentication:
		return audit.StageToken
	case mcp.RefuseSessionUnknown:
		return audit.StageSession
	case mcp.RefuseOverload:
		return audit.StageOverload
	case mcp.RefuseShuttingDown:
		return audit.StageDrain
	}
	return audit.StageHTTP
}

// addDecision adds what the policies have decided; d may be nil.
func addDecision(d *auth.Decision, rec *audit.Record) {
	rec.Decision = audit.DecisionAllow
	if d != nil {
		rec.Decision, rec.Rule, rec.Reason, rec.DryRun = audit.DecisionOf(d), d.Rule, d.Reason, d.DryRun
		if d.Err != nil && rec.Reason == "" {
			rec.Reason = d.Err.Error()
		}
	}
}

// refuse says that something else than a policy has refused the operation.
func refuse(rec *audit.Record, stage audit.Stage, rule, reason string) {
	rec.Decision, rec.DryRun, rec.Stage, rec.Outcome, rec.Rule, rec.Reason = audit.DecisionRefused, false, stage, audit.OutcomeRefused, rule, reason
}

// rejection adds to a record why its request was not admitted. It returns the reason as a label.
func rejection(r *session.Request, reason mcp.RejectReason, err *mcp.Error, rec *audit.Record) (label string) {
	rec.ErrorCode, rec.Duration = err.Code, time.Since(rec.Time)
	refusal, isRefusal := mcp.AsRefusal(err)
	if !isRefusal {
		refuse(rec, stages[reason], "", string(reason))
		return string(reason)
	}
	label = reasonOf(refusal.Reason)
	if d := r.Decision(); d != nil && !d.Passes() {
		addDecision(d, rec)
		rec.Stage, rec.Outcome = stageOfDecision(rec.Decision), audit.OutcomeRefused
		return label
	}
	stage := stages[reason]
	switch {
	case refusal.By == by && refusal.Reason == by:
		stage = audit.StageAudit
	case refusal.Reason == rates.Reason:
		stage = audit.StageRate
	}
	refuse(rec, stage, refusal.By, refusal.Reason)
	return label
}

func stageOfDecision(d audit.Decision) audit.Stage {
	if d == audit.DecisionNeedScopes {
		return audit.StageScope
	}
	return audit.StagePolicy
}

// conclude adds to a record what came of its request.
func conclude(r *session.Request, rec *audit.Record) {
	addDecision(r.Decision(), rec)
	rec.Stage, rec.Outcome, rec.Duration = audit.StageHandler, audit.OutcomeOK, r.Latency()
	fate, dropped := r.Fate()
	if fate == session.FateDropped {
		rec.Dropped = dropped
	}
	cancel, _ := r.Cancellation()
	if cancel != nil {
		rec.Cause = cancel.Cause
	}
	err := r.Error()
	if err != nil {
		rec.ErrorCode = err.Code
	}
	if _, subscribed := r.Acknowledged(); subscribed {
		concludeSubscription(r, err, rec)
		return
	}
	switch {
	case err != nil:
		concludeError(r, err, cancel, rec)
	case cancel != nil && fate == session.FateDropped && r.ReplyBytes() == 0:
		rec.Outcome = audit.OutcomeCancelled
	case r.HasMark(session.MarkArguments):
		refuse(rec, audit.StageSchema, "", "arguments")
	case r.HasMark(session.MarkToolError):
		rec.Outcome = audit.OutcomeToolError
	}
}

// concludeSubscription adds how a subscription has ended: by its client is no fault.
func concludeSubscription(r *session.Request, err *mcp.Error, rec *audit.Record) {
	rec.Cause = mcp.Cause(r.End())
	if err != nil {
		rec.Outcome = audit.OutcomeError
	}
}

// concludeError adds what an error answer says.
func concludeError(r *session.Request, err *mcp.Error, cancel *mcp.CancelError, rec *audit.Record) {
	rec.Outcome = audit.OutcomeError
	data, _ := err.Data.(mcp.ErrorData)
	refusal, isRefusal := mcp.AsRefusal(err)
	switch {
	case isRefusal && refusal.Reason == rates.Reason:
		refuse(rec, audit.StageRate, refusal.By, refusal.Reason)
	case isRefusal && rec.Decision == audit.DecisionNeedScopes && !rec.DryRun: // of a task, whose tool the handler has found
		rec.Stage, rec.Outcome = audit.StageScope, audit.OutcomeRefused
	case isRefusal:
		refuse(rec, audit.StageMiddleware, refusal.By, refusal.Reason)
	case cancel != nil && cancel.Cause == mcp.CauseDeadline:
		rec.Stage = audit.StageDeadline
	case cancel != nil && err.Code == mcp.CodeRequestCancelled:
		rec.Outcome = audit.OutcomeCancelled
	case rec.Decision == audit.DecisionDeny && !rec.DryRun:
		rec.Stage, rec.Outcome = audit.StagePolicy, audit.OutcomeRefused
	case r.Refusal != nil:
		refuse(rec, audit.StageHTTP, "", "headers")
	case data.Reason == string(mcp.RejectOverload):
		refuse(rec, audit.StageOverload, data.Limit, data.Reason)
	case data.Reason == string(mcp.RejectShuttingDown):
		refuse(rec, audit.StageDrain, "", data.Reason)
	}
}

// concludeTask adds to a record how a task has ended.
func concludeTask(d *session.Detached, rec *audit.Record) {
	end := d.End()
	rec.Stage, rec.Outcome, rec.Duration = audit.StageTask, audit.OutcomeOK, time.Since(rec.Time)
	if cancel, _ := d.Cancellation(); cancel != nil {
		rec.Cause = cancel.Cause
	}
	switch {
	case end.Status == mcp.TaskCancelled:
		rec.Outcome = audit.OutcomeCancelled
	case end.Error != nil:
		rec.Outcome, rec.ErrorCode = audit.OutcomeError, end.Error.Code
	case end.ToolError:
		rec.Outcome = audit.OutcomeToolError
	}
}

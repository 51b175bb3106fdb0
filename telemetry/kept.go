package telemetry

import (
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A keptTrace is what is kept of a request that has ended. It shares no memory with the
// request, whose frame may be large, and does not change.
type keptTrace struct {
	seq   uint64
	took  time.Duration // from arrival to outcome
	ended time.Time
	row   report.Trace
	spans *traceSpans // nil if the trace is not sampled
}

// newKeptTrace copies what will be asked for.
func newKeptTrace(class string, op *Operation, out *Outcome, errorType string) *keptTrace {
	k := &keptTrace{took: out.Settled}
	info := op.info()
	name, version := info.client(op.series.tel.clients)
	k.row = report.Trace{
		Class: class, At: info.ArrivedAt.Round(0), Method: kept(info.Method, maxName), Tool: op.series.key.target,
		RequestID: kept(info.ID.String(), maxText), Client: strings.Clone(name), ClientVersion: strings.Clone(version),
		ProtocolVersion: kept(string(info.Version), maxName), Session: strings.Clone(info.shortSession()),
		Transport: info.Transport, Remote: info.RemoteAddr,
		Principal: kept(info.Principal.String(), maxName), Tenant: kept(info.tenant(), maxName),
		Seconds: k.took.Seconds(), Outcome: string(out.Fate), ErrorType: errorType, ToolError: out.ToolError,
		DropReason: string(out.Dropped), RejectReason: string(out.Rejected), Abandoned: op.abandoned,
		RequestBytes: info.Bytes, AnswerBytes: out.AnswerBytes,
	}
	if out.Rejected != "" {
		k.row.Outcome = outcomeRejected
	}
	if out.Err != nil {
		k.row.ErrorCode, k.row.ErrorMessage = int(out.Err.Code), kept(out.Err.Message, maxText)
	}
	if cancel := out.Cancelled; cancel != nil {
		k.row.CancelCause, k.row.CancelDetail = string(cancel.Cause), kept(cancel.Detail, maxText)
		k.row.CancelledAfterSeconds = out.CancelledAfter.Seconds()
	}
	if n := op.notes.Load(); n != nil {
		k.row.Panic, k.row.ArgumentFaults, k.row.Error = n.panic, n.argumentFaults, n.failure
	}
	k.row.TraceID, k.row.SpanID = spanIDs(op.span.SpanContext())
	k.row.Sampled = op.sampled
	written := out.Fate == FateSent || out.Fate == FateDropped && out.Dropped != mcp.DropCancelled
	k.row.Phases = phasesOf(out, written, time.Since(info.ArrivedAt))
	return k
}

// outcomeRejected is the outcome of a request that was not admitted; the others are
// those of [Fate].
const outcomeRejected = "rejected"

// The phases of a request.
const (
	phaseQueued  = "queued"
	phaseRunning = "running"
	phaseBlocked = "blocked" // within running: the handler waited for its client
	phaseWriting = "writing"
)

// phasesOf says how long each part of a request has taken, of the whole. written tells
// that there was an answer to write, also in vain.
func phasesOf(out *Outcome, written bool, whole time.Duration) []report.Phase {
	phases := make([]report.Phase, 0, 4)
	add := func(name string, from, to time.Duration) {
		phases = append(phases, report.Phase{Phase: name, AfterSeconds: from.Seconds(), Seconds: max(to-from, 0).Seconds()})
	}
	started := out.Started
	if started == 0 {
		add(phaseQueued, 0, whole)
		return phases
	}
	add(phaseQueued, 0, started)
	done := out.Returned
	if done == 0 {
		done = whole
	}
	add(phaseRunning, started, done)
	if out.Blocked > 0 {
		add(phaseBlocked, started, started+min(out.Blocked, done-started))
	}
	// Only what was answered when its handler returned ends with the writing: an answer
	// that went out before (at the deadline) was written while the handler ran on.
	if written && out.Returned != 0 && out.Settled >= done {
		add(phaseWriting, out.Settled, whole)
	}
	return phases
}

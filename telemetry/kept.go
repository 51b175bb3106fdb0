package telemetry

import (
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A keptTrace is what is kept of a request that has ended. It shares no memory with the
// request, whose frame may be large, and does not change.
type keptTrace struct {
	seq   uint64
	took  time.Duration // from arrival to outcome
	ended time.Time
	row   ReportTrace
	spans *traceSpans // nil if the trace is not sampled
}

// newKeptTrace copies what will be asked for.
func newKeptTrace(class string, ob *observation, r *session.Request, out *outcome, errorType string) *keptTrace {
	k := &keptTrace{took: r.Latency()}
	name, version := session.ClientOf(r.Inbound, r.Session())
	k.row = ReportTrace{
		Class: class, At: r.ArrivedAt().Round(0), Method: kept(r.Method, maxName), Tool: r.Route.Series.Target,
		RequestID: kept(r.ID.String(), maxText), Client: strings.Clone(name), ClientVersion: strings.Clone(version),
		ProtocolVersion: kept(string(versionOf(r.Inbound, r.Session())), maxName),
		Seconds:         k.took.Seconds(), Outcome: out.fate.String(), ErrorType: errorType, ToolError: out.toolError,
		DropReason: string(out.drop), RejectReason: string(out.reject), Abandoned: ob.abandoned,
		RequestBytes: r.Bytes, AnswerBytes: r.ReplyBytes(),
	}
	if out.reject != "" {
		k.row.Outcome = outcomeRejected
	}
	if s := r.Session(); s != nil {
		k.row.Session = strings.Clone(s.LogID())
	}
	if r.Conn != nil {
		k.row.Transport, k.row.Remote = r.Conn.Transport, r.Conn.RemoteAddr
	}
	if out.err != nil {
		k.row.ErrorCode, k.row.ErrorMessage = int(out.err.Code), kept(out.err.Message, maxText)
	}
	if cancel, at := r.Cancellation(); cancel != nil {
		k.row.CancelCause, k.row.CancelDetail = string(cancel.Cause), kept(cancel.Detail, maxText)
		k.row.CancelledAfterSeconds = at.Sub(r.ArrivedAt()).Seconds()
	}
	if p := ob.panic.Load(); p != nil {
		k.row.Panic = *p
	}
	if f := ob.argumentFaults.Load(); f != nil {
		k.row.ArgumentFaults = *f
	}
	if sc := ob.span.SpanContext(); sc.IsValid() {
		k.row.TraceID, k.row.SpanID, k.row.Sampled = sc.TraceID().String(), sc.SpanID().String(), ob.sampled
	}
	written := out.fate == session.FateSent || out.fate == session.FateDropped && out.drop != mcp.DropCancelled
	k.row.Phases = phasesOf(r, written, time.Since(r.ArrivedAt()))
	return k
}

// outcomeRejected is the outcome of a request that was not admitted; the others are
// those of [session.Fate].
const outcomeRejected = "rejected"

// kept makes a peer's text fit to print, and to be kept: the rest of its frame is not
// held in memory.
func kept(text string, limit int) string { return strings.Clone(session.Printable(text, limit)) }

// The phases of a request.
const (
	phaseQueued  = "queued"
	phaseRunning = "running"
	phaseBlocked = "blocked" // within running: the handler waited for its client
	phaseWriting = "writing"
)

// phasesOf says how long each part of a request has taken, of the whole. written tells
// that there was an answer to write, also in vain.
func phasesOf(r *session.Request, written bool, whole time.Duration) []ReportPhase {
	phases := make([]ReportPhase, 0, 4)
	add := func(name string, from, to time.Duration) {
		phases = append(phases, ReportPhase{name, from.Seconds(), max(to-from, 0).Seconds()})
	}
	started, called := r.QueueWait()
	if !called {
		add(phaseQueued, 0, whole)
		return phases
	}
	add(phaseQueued, 0, started)
	done, returned := r.HandlerDone()
	if !returned {
		done = whole
	}
	add(phaseRunning, started, done)
	if waited := r.Blocked(); waited > 0 {
		add(phaseBlocked, started, started+min(waited, done-started))
	}
	// Only what was answered when its handler returned ends with the writing: an answer
	// that went out before (at the deadline) was written while the handler ran on.
	if settled := r.Latency(); written && returned && settled >= done {
		add(phaseWriting, settled, whole)
	}
	return phases
}

// why returns what explains best how a request ended, or "".
func (row *ReportTrace) why() string {
	switch {
	case row.RejectReason != "":
		return row.RejectReason
	case row.Panic != "":
		return row.Panic
	case row.CancelCause != "":
		return row.CancelCause
	case row.DropReason != "":
		return row.DropReason
	case row.ToolError && row.ArgumentFaults != "":
		return "arguments rejected: " + row.ArgumentFaults
	case row.ToolError:
		return errorTool
	case row.ErrorCode != 0:
		return codeString(mcp.Code(row.ErrorCode)) + " " + row.ErrorMessage
	}
	return ""
}

package telemetry

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A record is what is kept of a request that has ended. It has a fixed size, and texts that are cut or
// interned. It shares no memory with the request, whose frame may be large. It is immutable. The rows of
// pages are made of it when somebody opens them.
type record struct {
	seq    uint64
	ended  time.Time
	series *Series
	class  string
	spans  *traceSpans // nil if the trace is not sampled

	traceID trace.TraceID
	spanID  trace.SpanID

	arrived time.Time // without a monotonic reading
	// The times below are counted from the arrival; 0 is never. See [Outcome].
	started, returned, took, cancelledAfter time.Duration
	blocked                                 time.Duration
	stages                                  []stage       // nil if only the handler was there
	whole                                   time.Duration // until the request was kept

	// Interned texts.
	method, client, clientVersion, version, session, transport, principal, tenant, errorType string
	concurrencyClass                                                                         string

	requestID, remote         string
	requestBytes, answerBytes int

	fate                 Fate
	dropped              mcp.DropReason
	rejected             mcp.RejectReason
	cause                mcp.Cause
	detail               string // of the cancellation
	errorCode            mcp.Code
	errorMessage         string
	failed               bool // the answer is an error
	toolError, abandoned bool
	sampled              bool   // the trace is
	subscription         int8   // 1 + the index of why it has ended; 0: it was none, or has another end
	inSession            bool   // the session has an id
	late                 bool   // the session and the client were unknown at the beginning
	notes                *notes // nil: none
	way                  *way   // nil: it came through no trusted proxy

	// Of the span, if it is recorded; see addSpan.
	parent                             trace.SpanID
	network, protocol, protocolVersion string // interned
	user                               string // interned
	uri                                string
	refusalReason, refusalBy           string
	journal                            *journalCopy // nil: none
}

// newRecord copies what pages show of a request.
func newRecord(class string, op *Operation, info *Info, out *Outcome, errorType string) *record {
	client, clientVersion := info.client(op.series.tel.clients)
	texts := &op.series.tel.recent.texts
	short := func(text string) string { return texts.of(logline.Printable(text, maxName)) }
	k := &record{
		series: op.series, class: class, sampled: op.sampled, arrived: info.ArrivedAt.Round(0),
		started: out.Started, returned: out.Returned, took: out.Settled, blocked: out.Blocked, whole: time.Since(info.ArrivedAt),
		method: short(info.Method), client: texts.of(client), clientVersion: texts.of(clientVersion),
		version: short(string(info.Version)), session: texts.of(info.sessionName()), transport: texts.of(info.Transport),
		principal: short(info.Principal.String()), tenant: short(info.tenant()), errorType: texts.of(errorType),
		concurrencyClass: texts.of(info.Class), requestID: clip(info.ID.String(), maxText), remote: strings.Clone(info.RemoteAddr),
		way:          wayOf(info),
		requestBytes: info.Bytes, answerBytes: out.AnswerBytes, fate: out.Fate, dropped: out.Dropped, rejected: out.Rejected,
		toolError: out.ToolError, abandoned: op.abandoned, notes: op.notes.Load(),
		stages: op.stages(out),
	}
	sc := op.span.SpanContext()
	k.traceID, k.spanID = sc.TraceID(), sc.SpanID()
	if out.Err != nil {
		k.failed, k.errorCode, k.errorMessage = true, out.Err.Code, clip(out.Err.Message, maxText)
	}
	if out.Acknowledged != 0 {
		k.subscription = int8(slices.Index(mcp.SubscriptionEnds(), out.SubscriptionEnd) + 1) //nolint:gosec // there are few
	}
	if cancel := out.Cancelled; cancel != nil {
		k.cause, k.detail, k.cancelledAfter = cancel.Cause, clip(cancel.Detail, maxText), out.CancelledAfter
	}
	if op.marked(markRecorded) {
		k.addSpan(op, info, out)
	}
	return k
}

// A way is what trusted proxies say of the way of a request.
type way struct{ via, forwardedFor string }

// wayOf copies the way of a request. It is nil for one that came through no trusted proxy.
func wayOf(info *Info) *way {
	if info.Via == "" && info.ForwardedFor == "" {
		return nil
	}
	return &way{strings.Clone(info.Via), strings.Clone(info.ForwardedFor)}
}

// through returns the way of the request.
func (k *record) through() way {
	if k.way == nil {
		return way{}
	}
	return *k.way
}

// id returns the id of the request on pages.
func (k *record) id() string { return strconv.FormatUint(k.seq, 10) }

// named reports whether an id is that of the request, or of its trace.
func (k *record) named(id string) bool {
	return id == k.id() || k.traceID.IsValid() && id == k.traceID.String()
}

// outcomeRejected is the outcome of a request that was not admitted. The other outcomes are
// those of [Fate].
const outcomeRejected = "rejected"

// row returns the row of a page.
func (k *record) row() report.Trace {
	row := report.Trace{
		ID: k.id(), Class: k.class, At: k.arrived, Method: k.method, Tool: k.series.key.target,
		RequestID: k.requestID, Client: k.client, ClientVersion: k.clientVersion,
		ProtocolVersion: k.version, Session: k.session, Transport: k.transport, Remote: k.remote,
		Via: k.through().via, ForwardedFor: k.through().forwardedFor,
		Principal: k.principal, Tenant: k.tenant,
		ConcurrencyClass: k.concurrencyClass,
		Seconds:          k.took.Seconds(), Outcome: k.outcome(), ErrorType: k.errorType, ToolError: k.toolError,
		ErrorCode: int(k.errorCode), ErrorMessage: k.errorMessage,
		DropReason: string(k.dropped), RejectReason: string(k.rejected), Abandoned: k.abandoned,
		CancelCause: string(k.cause), CancelDetail: k.detail, CancelledAfterSeconds: k.cancelledAfter.Seconds(),
		RequestBytes: k.requestBytes, AnswerBytes: k.answerBytes, Sampled: k.sampled, Phases: k.phases(),
	}
	if n := k.notes; n != nil {
		row.Panic, row.ArgumentFaults, row.Error = n.panic, n.argumentFaults, n.failure
		row.Rule, row.Decision, row.DecisionReason = n.rule, n.effect, n.reason
	}
	if k.subscription != 0 {
		row.SubscriptionEnd = string(mcp.SubscriptionEnds()[k.subscription-1])
	}
	if k.traceID.IsValid() && k.spanID.IsValid() {
		row.TraceID, row.SpanID = k.traceID.String(), k.spanID.String()
	}
	return row
}

// The phases of a request.
const (
	phaseQueued  = "queued"
	phaseRunning = "running"
	phaseBlocked = "blocked" // a part of running: the handler waited for its client
	phaseWriting = "writing"
)

// phases returns how long each phase of the request took.
func (k *record) phases() []report.Phase {
	phases := make([]report.Phase, 0, 4+len(k.stages))
	add := func(name string, from, to time.Duration) {
		phases = append(phases, report.Phase{Phase: name, AfterSeconds: from.Seconds(), Seconds: max(to-from, 0).Seconds()})
	}
	if k.started == 0 {
		add(phaseQueued, 0, k.whole)
		return phases
	}
	add(phaseQueued, 0, k.started)
	done := k.returned
	if done == 0 {
		done = k.whole
	}
	add(phaseRunning, k.started, done)
	if k.blocked > 0 {
		add(phaseBlocked, k.started, k.started+min(k.blocked, done-k.started))
	}
	phases = stagePhases(phases, k.stages, k.started)
	// Writing is the last phase only if the answer was made when the handler returned. An
	// earlier answer (at the deadline) was written while the handler was running.
	if k.written() && k.returned != 0 && k.took >= done {
		add(phaseWriting, k.took, k.whole)
	}
	return phases
}

// written reports whether the server tried to write an answer.
func (k *record) written() bool {
	return k.fate == FateSent || k.fate == FateDropped && k.dropped != mcp.DropCancelled
}

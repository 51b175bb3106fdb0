package telemetry

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// recentTraces has copies of ended requests that are worth a look. The decision about an ordinary
// request takes three atomic loads.
type recentTraces struct {
	bounds Recent
	now    func() time.Time
	spans  *spanBuffer
	rings  map[string]*ring // of all classes except the slow one
	slow   *slowest
	seq    atomic.Uint64
}

func newRecentTraces(bounds Recent, metrics *instruments, now func() time.Time) *recentTraces {
	c := &recentTraces{bounds: bounds.withDefaults(), now: now, rings: map[string]*ring{}}
	c.spans = newSpanBuffer(c.bounds, metrics)
	if c.bounds.Traces < 0 {
		return c
	}
	for _, class := range recentClasses() {
		if class != classSlow {
			c.rings[class] = newRing(c.bounds.Traces, metrics.counter(MetricTracesEvicted, class))
		}
	}
	c.slow = newSlowest(slowShare*c.bounds.Traces, metrics.counter(MetricTracesEvicted, classSlow))
	return c
}

// ended decides about a request that has ended, before its span ends. The request must not change
// any more.
func (c *recentTraces) ended(op *Operation, out *Outcome, errorType string) {
	if c.bounds.Traces < 0 {
		return
	}
	class := out.class(errorType, op)
	if class != "" {
		c.add(class, op, out, errorType)
		return
	}
	standing := out.Acknowledged != 0 // a subscription may last long
	if !standing && op.series.recent.seen.Load() < enoughToCompare {
		op.series.recent.seen.Add(1)
	}
	if !standing && int64(out.Settled) > op.series.recent.floor.Load() {
		c.add(classSlow, op, out, errorType)
		return
	}
	second := int64(op.second)
	if last := op.series.recent.second.Load(); last != second && op.series.recent.second.CompareAndSwap(last, second) {
		for _, k := range c.slow.expire(&op.series.recent, c.now()) {
			c.spans.release(k.spans)
		}
		c.add(classRecent, op, out, errorType)
	}
}

// class returns the class of a request, or "" for an ordinary one.
func (o *Outcome) class(errorType string, op *Operation) string {
	switch {
	case o.Rejected != "":
		return classRejected
	case op.abandoned:
		return classAbandoned
	case op.hasPanicked():
		return classPanic
	case o.Cancelled != nil:
		if o.Acknowledged != 0 && !o.Cancelled.Cause.Fault() {
			return "" // subscriptions end so
		}
		return classCancelled
	case o.Fate == FateDropped:
		return classDropped
	case errorType != "":
		return classError
	case o.Err != nil:
		return classCaller
	}
	return ""
}

func (c *recentTraces) add(class string, op *Operation, out *Outcome, errorType string) {
	g := c.rings[class]
	now := c.now()
	if g != nil && !g.admit(now.Unix()) {
		return
	}
	k := newRecentTrace(class, op, out, errorType)
	k.seq, k.ended = c.seq.Add(1), now
	k.row.ID = strconv.FormatUint(k.seq, 10)
	if op.sampled {
		k.spans = c.spans.hold(op.span.SpanContext().TraceID())
	}
	var displaced *recentTrace
	if g != nil {
		displaced = g.put(k)
	} else {
		displaced = c.slow.put(&op.series.recent, k)
	}
	if displaced != nil {
		c.spans.release(displaced.spans)
	}
}

// all returns all traces in no order.
func (c *recentTraces) all() (list []*recentTrace) {
	if c.bounds.Traces < 0 {
		return nil
	}
	for _, g := range c.rings {
		list = g.appendTo(list)
	}
	return c.slow.appendTo(list)
}

// counts returns the number of traces by class.
func (c *recentTraces) counts() map[string]int {
	n := map[string]int{}
	if c.bounds.Traces < 0 {
		return n
	}
	for _, class := range recentClasses() {
		n[class] = 0
	}
	for _, k := range c.all() {
		n[k.row.Class]++
	}
	return n
}

// A recentTrace is a copy of a request that has ended. It shares no memory with the request,
// whose frame may be large. It is immutable.
type recentTrace struct {
	seq   uint64
	took  time.Duration // from arrival to outcome
	ended time.Time
	row   report.Trace
	spans *traceSpans // nil if the trace is not sampled
}

// newRecentTrace copies the fields that pages show.
func newRecentTrace(class string, op *Operation, out *Outcome, errorType string) *recentTrace {
	k := &recentTrace{took: out.Settled}
	info := op.info()
	name, version := info.client(op.series.tel.clients)
	k.row = report.Trace{
		Class: class, At: info.ArrivedAt.Round(0), Method: clip(info.Method, maxName), Tool: op.series.key.target,
		RequestID: clip(info.ID.String(), maxText), Client: strings.Clone(name), ClientVersion: strings.Clone(version),
		ProtocolVersion: clip(string(info.Version), maxName), Session: strings.Clone(info.sessionName()),
		Transport: info.Transport, Remote: info.RemoteAddr,
		Principal: clip(info.Principal.String(), maxName), Tenant: clip(info.tenant(), maxName),
		Seconds: k.took.Seconds(), Outcome: string(out.Fate), ErrorType: errorType, ToolError: out.ToolError,
		DropReason: string(out.Dropped), RejectReason: string(out.Rejected), Abandoned: op.abandoned,
		RequestBytes: info.Bytes, AnswerBytes: out.AnswerBytes,
	}
	if out.Rejected != "" {
		k.row.Outcome = outcomeRejected
	}
	if out.Err != nil {
		k.row.ErrorCode, k.row.ErrorMessage = int(out.Err.Code), clip(out.Err.Message, maxText)
	}
	if cancel := out.Cancelled; cancel != nil {
		k.row.CancelCause, k.row.CancelDetail = string(cancel.Cause), clip(cancel.Detail, maxText)
		k.row.CancelledAfterSeconds = out.CancelledAfter.Seconds()
	}
	if n := op.notes.Load(); n != nil {
		k.row.Panic, k.row.ArgumentFaults, k.row.Error = n.panic, n.argumentFaults, n.failure
		k.row.Rule, k.row.Decision, k.row.DecisionReason = n.rule, n.effect, n.reason
	}
	k.row.TraceID, k.row.SpanID = spanIDs(op.span.SpanContext())
	k.row.Sampled = op.sampled
	written := out.Fate == FateSent || out.Fate == FateDropped && out.Dropped != mcp.DropCancelled
	k.row.Phases = phasesOf(out, written, time.Since(info.ArrivedAt))
	return k
}

// outcomeRejected is the outcome of a request that was not admitted. The other outcomes are
// those of [Fate].
const outcomeRejected = "rejected"

// The phases of a request.
const (
	phaseQueued  = "queued"
	phaseRunning = "running"
	phaseBlocked = "blocked" // a part of running: the handler waited for its client
	phaseWriting = "writing"
)

// phasesOf returns how long each phase of a request took. whole is the time of all of them.
// written tells that the server tried to write an answer.
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
	// Writing is the last phase only if the answer was made when the handler returned. An
	// earlier answer (at the deadline) was written while the handler was running.
	if written && out.Returned != 0 && out.Settled >= done {
		add(phaseWriting, out.Settled, whole)
	}
	return phases
}

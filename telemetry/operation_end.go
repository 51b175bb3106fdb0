package telemetry

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Abandoned reports that the handler has ignored its cancelled context for too long, and that
// the server no longer waits for it. The span ends now. If the handler returns later, call End.
func (op *Operation) Abandoned(out Outcome) {
	if op == nil {
		return
	}
	op.complete(&out)
	if tr := op.tracked(); tr != nil {
		if !tr.complete(&out, false) {
			return
		}
		defer tr.contain()
		cause := cmp.Or(out.cause(), mcp.CauseServerShutdown) // it could not be cancelled
		tr.update(func() {
			tr.abandoned = true
			tr.counts.Abandoned[cause]++
		})
	}
	op.event(eventAbandoned, abandonAttributes(&out)...)
	op.abandoned = true
	op.end(&out)
	op.series.tel.watch.Load().abandoned(op, &out)
}

// End ends the operation. Call it when the handler has returned and the fate of the answer is
// known, or when the request is rejected. For an operation without [Info.Origin], calls after the
// first one do nothing.
func (op *Operation) End(out Outcome) {
	if op == nil {
		return
	}
	op.complete(&out)
	if tr := op.tracked(); tr != nil {
		if !tr.complete(&out, true) {
			return
		}
		defer tr.leave(&out)
		defer tr.contain()
	}
	op.finish(&out)
}

// complete adds to the outcome what the operation was told before.
func (op *Operation) complete(out *Outcome) {
	out.ToolError = out.ToolError || op.marked(markToolError)
	out.argumentsRejected, out.callersFault = op.marked(markArguments), op.marked(markCallersFault)
}

func (op *Operation) finish(out *Outcome) {
	if out.Rejected != "" {
		op.end(out)
		return
	}
	t := op.series.tel
	op.unwound(out)
	if out.Acknowledged != 0 {
		life := max(out.Settled-out.Acknowledged, 0)
		if op.recording {
			op.span.SetAttributes(keySubscriptionEnd.String(string(out.SubscriptionEnd)))
		}
		observe(t.metrics.histogram(MetricSubscriptionDuration, string(out.SubscriptionEnd)), life.Seconds(), op.span.SpanContext())
	}
	op.series.requestBytes.Observe(float64(out.RequestBytes))
	if out.AnswerBytes > 0 {
		op.series.responseBytes.Observe(float64(out.AnswerBytes))
	}
	if out.Started == 0 {
		op.series.queueWait().Observe(out.Settled.Seconds()) // it was cancelled in the queue
	}
	if op.abandoned {
		op.returnedLate(out)
		return
	}
	op.end(out)
	t.watch.Load().finished(op, out)
}

// end records the duration, adds the request to the recent ones and ends the span.
func (op *Operation) end(out *Outcome) {
	errorType := out.errorType()
	if !op.marked(markMeasured) {
		op.measure(out, errorType)
	}
	op.count(out, errorType)
	recent := op.series.tel.recent
	kept := recent.ended(op, out, errorType)
	if op.marked(markRecorded) {
		op.endRecorded(kept, func() *record {
			info := op.info()
			return newRecord("", op, &info, out, errorType)
		})
		return
	}
	if op.sampled {
		defer recent.spans.finish(op)
	}
	if !op.recording {
		return
	}
	attrs := attributesToSet()
	*attrs = out.attributes(*attrs, errorType)
	if out.Started != 0 {
		*attrs = appendStages(append(*attrs, keyQueueWait.Float64(out.Started.Seconds())), op.stages(out))
	}
	if op.series.key.method == mcp.MethodInitialize { // the revision and the client were unknown at the start
		info := op.info()
		*attrs = op.series.tel.appendPeer(*attrs, &info)
	}
	op.set(attrs)
	out.setStatus(op.span, errorType)
	op.span.End()
}

// endRecorded ends the span of an operation that is recorded and not exported. kept is the record of the
// operation, or nil if it is none of the recent ones. Then its span may still be shown with another request
// of its trace, and describe makes a record for it.
func (op *Operation) endRecorded(kept *record, describe func() *record) {
	op.marks.Or(markEnded)
	spans := op.series.tel.recent.spans
	if !spans.finishUnlessWanted(op) {
		return
	}
	defer spans.finish(op)
	if kept == nil {
		kept = describe()
	}
	spans.add(op.span.SpanContext().TraceID(), kept)
}

// unwound records how long a cancelled handler took to return.
func (op *Operation) unwound(out *Outcome) {
	if out.Cancelled == nil || out.Returned == 0 {
		return
	}
	took := max(out.Returned-out.CancelledAfter, 0)
	observe(op.series.tel.metrics.histogram(MetricCancelUnwind, op.series.key.target, string(out.Cancelled.Cause)),
		took.Seconds(), op.span.SpanContext())
}

// returnedLate records that the abandoned handler has returned.
func (op *Operation) returnedLate(out *Outcome) {
	if !op.recording {
		return
	}
	sc := op.span.SpanContext()
	t, arrived := op.series.tel, op.arrivedAt()
	when := t.now()
	if out.Returned != 0 {
		when = arrived.Add(out.Returned)
	}
	attrs := out.attributes(slices.Clone(op.series.attributes), "")
	t.returnedLate(sc, attrs, out.Cancelled, when.Sub(arrived)-out.CancelledAfter, trace.WithTimestamp(when))
}

// returnedLate adds a span for the return of an abandoned handler. sc is its own span. unwind is
// the time from the cancellation to the return.
func (t *Telemetry) returnedLate(sc trace.SpanContext, attrs []attribute.KeyValue, cancelled *mcp.CancelError, unwind time.Duration,
	options ...trace.SpanStartOption) {
	if cancelled != nil {
		attrs = append(attrs, keyCancelUnwind.Float64(unwind.Seconds()))
	}
	_, span := t.startSpan(trace.ContextWithSpanContext(context.Background(), sc), spanReturnedLate,
		append(options, trace.WithLinks(trace.Link{SpanContext: sc}))...)
	span.SetAttributes(attrs...)
	span.End()
}

package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Started says that the operation has left the queue, after a time from its arrival (0 is
// now), and that its handler is about to be called. Operations that began without [Info.Queued], and
// those of a [Source] that has no queue, need not say it.
func (op *Operation) Started(after time.Duration) {
	if op == nil {
		return
	}
	if after <= 0 {
		after = time.Since(op.arrivedAt())
	}
	op.series.tel.metrics.queueWaits.Observe(after.Seconds())
	if tr := op.tracked(); tr != nil {
		tr.update(func() { tr.queued, tr.started = false, max(after, 1) })
	}
}

// Acknowledged says that the operation has become a subscription, which stays open: as an
// operation it is over, and its duration is recorded now. Its span goes on.
func (op *Operation) Acknowledged() {
	if op == nil {
		return
	}
	op.event(eventAcknowledged)
	op.measure(&Outcome{Settled: time.Since(op.arrivedAt())}, "")
	op.marks.Or(markMeasured)
	if tr := op.tracked(); tr != nil {
		after := tr.age()
		tr.update(func() { tr.acknowledged = after })
	}
}

// Cancelled says that the context of the operation was cancelled, which happens once; detail
// is more text for people, or "". Later calls are ignored, unless the operation has an
// [Info.Origin]: its server has to see to that.
func (op *Operation) Cancelled(cause mcp.Cause, detail string) {
	if op == nil {
		return
	}
	if tr := op.tracked(); tr != nil {
		if !tr.cancel(cause, detail) {
			return
		}
		defer tr.contain()
	}
	op.event(eventCancelled, cancelAttributes(cause, detail)...)
	op.exemplify(MetricRequestsCancelled, string(cause))
}

// Panicked says that the handler panicked; a nil value is a runtime.Goexit. The panic is put
// on the span with its stack.
func (op *Operation) Panicked(value any, stack []byte) {
	if op == nil {
		return
	}
	_, text := describePanic(value)
	op.note(func(n *notes) { n.panicked, n.panic = true, kept(text, maxText) })
	if tr := op.tracked(); tr != nil {
		tr.update(func() { tr.counts.Panics++ })
	}
	if op.recording {
		op.event(eventException, panicAttributes(value, stack)...)
	}
}

// Dropped says that the answer will not be sent. An operation without [Info.Origin] need not
// say it: [Outcome.Dropped] does.
func (op *Operation) Dropped(reason mcp.DropReason) {
	if op == nil {
		return
	}
	if tr := op.tracked(); tr != nil {
		if !tr.drop() {
			return
		}
		defer tr.contain()
	}
	op.event(eventDropped, keyDropReason.String(string(reason)))
	op.exemplify(MetricResponsesDropped, string(reason))
}

// NotificationDropped says that a notification about the request will not be sent. What
// nobody asked for is no loss and is not recorded: handlers may report progress to a client that
// did not want any.
func (op *Operation) NotificationDropped(method string, reason mcp.DropReason) {
	switch reason {
	case mcp.DropNoProgressToken, mcp.DropLevelFiltered, mcp.DropNotSubscribed, mcp.DropEraForbidden:
		return
	}
	if op != nil {
		op.event(eventLost, keyMethod.String(method), keyDropReason.String(string(reason)))
	}
}

// Event adds an event to the span, if it is recorded.
func (op *Operation) Event(name string, attrs ...attribute.KeyValue) {
	if op != nil {
		op.event(name, attrs...)
	}
}

// Error says with which error the handler has ended: its own, whatever the caller is told.
// It is put on the span, and shown with what is kept of the operation.
func (op *Operation) Error(err error) {
	if op == nil {
		return
	}
	op.note(func(n *notes) { n.failure = kept(err.Error(), maxText) })
	if op.recording {
		op.event(eventException, errorAttributes(err)...)
	}
}

// Log adds to the span a message that the handler has logged: its level, the logger if it
// has a name, and the text, cut to 256 bytes. How many events a span keeps is the SDK's
// limit (OTEL_SPAN_EVENT_COUNT_LIMIT).
func (op *Operation) Log(level mcp.LoggingLevel, logger, text string) {
	if op == nil || !op.recording {
		return
	}
	attrs := []attribute.KeyValue{keyLogLevel.String(string(level)), keyLogMessage.String(logline.Printable(text, maxText))}
	op.event(eventLog, appendText(attrs, keyLogLogger, logline.Printable(logger, maxName))...)
}

// Validated records how long it took to validate the arguments of a call against its
// tool's schema.
func (op *Operation) Validated(took time.Duration) {
	if op != nil {
		op.series.validations().took.Observe(took.Seconds())
	}
}

// ArgumentsRejected records that the arguments of a call break its tool's schema, so that
// the handler is not called: the answer is a tool error like those of the handler. faults
// says what is wrong, without any value from the arguments; it is cut to 256 bytes.
func (op *Operation) ArgumentsRejected(faults string) {
	if op == nil {
		return
	}
	rejected := op.series.validations().rejected
	if adder, ok := rejected.(prometheus.ExemplarAdder); ok && op.sampled {
		adder.AddWithExemplar(1, spanLabels(op.span.SpanContext().TraceID(), op.span.SpanContext().SpanID()))
	} else {
		rejected.Inc()
	}
	short := kept(faults, maxText)
	op.note(func(n *notes) { n.argumentFaults = short })
	op.event(eventRejected, keyArgumentFaults.String(short))
}

// Result says what a tool has returned: whether that is an error for the model (isError)
// and, if results are to be recorded (see [WithResults]), what. The result is encoded as
// JSON only then.
func (op *Operation) Result(isError bool, result any) {
	if op == nil {
		return
	}
	if isError {
		op.marks.Or(markToolError)
	}
	if redact := op.series.tel.payloads.results; redact != nil && op.recording {
		if raw, err := wire.Marshal(nil, result); err == nil { // else the call fails for the same reason
			op.record(keyResult, redact, raw)
		}
	}
}

// event adds an event to the span.
func (op *Operation) event(name string, attrs ...attribute.KeyValue) {
	if op.recording {
		op.span.AddEvent(name, trace.WithAttributes(attrs...))
	}
}

// exemplify remembers the operation's trace as the latest of a counter's point, which
// has the operation's labels and one more.
func (op *Operation) exemplify(metric, label string) {
	if op.sampled {
		t := op.series.tel
		t.metrics.snapshots.exemplars.put(at(metric, op.series.key.method, op.series.key.target, label), op.span.SpanContext(), t.now())
	}
}

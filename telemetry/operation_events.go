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

// Started reports that the operation has left the queue and that its handler is called next.
// after is the time since its arrival; 0 stands for now. Do not call it for operations that began
// without [Info.Queued], or if the server has no queue.
func (op *Operation) Started(after time.Duration) {
	if op == nil {
		return
	}
	if after <= 0 {
		after = time.Since(op.arrivedAt())
	}
	op.series.queueWait().Observe(after.Seconds())
	if tr := op.tracked(); tr != nil {
		tr.update(func() { tr.queued, tr.started = false, max(after, 1) })
	}
}

// Acknowledged reports that the operation has become a subscription, which stays open. The
// duration of the operation is recorded now. Its span ends with the subscription.
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

// Cancelled reports that the context of the operation was cancelled. detail is a text for people,
// or "". Later calls do nothing. A server with an [Info.Origin] must not call it twice.
func (op *Operation) Cancelled(cause mcp.Cause, detail string) {
	op.CancelledIn(phaseRunning, cause, detail)
}

// CancelledIn is Cancelled for a server with an [Info.Origin], which knows the phase of the operation;
// see [state.CancelledIn].
func (op *Operation) CancelledIn(phase string, cause mcp.Cause, detail string) {
	if op == nil {
		return
	}
	if tr := op.tracked(); tr != nil {
		own, first := tr.cancel(cause, detail)
		if !first {
			return
		}
		phase = own
		defer tr.contain()
	}
	op.event(eventCancelled, cancelAttributes(cause, detail)...)
	op.exemplify(MetricRequestsCancelled, string(cause), phase)
}

// Panicked reports that the handler panicked. A nil value is a runtime.Goexit. The span gets an
// event with the panic and its stack.
func (op *Operation) Panicked(value any, stack []byte) {
	if op == nil {
		return
	}
	_, text := describePanic(value)
	op.note(func(n *notes) { n.panicked, n.panic = true, clip(text, maxText) })
	if tr := op.tracked(); tr != nil {
		tr.update(func() { tr.counts.Panics++ })
	}
	if op.recording {
		op.event(eventException, panicAttributes(value, stack)...)
	}
}

// Dropped reports that the answer will not be sent. For an operation without [Info.Origin] it is
// enough to set [Outcome.Dropped].
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

// NotificationDropped reports that a notification about the request will not be sent. It records
// nothing if the client did not ask for the notification, such as progress without a token.
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

// Error reports the handler's own error, which may differ from the error of the answer. The span
// gets an event with it, and [Telemetry.TracesHandler] shows it. A tool error that is the caller's fault
// ([mcp.IsCallerFault]) is no error of the service.
func (op *Operation) Error(err error) {
	if op == nil {
		return
	}
	if mcp.IsCallerFault(err) {
		op.marks.Or(markCallersFault)
	}
	op.note(func(n *notes) { n.failure = clip(err.Error(), maxText) })
	if op.recording {
		op.event(eventException, errorAttributes(err)...)
	}
}

// Decided reports what the rules of the server have decided about the operation: the rule, its effect
// (allow, deny, need_scopes, or one of these after dry_run_), and why, or "". The span gets rule and effect,
// and [Telemetry.TracesHandler] shows all three.
func (op *Operation) Decided(rule, effect, reason string) {
	if op == nil {
		return
	}
	rule = clip(rule, maxRefusalText)
	op.note(func(n *notes) { n.rule, n.effect, n.reason = rule, effect, clip(reason, maxText) })
	if op.recording && !op.marked(markRecorded) { // a record has the notes
		op.span.SetAttributes(appendText([]attribute.KeyValue{keyPolicyEffect.String(effect)}, keyPolicyRule, rule)...)
	}
}

// Log adds an event with a log message of the handler to the span: its level, its logger if that
// has a name, and its text, cut to 256 bytes. The SDK limits the events of a span
// (OTEL_SPAN_EVENT_COUNT_LIMIT).
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

// ArgumentsRejected records that the arguments of a call break the tool's schema. The handler is
// not called, and the answer is a tool error, which counts as the caller's and not as one of the service. faults says what is wrong, without values of the
// arguments. It is cut to 256 bytes.
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
	short := clip(faults, maxText)
	op.marks.Or(markArguments)
	op.note(func(n *notes) { n.argumentFaults = short })
	op.event(eventRejected, keyArgumentFaults.String(short))
}

// Result reports the result of a tool. isError tells that it is an error for the model. With
// [WithResults] the span gets the result as JSON.
func (op *Operation) Result(isError bool, result any) {
	if op == nil {
		return
	}
	if isError {
		op.marks.Or(markToolError)
	}
	if redact := op.series.tel.payloads.results; redact != nil && op.recording {
		if raw, err := wire.Marshal(nil, result); err == nil { // with an error the call fails as well
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

// exemplify sets the operation's trace as the exemplar of a counter. The counter has the
// operation's labels and one more.
func (op *Operation) exemplify(metric string, labels ...string) {
	if op.sampled {
		t := op.series.tel
		t.metrics.snapshots.exemplars.put(at(metric, op.series.key.method, op.series.key.target).with(labels...), op.span.SpanContext(), t.now())
	}
}

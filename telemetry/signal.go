package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traceContext writes and reads trace contexts between replicas.
var traceContext propagation.TraceContext

// traceParent is the name of a trace context in a carrier.
const traceParent = "traceparent"

// TraceParent returns the trace context of the span in ctx, as W3C Trace Context writes it, for a message to another
// replica; "" if there is none. See [Operation.Signalled].
func (t *Telemetry) TraceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	traceContext.Inject(ctx, carrier)
	return carrier.Get(traceParent)
}

// Signalled reports that a message about the operation has come through another replica of the service. kind is
// what it is: cancel, answer or session_end. replica is the random name of that replica, and from is what
// [Telemetry.TraceParent] has returned there. The span of the operation gets an event and a link to the span of
// the message. The trace of the message gets a span that is linked to the operation.
func (op *Operation) Signalled(kind, replica, from string) {
	if op == nil {
		return
	}
	ctx := traceContext.Extract(context.Background(), propagation.MapCarrier{traceParent: from})
	there := trace.SpanContextFromContext(ctx)
	attrs := []attribute.KeyValue{keySignalKind.String(kind), keySignalReplica.String(replica)}
	if !there.IsValid() {
		op.event(eventSignal, attrs...)
		return
	}
	op.event(eventSignal, append(attrs, keySignalTrace.String(there.TraceID().String()))...)
	if op.recording {
		op.span.AddLink(trace.Link{SpanContext: there})
	}
	_, span := op.series.tel.startSpan(ctx, spanSignal, trace.WithLinks(trace.Link{SpanContext: op.SpanContext()}), trace.WithAttributes(attrs...))
	span.End()
}

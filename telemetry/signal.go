package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// A Signal is a message about an operation that has arrived at another replica of the service.
type Signal struct {
	// Kind is what the message is: cancel, answer or session_end.
	Kind string
	// Replica is the random name of the other replica.
	Replica string
	// TraceParent is the trace context that the message has there, or "", see [SignalTrace].
	TraceParent string
}

// traceContext writes and reads trace contexts between replicas.
var traceContext propagation.TraceContext

// traceParent is the name of a trace context in a carrier.
const traceParent = "traceparent"

// SignalTrace returns the trace context of the span in ctx, as W3C Trace Context writes it, for a [Signal] to another
// replica; "" if there is none.
func SignalTrace(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	traceContext.Inject(ctx, carrier)
	return carrier.Get(traceParent)
}

// Signalled reports that a message about the operation has come through another replica. The span of the
// operation gets an event and a link to the span of the message. The trace of the message gets a span that is
// linked to the operation.
func (op *Operation) Signalled(s Signal) {
	if op == nil {
		return
	}
	from := traceContext.Extract(context.Background(), propagation.MapCarrier{traceParent: s.TraceParent})
	there := trace.SpanContextFromContext(from)
	attrs := []attribute.KeyValue{keySignalKind.String(s.Kind), keySignalReplica.String(s.Replica)}
	if !there.IsValid() {
		op.event(eventSignal, attrs...)
		return
	}
	op.event(eventSignal, append(attrs, keySignalTrace.String(there.TraceID().String()))...)
	if op.recording {
		op.span.AddLink(trace.Link{SpanContext: there})
	}
	_, span := op.series.tel.startSpan(from, spanSignal, trace.WithLinks(trace.Link{SpanContext: op.SpanContext()}), trace.WithAttributes(attrs...))
	span.End()
}

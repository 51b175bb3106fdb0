package telemetry

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// spanReturnedLate is the name of the span that marks the return of a handler
// whose own span ended when it was abandoned.
const spanReturnedLate = "vitrine.handler.returned" // span: the return of an abandoned handler, linked to its request

// An observation is what is kept for one request, or one notification. The core calls the observer for
// one request from several goroutines, but never two ends of it at once.
type observation struct {
	observer       *observer
	series         *observedSeries
	span           trace.Span
	handler        handlerContext
	unsampled      unsampledSpan // is span, if we have decided that it is not sampled
	panic          atomic.Pointer[string]
	argumentFaults atomic.Pointer[string] // of arguments that were rejected
	// spans are held while the handler runs, if it has started some. finished: it may
	// hold none any more. Both are guarded by spanKeeper.mu.
	spans    *traceSpans
	finished bool
	// sampled and recording are the span's, asked once.
	sampled, recording bool
	abandoned          bool
	toolError          atomic.Bool
	measured           atomic.Bool // the duration of the operation is recorded
	// keeps: the keeper knows from the context of the handler to whom a span belongs that
	// it starts. Atomic, because the processors of a provider see the context before.
	keeps atomic.Bool
}

// observationOf returns the request's observation; nil if another observer, or
// none, has begun it.
func observationOf(r *session.Request) *observation {
	ob, _ := r.Observation.(*observation)
	return ob
}

// The options that the spans of requests have, and those that begin a trace for mistrust.
var (
	spanOptions = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	rootOptions = append(slices.Clip(spanOptions), trace.WithNewRoot())
)

// start starts the span. The caller's context comes from _meta; the ambient span
// (of the HTTP server, or else of the HTTP header) is the parent only without one, and
// linked otherwise.
func (ob *observation) start(
	ctx context.Context, in *session.Inbound, s *session.Session,
) context.Context {
	o := ob.observer
	span := trace.SpanFromContext(ctx) // that of the context which becomes the parent
	ambient, foreign := span.SpanContext(), false
	if !ambient.IsValid() && len(in.Header["Traceparent"]) > 0 {
		header := o.propagator.Extract(ctx, propagation.HeaderCarrier(in.Header))
		caller := trace.SpanFromContext(header)
		ambient, foreign = caller.SpanContext(), o.untrusted
		if !foreign {
			ctx, span = header, caller
		}
	}
	parent, remote := ctx, trace.SpanContext{}
	if carrier := (metaCarrier{&in.Meta}); !carrier.empty() {
		extracted := o.propagator.Extract(ctx, carrier)
		caller := trace.SpanFromContext(extracted)
		if sc := caller.SpanContext(); !sc.Equal(ambient) {
			remote = sc
		}
		if !o.untrusted {
			parent, span = extracted, caller
		}
	}
	ob.handler.Context, ob.handler.ob, ob.handler.span = parent, ob, span
	root := o.untrusted && remote.IsValid()
	if ob.drop(root) {
		return &ob.handler
	}
	options := spanOptions
	if root {
		options = rootOptions
	}
	ctx, ob.span = o.tracer.Start(&ob.handler, ob.series.spanName, options...)
	ob.sampled, ob.recording = ob.span.SpanContext().IsSampled(), ob.span.IsRecording()
	if ob.recording {
		if ambient.IsValid() && (foreign || remote.IsValid()) {
			ob.span.AddLink(trace.Link{SpanContext: ambient})
		}
		if remote.IsValid() && o.untrusted {
			ob.span.AddLink(trace.Link{SpanContext: remote})
		}
		attrs := attributesToSet()
		*attrs = o.messageAttributes(append(*attrs, ob.series.attributes...), in, s)
		ob.set(attrs)
		ob.recordArguments(in)
	}
	return ctx
}

// outcome gathers what has become of an admitted request.
func (ob *observation) outcome(r *session.Request) outcome {
	out := outcome{err: r.Error(), toolError: ob.toolError.Load()}
	out.fate, out.drop = r.Fate()
	if cancel, _ := r.Cancellation(); cancel != nil {
		out.cause = cancel.Cause
	}
	return out
}

// end records the duration, keeps what is worth it and ends the span.
func (ob *observation) end(r *session.Request, out outcome) {
	errorType := out.errorType()
	if !ob.measured.Load() {
		ob.measure(r, &out, errorType)
	}
	ob.observer.recent.ended(ob, r, &out, errorType)
	if ob.sampled {
		defer ob.observer.recent.spans.finish(ob)
	}
	if !ob.recording {
		return
	}
	attrs := attributesToSet()
	*attrs = out.attributes(*attrs, errorType)
	if wait, ok := r.QueueWait(); ok {
		*attrs = append(*attrs, keyQueueWait.Float64(wait.Seconds()))
	}
	if r.Method == mcp.MethodInitialize { // what it has settled was not known at its start
		*attrs = ob.observer.appendPeer(*attrs, r.Inbound, r.Session())
	}
	ob.set(attrs)
	if errorType != "" {
		message := ""
		if out.err != nil {
			message = out.err.Message
		}
		ob.span.SetStatus(codes.Error, message)
	}
	ob.span.End()
}

// attributeRoom holds slices of attributes on their way to a span.
var attributeRoom = sync.Pool{New: func() any {
	attrs := make([]attribute.KeyValue, 0, 24)
	return &attrs
}}

// attributesToSet returns an empty slice for attributes that set gives to the span.
func attributesToSet() *[]attribute.KeyValue {
	return attributeRoom.Get().(*[]attribute.KeyValue)
}

// set gives attributes to the span, and the slice back to the next one if the span is the
// SDK's, which copies them: somebody else's may keep what it is given.
func (ob *observation) set(attrs *[]attribute.KeyValue) {
	ob.span.SetAttributes(*attrs...)
	if ob.observer.copies {
		clear(*attrs) // they may hold on to a frame
		*attrs = (*attrs)[:0]
		attributeRoom.Put(attrs)
	}
}

// measure records the duration of the operation, from arrival to outcome.
func (ob *observation) measure(r *session.Request, out *outcome, errorType string) {
	key := operationKey{
		errorType: out.errorLabel(errorType), version: versionLabel(versionOf(r.Inbound, r.Session())), network: networkOf(r.Conn),
	}
	if out.err != nil {
		key.code = codeLabel(out.err.Code)
	}
	took := r.Latency()
	ob.operated(key, r.ArrivedAt(), took)
	ob.series.latency.observe(took, errorType != "")
}

// operated records the duration of an operation.
func (ob *observation) operated(key operationKey, begin time.Time, took time.Duration) {
	child := ob.series.operation(key)
	child.Observe(took.Seconds())
	if ob.sampled {
		child.exemplars.put(took.Seconds(), ob.span.SpanContext(), begin.Add(took))
	}
}

// unwound records how long a cancelled handler took to return.
func (ob *observation) unwound(r *session.Request) {
	cancel, when := r.Cancellation()
	done, ok := r.HandlerDone()
	if cancel == nil || !ok {
		return
	}
	took := max(r.ArrivedAt().Add(done).Sub(when), 0)
	observe(ob.observer.metrics.unwind.WithLabelValues(r.Route.Series.Target, string(cancel.Cause)),
		took.Seconds(), ob.exemplar())
}

// returnedLate marks that an abandoned handler has returned after all.
func (ob *observation) returnedLate(r *session.Request) {
	if !ob.recording {
		return
	}
	sc := ob.span.SpanContext()
	when := ob.observer.now()
	if done, ok := r.HandlerDone(); ok {
		when = r.ArrivedAt().Add(done)
	}
	_, span := ob.observer.tracer.Start(trace.ContextWithSpanContext(context.Background(), sc), spanReturnedLate,
		trace.WithLinks(trace.Link{SpanContext: sc}), trace.WithTimestamp(when))
	out := ob.outcome(r)
	span.SetAttributes(out.attributes(append([]attribute.KeyValue{}, ob.series.attributes...), "")...)
	if _, cancelled := r.Cancellation(); !cancelled.IsZero() {
		span.SetAttributes(keyCancelUnwind.Float64(when.Sub(cancelled).Seconds()))
	}
	span.End()
}

// event adds an event to the span.
func (ob *observation) event(name string, attrs ...attribute.KeyValue) {
	if ob.recording {
		ob.span.AddEvent(name, trace.WithAttributes(attrs...))
	}
}

// panicked adds the panic to the span, as the convention for exceptions has it.
func (ob *observation) panicked(value any, stack []byte) {
	kind, text := describePanic(value)
	short := kept(text, maxText)
	ob.panic.Store(&short)
	if !ob.recording {
		return
	}
	ob.event(eventException, keyExceptionType.String(kind), keyExceptionMessage.String(text),
		keyExceptionStacktrace.String(string(stack)))
}

// exemplify remembers the request's trace as the latest of a counter's point.
func (ob *observation) exemplify(p point) {
	if ob.sampled {
		ob.observer.metrics.counters.exemplars.put(p, ob.span.SpanContext(), ob.observer.now())
	}
}

// exemplar returns the labels that name the span; nil unless it is sampled.
func (ob *observation) exemplar() prometheus.Labels {
	if !ob.sampled {
		return nil
	}
	return exemplarLabels(ob.span.SpanContext())
}

// spanContext returns the span context of a request; the zero value if telemetry
// is disabled.
func spanContext(r *session.Request) trace.SpanContext {
	if ob := observationOf(r); ob != nil {
		return ob.span.SpanContext()
	}
	return trace.SpanContext{}
}

// TraceID returns the trace id of a request's span in hexadecimal, or "" if it has none.
func TraceID(r *session.Request) string {
	if sc := spanContext(r); sc.HasTraceID() {
		return sc.TraceID().String()
	}
	return ""
}

// HasRuntimeTask reports whether a request is a task in the trace of the Go runtime by
// its span: the SDK makes a task of each span that it records.
func HasRuntimeTask(r *session.Request) bool {
	ob := observationOf(r)
	if ob == nil {
		return false
	}
	_, recorded := ob.span.(sdktrace.ReadWriteSpan)
	return recorded
}

package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// spanTask begins the name of the span of a task; the registered tool follows.
const spanTask = "vitrine.task" // span, followed by the tool: what a handler does after its call became a task

// A taskObservation is what is kept for one task: what a tool's handler does after its
// call was answered.
type taskObservation struct {
	span trace.Span
	// abandoned: the span has ended. Whoever writes it has a hold on the task, and who
	// reads it is told when the last one is given up.
	abandoned bool
}

func taskObservationOf(d *session.Detached) *taskObservation {
	ob, _ := d.Observation.(*taskObservation)
	return ob
}

// taskAttributes are the attributes of a task that are known from its start.
func taskAttributes(d *session.Detached) []attribute.KeyValue {
	return []attribute.KeyValue{keyToolName.String(d.Series.Target), keyTaskID.String(d.Name)}
}

// Detached implements [session.Observer]: it starts the span of a task, a child of that
// of the call and linked to it, because it will outlive it.
func (o *observer) Detached(ctx context.Context, d *session.Detached) context.Context {
	ctx, span := o.tracer.Start(ctx, spanTask+" "+d.Series.Target,
		trace.WithLinks(trace.Link{SpanContext: trace.SpanContextFromContext(ctx)}), trace.WithAttributes(taskAttributes(d)...))
	d.Observation = &taskObservation{span: span}
	return ctx
}

// DetachedCancelled implements [session.Observer].
func (o *observer) DetachedCancelled(d *session.Detached, cancel *mcp.CancelError) {
	ob := taskObservationOf(d)
	if ob == nil {
		return
	}
	ob.span.AddEvent(eventCancelled, trace.WithAttributes(cancelAttributes(cancel)...))
	if sc := ob.span.SpanContext(); sc.IsSampled() {
		o.metrics.counters.exemplars.put(at(MetricTasksCancelled, d.Series.Target, string(cancel.Cause)), sc, o.now())
	}
}

// DetachedPanicked implements [session.Observer].
func (o *observer) DetachedPanicked(d *session.Detached, value any, stack []byte) {
	if ob := taskObservationOf(d); ob != nil {
		kind, text := describePanic(value)
		ob.span.AddEvent(eventException, trace.WithAttributes(keyExceptionType.String(kind),
			keyExceptionMessage.String(text), keyExceptionStacktrace.String(string(stack))))
	}
}

// DetachedAbandoned implements [session.Observer]: the span ends here at the latest.
func (o *observer) DetachedAbandoned(d *session.Detached) {
	if ob := taskObservationOf(d); ob != nil {
		ob.span.AddEvent(eventAbandoned, trace.WithAttributes(abandonAttributes(d.Cancellation())...))
		ob.abandoned = true
		o.endTask(ob, d)
	}
}

// DetachedFinished implements [session.Observer].
func (o *observer) DetachedFinished(d *session.Detached) {
	ob := taskObservationOf(d)
	if ob == nil {
		return
	}
	cancel, when := d.Cancellation()
	unwind := max(time.Since(when), 0)
	if cancel != nil {
		observe(o.metrics.unwind.WithLabelValues(d.Series.Target, string(cancel.Cause)),
			unwind.Seconds(), exemplarOf(ob.span.SpanContext()))
	}
	if !ob.abandoned {
		o.endTask(ob, d)
		return
	}
	sc := ob.span.SpanContext()
	_, span := o.tracer.Start(trace.ContextWithSpanContext(context.Background(), sc), spanReturnedLate,
		trace.WithLinks(trace.Link{SpanContext: sc}), trace.WithAttributes(taskAttributes(d)...))
	if cancel != nil {
		span.SetAttributes(keyCancelCause.String(string(cancel.Cause)), keyCancelUnwind.Float64(unwind.Seconds()))
	}
	span.End()
}

// endTask records the duration of a task and ends its span.
func (o *observer) endTask(ob *taskObservation, d *session.Detached) {
	defer ob.span.End()
	end := d.End()
	observe(o.metrics.task.WithLabelValues(d.Series.Target, string(end.Status)),
		time.Since(d.BeganAt()).Seconds(), exemplarOf(ob.span.SpanContext()))
	if !ob.span.IsRecording() {
		return
	}
	out := outcome{err: end.Error, toolError: end.ToolError}
	if cancel, _ := d.Cancellation(); cancel != nil {
		out.cause = cancel.Cause
	}
	if end.Hidden != nil {
		ob.span.AddEvent(eventException, trace.WithAttributes(exceptionOf(end.Hidden)...))
	}
	errorType := out.errorType()
	ob.span.SetAttributes(out.attributes([]attribute.KeyValue{keyTaskStatus.String(string(end.Status))}, errorType)...)
	if errorType != "" {
		message := ""
		if end.Error != nil {
			message = end.Error.Message
		}
		ob.span.SetStatus(codes.Error, message)
	}
}

// describePanic names the value of a panic; nil is a runtime.Goexit.
func describePanic(value any) (kind, text string) {
	if value == nil {
		return "runtime.Goexit", "the handler has ended its goroutine"
	}
	return fmt.Sprintf("%T", value), fmt.Sprint(value)
}

// TraceParent returns the span of a context in the form of a traceparent, or "".
func TraceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get(mcp.MetaTraceParent)
}

// LinkSpan links the span of a context to the one that a traceparent names. One that
// cannot be read is ignored.
func LinkSpan(ctx context.Context, traceparent string) {
	span := trace.SpanFromContext(ctx)
	if traceparent == "" || !span.IsRecording() {
		return
	}
	other := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{mcp.MetaTraceParent: traceparent})
	if sc := trace.SpanContextFromContext(other); sc.IsValid() {
		span.AddLink(trace.Link{SpanContext: sc})
	}
}

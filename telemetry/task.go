package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// spanTask begins the name of the span of a task; the registered tool follows.
const spanTask = "vitrine.task" // span, followed by the tool: what a handler does after its call became a task

// A TaskEnd is how the handler of a task has returned.
type TaskEnd struct {
	Status mcp.TaskStatus
	// Error is the error of a failed task, ToolError that its result has isError set.
	Error     *mcp.Error
	ToolError bool
	Cause     mcp.Cause             // if its context was cancelled
	Panic     *session.HandlerPanic // if it has panicked
}

// StartTask starts the span and the duration of a task: what a tool's handler does after its call was
// answered. It is a child of the span in ctx, that of the call, and linked to it,
// because it will outlive it. id is what may be told of the task's id. The context
// that is returned carries the span; end ends both.
func (t *Telemetry) StartTask(ctx context.Context, tool, id string) (derived context.Context, end func(TaskEnd)) {
	derived, end = ctx, func(TaskEnd) {}
	defer t.contain("start of a task")
	creator := trace.SpanContextFromContext(ctx)
	begin := t.now()
	ctx, span := t.tracer().Start(ctx, spanTask+" "+tool, trace.WithLinks(trace.Link{SpanContext: creator}),
		trace.WithAttributes(keyToolName.String(tool), keyTaskID.String(id)))
	return ctx, func(e TaskEnd) {
		defer t.contain("end of a task")
		defer span.End()
		if t.metrics != nil {
			took := t.now().Sub(begin).Seconds()
			observe(t.metrics.task.WithLabelValues(tool, string(e.Status)), took, exemplarOf(span.SpanContext()))
		}
		if !span.IsRecording() {
			return
		}
		out := outcome{cause: e.Cause, err: e.Error, toolError: e.ToolError}
		errorType := out.errorType()
		span.SetAttributes(out.attributes([]attribute.KeyValue{keyTaskStatus.String(string(e.Status))}, errorType)...)
		if e.Panic != nil {
			kind, text := describePanic(e.Panic.Value)
			span.AddEvent(eventException, trace.WithAttributes(keyExceptionType.String(kind),
				keyExceptionMessage.String(text), keyExceptionStacktrace.String(string(e.Panic.Stack))))
		}
		if errorType != "" {
			message := ""
			if e.Error != nil {
				message = e.Error.Message
			}
			span.SetStatus(codes.Error, message)
		}
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

package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Task is what a tool's handler does after its call was answered, from
// [Telemetry.BeginTask] to [Task.End]. Its methods may be called from any goroutine, except
// that End must not be called while Abandoned runs. A nil Task does nothing.
type Task struct {
	tel       *Telemetry
	span      trace.Span
	tool, id  string
	abandoned bool // the span has ended
}

// BeginTask begins a task: a call of a tool was answered with id, or what people are
// shown of it, and its handler goes on. ctx is the call's; the context that it returns has
// the task's span, a child of that of the call and linked to it, because it will outlive it.
func (t *Telemetry) BeginTask(ctx context.Context, tool, id string) (context.Context, *Task) {
	if !t.Enabled() {
		return ctx, nil
	}
	task := &Task{tel: t, tool: tool, id: id}
	attrs := task.attributes()
	if call, _ := ctx.Value(idsKey{}).(*Operation); call != nil && call.origin != nil {
		info := call.info()
		attrs = t.appendPrincipal(attrs, info.Principal)
	}
	ctx, task.span = t.tracer.Start(ctx, spanTask+" "+tool,
		trace.WithLinks(trace.Link{SpanContext: trace.SpanContextFromContext(ctx)}), trace.WithAttributes(attrs...))
	return ctx, task
}

// attributes are those of a task that are known from its start.
func (task *Task) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{keyToolName.String(task.tool), keyTaskID.String(task.id)}
}

// Cancelled says that the context of the task was cancelled, which happens once.
func (task *Task) Cancelled(cause mcp.Cause, detail string) {
	if task == nil {
		return
	}
	task.span.AddEvent(eventCancelled, trace.WithAttributes(cancelAttributes(cause, detail)...))
	if sc := task.span.SpanContext(); sc.IsSampled() {
		t := task.tel
		t.metrics.snapshots.exemplars.put(at(MetricTasksCancelled, task.tool, string(cause)), sc, t.now())
	}
}

// Panicked says that the handler panicked; a nil value is a runtime.Goexit.
func (task *Task) Panicked(value any, stack []byte) {
	if task != nil {
		task.span.AddEvent(eventException, trace.WithAttributes(panicAttributes(value, stack)...))
	}
}

// Error adds to the span an error of the handler that the caller does not see.
func (task *Task) Error(err error) {
	if task != nil && task.span.IsRecording() {
		task.span.AddEvent(eventException, trace.WithAttributes(errorAttributes(err)...))
	}
}

// Abandoned says that the handler has ignored its cancelled context for so long that
// nobody waits for it any more. The span ends now; End tells of the late return.
func (task *Task) Abandoned(out Outcome) {
	if task != nil {
		task.span.AddEvent(eventAbandoned, trace.WithAttributes(abandonAttributes(&out)...))
		task.abandoned = true
		task.end(&out)
	}
}

// End ends the task: its handler has returned. Of the outcome it needs TaskStatus, Settled
// (the time since its beginning), Err and ToolError, and of one that was cancelled, Cancelled and
// CancelledAfter.
func (task *Task) End(out Outcome) {
	if task == nil {
		return
	}
	unwind := max(out.Settled-out.CancelledAfter, 0)
	if out.Cancelled != nil {
		observe(task.tel.metrics.histogram(MetricCancelUnwind, task.tool, string(out.Cancelled.Cause)),
			unwind.Seconds(), task.span.SpanContext())
	}
	if !task.abandoned {
		task.end(&out)
		return
	}
	attrs := appendText(task.attributes(), keyCancelCause, string(out.cause()))
	task.tel.returnedLate(task.span.SpanContext(), attrs, out.Cancelled, unwind)
}

// end records the duration of the task and ends its span.
func (task *Task) end(out *Outcome) {
	defer task.span.End()
	observe(task.tel.metrics.histogram(MetricTaskDuration, task.tool, string(out.TaskStatus)),
		out.Settled.Seconds(), task.span.SpanContext())
	if !task.span.IsRecording() {
		return
	}
	errorType := out.errorType()
	task.span.SetAttributes(out.attributes([]attribute.KeyValue{keyTaskStatus.String(string(out.TaskStatus))}, errorType)...)
	out.setStatus(task.span, errorType)
}

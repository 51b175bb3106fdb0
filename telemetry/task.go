package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Task is the work of a tool's handler after its call was answered, from [Telemetry.BeginTask] to
// [Task.End]. Its methods are safe for concurrent use, but calls of End and Abandoned must not
// overlap. A nil Task does nothing.
type Task struct {
	tel       *Telemetry
	span      trace.Span
	tool, id  string
	abandoned bool // the span has ended
}

// BeginTask begins a task: a call of a tool was answered with the task's id, and its handler goes
// on. id is the part of the task's id that spans show. ctx is the context of the call. BeginTask
// returns a context with the task's span, which is a child of the call's span and linked to it.
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
	ctx, task.span = t.startSpan(ctx, spanTask+" "+tool,
		trace.WithLinks(trace.Link{SpanContext: trace.SpanContextFromContext(ctx)}), trace.WithAttributes(attrs...))
	return ctx, task
}

// attributes returns the attributes of a task at its start.
func (task *Task) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{keyToolName.String(task.tool), keyTaskID.String(task.id)}
}

// Restarted reports that this is the run-th run of the task's handler, on behalf of p, which may be nil: the call was
// answered by another process, which is lost. The span is a child of the call's span if the context of BeginTask has
// that as a remote span. Call it once, at the beginning.
func (task *Task) Restarted(run int, p *auth.Principal) {
	if task != nil {
		task.span.SetAttributes(task.tel.appendPrincipal([]attribute.KeyValue{keyTaskRun.Int(run)}, p)...)
	}
}

// Cancelled reports that the context of the task was cancelled. Call it once.
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

// Panicked reports that the handler panicked. A nil value is a runtime.Goexit.
func (task *Task) Panicked(value any, stack []byte) {
	if task != nil {
		task.span.AddEvent(eventException, trace.WithAttributes(panicAttributes(value, stack)...))
	}
}

// Error reports the handler's own error, which may differ from the error of the task.
func (task *Task) Error(err error) {
	if task != nil && task.span.IsRecording() {
		task.span.AddEvent(eventException, trace.WithAttributes(errorAttributes(err)...))
	}
}

// Abandoned reports that the handler has ignored its cancelled context for too long, and that the
// server no longer waits for it. The span ends now. If the handler returns later, call End.
func (task *Task) Abandoned(out Outcome) {
	if task != nil {
		task.span.AddEvent(eventAbandoned, trace.WithAttributes(abandonAttributes(&out)...))
		task.abandoned = true
		task.end(&out)
	}
}

// End ends the task when its handler has returned. If the status is not a terminal one, another replica goes on with the task: then
// the span ends without an error, and no duration is recorded. It uses these fields of the outcome:
// TaskStatus, Settled (the time since the task's beginning), Err, ToolError, Cancelled and
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

// end records the duration of the task, if it is over, and ends its span.
func (task *Task) end(out *Outcome) {
	defer task.span.End()
	over := out.TaskStatus.Terminal()
	if over {
		observe(task.tel.metrics.histogram(MetricTaskDuration, task.tool, string(out.TaskStatus)),
			out.Settled.Seconds(), task.span.SpanContext())
	}
	if !task.span.IsRecording() {
		return
	}
	errorType := ""
	if over { // what another replica goes on with has not failed
		errorType = out.errorType()
	}
	task.span.SetAttributes(out.attributes(appendText(nil, keyTaskStatus, string(out.TaskStatus)), errorType)...)
	out.setStatus(task.span, errorType)
}

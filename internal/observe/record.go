package observe

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// Error reports the handler's own error. It ignores an error that only repeats the cancellation of
// the request.
func Error(r *session.Request, err error) {
	if cancel, _ := r.Cancellation(); cancel != nil && cancel.Is(err) {
		return
	}
	operation(r).Error(err)
}

// Encoding reports that the handler's result cannot be encoded. The caller gets "internal error".
func Encoding(r *session.Request, err error) { operation(r).Error(err) }

// Result reports the result of a tool.
func Result(r *session.Request, result *mcp.CallToolResult) {
	if result.IsError {
		r.SetMark(session.MarkToolError)
	}
	operation(r).Result(result.IsError, result)
}

// Decided reports what the scopes and policies have decided about a request.
func Decided(r *session.Request, d *auth.Decision) {
	operation(r).Decided(d.Rule, session.EffectOf(d), d.Reason)
}

// Log reports a log message of the handler.
func Log(r *session.Request, level mcp.LoggingLevel, logger, text string) {
	operation(r).Log(level, logger, text)
}

// Validated reports how long the validation of a call's arguments took.
func Validated(r *session.Request, took time.Duration) {
	r.Decoded(took)
	operation(r).Validated(took)
}

// ArgumentsRejected reports that the arguments of a call are wrong. Its handler is not called.
func ArgumentsRejected(r *session.Request, faults string) {
	r.SetMark(session.MarkArguments)
	operation(r).ArgumentsRejected(faults)
}

// Asked reports that the result of a request asks its client something, by a request of method, that the client
// may answer for a time to live. round is the [TraceParent] that its state has.
func Asked(r *session.Request, method, round string, ttl time.Duration) {
	operation(r).Asked(method, round, ttl)
}

// Returned reports that a request came again with the state of a round that has asked something, and whether it has
// the answer.
func Returned(r *session.Request, method, round string, answered bool) {
	operation(r).Returned(method, round, answered)
}

// TaskAsks reports that a task asks its client something, by a request of method. The caller must call end when
// the wait ends, with nil if there was an answer.
func TaskAsks(d *session.Detached, method string) (end func(err error)) {
	task, _ := observationOf(d).(*telemetry.Task)
	client, version := d.Client()
	return task.Ask(method, client, version)
}

// TraceID returns the trace id of a request's span in hexadecimal, or "" if it has none.
func TraceID(r *session.Request) string { return operation(r).TraceID() }

// HasRuntimeTask reports whether the span of a request is a task in the trace of the Go runtime.
func HasRuntimeTask(r *session.Request) bool { return operation(r).HasRuntimeTask() }

// TraceParent returns the traceparent of the span of a context, or "".
func TraceParent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get(mcp.MetaTraceParent)
}

// ContextOf returns a context with the remote span of a traceparent, or without one if that is invalid.
func ContextOf(traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{mcp.MetaTraceParent: traceparent})
}

// LinkSpan links the span of a context to the span of a traceparent. It ignores an invalid
// traceparent.
func LinkSpan(ctx context.Context, traceparent string) {
	span := trace.SpanFromContext(ctx)
	if traceparent == "" || !span.IsRecording() {
		return
	}
	if sc := trace.SpanContextFromContext(ContextOf(traceparent)); sc.IsValid() {
		span.AddLink(trace.Link{SpanContext: sc})
	}
}

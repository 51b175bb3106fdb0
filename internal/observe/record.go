package observe

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Error tells of the handler's own error. One that only reports the cancellation of the
// request is left out.
func Error(r *session.Request, err error) {
	if cancel, _ := r.Cancellation(); cancel != nil && cancel.Is(err) {
		return
	}
	operation(r).Error(err)
}

// Encoding tells that the handler's result cannot be encoded, which the caller sees as
// "internal error" whatever the error is.
func Encoding(r *session.Request, err error) { operation(r).Error(err) }

// Result tells what a tool has returned.
func Result(r *session.Request, result *mcp.CallToolResult) {
	operation(r).Result(result.IsError, result)
}

// Log tells of a message that the handler has logged.
func Log(r *session.Request, level mcp.LoggingLevel, logger, text string) {
	operation(r).Log(level, logger, text)
}

// Validated tells how long it took to validate the arguments of a call.
func Validated(r *session.Request, took time.Duration) { operation(r).Validated(took) }

// ArgumentsRejected tells what is wrong with the arguments of a call, so that its handler
// is not called.
func ArgumentsRejected(r *session.Request, faults string) { operation(r).ArgumentsRejected(faults) }

// TraceID returns the trace id of a request's span in hexadecimal, or "" if it has none.
func TraceID(r *session.Request) string { return operation(r).TraceID() }

// HasRuntimeTask reports whether a request is a task in the trace of the Go runtime by
// its span.
func HasRuntimeTask(r *session.Request) bool { return operation(r).HasRuntimeTask() }

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

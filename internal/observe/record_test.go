package observe

import (
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// Without telemetry, no span is named or linked.
func TestLinkSpanWithoutASpan(t *testing.T) {
	require.Empty(t, TraceParent(t.Context()))
	LinkSpan(t.Context(), caller)
}

// A span is linked to the span of a traceparent. An invalid traceparent is ignored.
func TestLinkSpan(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("")
	ctx, span := tracer.Start(t.Context(), "call")
	for _, traceparent := range []string{"", "nonsense", "00-00000000000000000000000000000000-b7ad6b7169203331-01", caller} {
		LinkSpan(ctx, traceparent)
	}
	span.End()
	links := spans.Ended()[0].Links()
	require.Len(t, links, 1)
	require.Equal(t, "b7ad6b7169203331", links[0].SpanContext.SpanID().String())
	sc := span.SpanContext()
	require.Equal(t, "00-"+sc.TraceID().String()+"-"+sc.SpanID().String()+"-01", TraceParent(ctx))
}

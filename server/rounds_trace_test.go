package server_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// The span of a round links the one before, which had a trace of its own.
func TestRoundsAreLinked(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tel, err := telemetry.New(telemetry.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
	require.NoError(t, err)
	srv := newServer(t, server.WithTelemetry(tel))
	addTwo(srv)
	p := dial(t, srv)
	asked, _ := round(t, p, call("two", `{}`))
	asked, _ = round(t, p, retry(call("two", `{}`), asked.RequestState, "one", accepted("1")))
	round(t, p, retry(call("two", `{}`), asked.RequestState, "two", accepted("2")))
	require.NoError(t, p.hangUp())

	ended := spans.Ended() // perhaps after the next one has begun
	slices.SortFunc(ended, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	require.Len(t, ended, 3)
	// An answer may be read before the span of its round has ended.
	slices.SortFunc(ended, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	require.Empty(t, ended[0].Links())
	for i := 1; i < 3; i++ {
		require.Len(t, ended[i].Links(), 1)
		before := ended[i-1].SpanContext()
		require.Equal(t, before.TraceID(), ended[i].Links()[0].SpanContext.TraceID())
		require.Equal(t, before.SpanID(), ended[i].Links()[0].SpanContext.SpanID())
		require.NotEqual(t, before.TraceID(), ended[i].SpanContext().TraceID())
	}
}

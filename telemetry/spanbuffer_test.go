package telemetry

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// spanning is a rig whose tools "fail" and "work" start spans of their own.
func spanning(t *testing.T, cfg rigConfig, spans int) *rig {
	r := newRig(t, cfg)
	tracer := r.tel.provider.Tracer("user")
	start := func(ctx context.Context) {
		ctx, outer := tracer.Start(ctx, "outer")
		for i := range spans {
			_, inner := tracer.Start(ctx, fmt.Sprint("inner ", i))
			inner.SetAttributes(attribute.String("sql", "select\x07 1"))
			inner.AddEvent("retry", trace.WithAttributes(attribute.Int("attempt", 2)))
			inner.SetStatus(codes.Error, "no route to host")
			inner.End()
		}
		outer.End()
	}
	r.tools["work"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
		start(ctx)
		return &mcp.CallToolResult{}, nil
	}
	r.tools["fail"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
		start(ctx)
		return nil, errPrivate
	}
	return r
}

func (r *rig) buffer() *spanBuffer { return r.tel.recent.spans }

// size returns how much the buffer has.
func (k *spanBuffer) size() (traces, spans int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, t := range k.traces {
		n += len(t.spans)
	}
	if n != k.total {
		panic(fmt.Sprintf("%d spans are kept and %d counted", n, k.total))
	}
	return len(k.traces), n
}

// TestSpansAreBuffered checks that the request's own span and those that its handler started are
// unchanged.
func TestSpansAreBuffered(t *testing.T) {
	r := spanning(t, rigConfig{}, 2)
	r.post(call("fail"), &sink{})
	d := fetch[report.TraceDetail](t, r, "/debug/traces/1")
	byName := map[string]report.Span{}
	for _, s := range d.Spans {
		byName[s.Name] = s
	}
	require.Equal(t, []string{"inner 0", "inner 1", "outer", "tools/call fail"}, keys(byName))
	require.Equal(t, d.SpanID, byName["tools/call fail"].SpanID)
	require.Equal(t, d.SpanID, byName["outer"].Parent)
	require.Equal(t, "server", byName["tools/call fail"].Kind)
	inner := byName["inner 1"]
	require.Equal(t, byName["outer"].SpanID, inner.Parent)
	require.Equal(t, []report.Attribute{{Key: "sql", Value: "select\ufffd 1"}}, inner.Attributes)
	require.Equal(t, "retry", inner.Events[0].Name)
	require.Equal(t, "attempt=2", inner.Events[0].Text)
	require.Equal(t, "Error", inner.Status)
	require.Equal(t, "no route to host", inner.StatusText)
	require.Zero(t, d.SpansLeftOut)
}

// TestOnlySpansOfRecentTracesAreBuffered checks that no spans are buffered of requests without a
// recent trace, of traces without a request, and of traces that are not sampled.
func TestOnlySpansOfRecentTracesAreBuffered(t *testing.T) {
	r := spanning(t, rigConfig{telemetry: []Option{WithRecent(Recent{Traces: 2})}}, 1)
	for range 50 { // the first four are the slowest so far, others may be, and one is the latest
		r.post(call("work"), &sink{})
	}
	_, span := r.tel.provider.Tracer("user").Start(context.Background(), "a job")
	span.End()
	list := r.kept("")
	require.Less(t, len(list), 20)
	traces, spans := r.buffer().size()
	require.Equal(t, len(list), traces)
	require.Equal(t, 3*len(list), spans)

	u := spanning(t, rigConfig{sampler: sdktrace.NeverSample()}, 1)
	u.post(call("fail"), &sink{})
	require.Empty(t, fetch[report.TraceDetail](t, u, "/debug/traces/1").Spans)
	traces, _ = u.buffer().size()
	require.Zero(t, traces)
}

// TestHoldsOfUnexportedSpansEnd checks that of requests whose spans are not exported only recent ones have
// spans in memory: their own, and those that their handlers started.
func TestHoldsOfUnexportedSpansEnd(t *testing.T) {
	setSampler(t, "", "")
	r := spanning(t, rigConfig{telemetry: []Option{WithTracerProvider(nil), WithRecent(Recent{Traces: 2})}}, 1)
	for range 50 {
		r.post(call("work"), &sink{})
		r.post(call("fail"), &sink{})
	}
	list := r.kept("")
	require.Less(t, len(list), 20)
	traces, spans := r.buffer().size()
	require.Equal(t, len(list), traces)
	require.Equal(t, 3*len(list), spans)
}

// TestSpanBounds checks the bounds of one trace and of all traces. Spans that are left out are
// counted, and the oldest traces are evicted first.
func TestSpanBounds(t *testing.T) {
	r := spanning(t, rigConfig{telemetry: []Option{WithRecent(Recent{Traces: 32, Spans: 5, TotalSpans: 12})}}, 10)
	for range 4 {
		r.post(call("fail"), &sink{})
	}
	traces, spans := r.buffer().size()
	require.Equal(t, 4, traces)
	require.LessOrEqual(t, spans, 12)
	newest, oldest := fetch[report.TraceDetail](t, r, "/debug/traces/4"), fetch[report.TraceDetail](t, r, "/debug/traces/1")
	require.Len(t, newest.Spans, 5)
	require.Equal(t, 12-5, newest.SpansLeftOut)
	require.Empty(t, oldest.Spans)
	require.Equal(t, 12, oldest.SpansLeftOut)
	families := gather(t, r.tel.Registry())
	require.EqualValues(t, 4*7, value(families, MetricTraceSpansLeftOut, "limit", limitRecentSpans))
	require.EqualValues(t, 2*5, value(families, MetricTraceSpansLeftOut, "limit", limitRecentTotalSpans))
}

// TestSpansAreRemovedWithTheirTrace checks that no spans are left when the ring has evicted their
// trace, also if several requests share a trace.
func TestSpansAreRemovedWithTheirTrace(t *testing.T) {
	r := spanning(t, rigConfig{telemetry: []Option{WithRecent(Recent{Traces: 2})}}, 1)
	for range 6 {
		in := call("fail")
		in.Meta.TraceParent = callerParent
		r.post(in, &sink{})
	}
	r.tel.recent.rings[classError].second = 0 // the next second
	traces, _ := r.buffer().size()
	require.Equal(t, 1, traces)
	for range 2 {
		r.post(call("fail"), &sink{})
	}
	require.Len(t, r.kept("error"), 2)
	traces, spans := r.buffer().size()
	require.Equal(t, 2, traces)
	require.Equal(t, 6, spans)
	require.False(t, strings.Contains(callerParent, r.kept("error")[0].TraceID))
}

// TestForeignProvider checks that the buffer leaves the provider of the program unchanged.
func TestForeignProvider(t *testing.T) {
	r := spanning(t, rigConfig{}, 1)
	r.post(call("fail"), &sink{})
	_, before := r.buffer().size()
	require.Positive(t, before)
	require.NoError(t, r.tel.Shutdown(t.Context()))
	r.post(call("fail"), &sink{})
	_, after := r.buffer().size()
	require.Equal(t, before, after)
}

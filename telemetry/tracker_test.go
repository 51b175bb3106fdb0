package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The number of tracked operations is bounded, and those that are not shown are counted.
func TestOtherServersAreBounded(t *testing.T) {
	tel, _ := newWithSpans(t, WithRecent(Recent{Traces: -1}))
	var ops []*Operation
	for i := range maxTracked + 5 {
		info := Info{Method: mcp.MethodToolsCall, Target: fmt.Sprint("tool", i)}
		if i%2 == 0 {
			info.Method = "made/up"
		}
		_, op := tel.Begin(t.Context(), info)
		ops = append(ops, op)
		tel.Session(Info{Transport: "stdio"})
	}
	k := tel.tracked
	require.Len(t, k.live, maxTracked)
	require.Len(t, k.sessions, maxTracked)
	require.LessOrEqual(t, len(tel.series.load()), maxTrackedSeries+2)
	for _, op := range ops {
		op.End(Outcome{})
	}
	require.Empty(t, k.live)
	families := gather(t, tel.Registry())
	require.EqualValues(t, maxTracked+5, sum(families, MetricRequestsAdmitted))
	require.EqualValues(t, maxTracked+5, sum(families, MetricResponsesSent))
	require.Positive(t, value(families, MetricResponsesSent, "method", other))
	require.Positive(t, value(families, MetricOperationDuration, "gen_ai_tool_name", other))
	require.EqualValues(t, maxTracked, value(families, MetricSessionsActive, "transport", "stdio"))
}

// Operations are begun, cancelled and ended while they are shown; at rest the counters
// agree. (Not in a bubble: this is about real concurrency.)
func TestOtherServersAtTheSameTime(t *testing.T) {
	tel, _ := newWithSpans(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithCancelCause(t.Context())
				_, op := tel.Begin(ctx, weatherCall())
				var both sync.WaitGroup
				both.Go(func() { cancel(mcp.ErrClientCancelled) })
				both.Go(func() { op.Cancelled(mcp.CauseDeadline, "") })
				op.Event("step")
				if i%3 == 0 {
					op.End(Outcome{Rejected: mcp.RejectOverload})
				} else {
					op.End(Outcome{Fate: FateSent})
				}
				both.Wait()
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	admitted := 0.0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		families := gather(t, tel.Registry())
		now := sum(families, MetricRequestsAdmitted)
		require.GreaterOrEqual(t, now, admitted, "a counter goes up")
		admitted = now
		require.Equal(t, 0.0, now-sum(families, MetricResponsesSent)-
			value(families, MetricRequestsInFlight, "state", "running")-value(families, MetricRequestsInFlight, "state", "cancelled"))
		page[report.Requests](t, tel.RequestsHandler(), "/debug/requests")
	}
	families := gather(t, tel.Registry())
	require.Equal(t, sum(families, MetricRequestsAdmitted), sum(families, MetricResponsesSent))
	require.EqualValues(t, 4*67, value(families, MetricRequestsRejected, "reason", "overload"))
}

// A session of another server is shown while it is open.
func TestSessionOfAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, _ := newWithSpans(t)
		end := tel.Session(Info{
			Transport: "http", Network: "tcp", Protocol: "http", ProtocolVersion: "1.1", SessionID: "0123456789abcdef", RemoteAddr: "192.0.2.7:4711",
			Client: &mcp.Implementation{Name: "tester", Version: "1.2"}, Version: mcp.Version20251125,
		})
		time.Sleep(time.Minute)
		row := page[report.Requests](t, tel.RequestsHandler(), "/debug/requests").Sessions[0]
		require.Equal(t, report.Session{
			Session: "9f9f5111", Transport: "http", Remote: "192.0.2.7:4711", Client: "tester", ClientVersion: "1.2",
			ProtocolVersion: "2025-11-25", AgeSeconds: 60,
		}, row)
		require.EqualValues(t, 1, value(gather(t, tel.Registry()), MetricSessionsActive, "transport", "http"))
		end(mcp.CauseSessionDelete)
		end(mcp.CauseSessionIdle)
		families := gather(t, tel.Registry())
		require.EqualValues(t, 0, value(families, MetricSessionsActive, "transport", "http"))
		require.EqualValues(t, 1, sum(families, MetricSessionsClosed))
		require.EqualValues(t, 60, find(families, MetricSessionDuration, map[string]string{"mcp_protocol_version": "2025-11-25"}).GetHistogram().GetSampleSum())
	})
}

// When an extension of telemetry panics, a server that is not ours continues, and the panic is
// counted.
func TestPanickingHooksOnAnotherServer(t *testing.T) {
	provider := func(opts ...sdktrace.TracerProviderOption) Option {
		return WithTracerProvider(sdktrace.NewTracerProvider(opts...))
	}
	for name, option := range map[string]Option{
		"sampler":    provider(sdktrace.WithSampler(panicSampler{})),
		"on start":   provider(sdktrace.WithSpanProcessor(panicOnStart{})),
		"on end":     provider(sdktrace.WithSpanProcessor(panicOnEnd{})),
		"propagator": WithPropagator(panicPropagator{}),
		"clock":      WithClock(func() time.Time { panic("clock") }),
	} {
		t.Run(name, func(t *testing.T) {
			tel, _ := newWithSpans(t, option)
			ctx, op := tel.Begin(t.Context(), weatherCall())
			require.NotNil(t, ctx)
			op.Cancelled(mcp.CauseClientCancel, "")
			op.Error(errors.New("oops"))
			op.End(Outcome{Dropped: mcp.DropCancelled})
			require.Empty(t, tel.tracked.live)
			families := gather(t, tel.Registry())
			require.Positive(t, value(families, MetricPanics))
			require.EqualValues(t, 1, sum(families, MetricResponsesDropped))
		})
	}
}

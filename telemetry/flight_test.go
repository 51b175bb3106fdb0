package telemetry

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// watched returns what a watcher was told so far.
func watched(tel *Telemetry, slow time.Duration) (incidents func() []HandlerIncident, stop func()) {
	var mu sync.Mutex
	var told []HandlerIncident
	stop = tel.WatchHandlers(slow, func(i HandlerIncident) {
		mu.Lock()
		defer mu.Unlock()
		i.Ran = i.Ran.Round(time.Microsecond) // the core takes a wait of 0 for one of 1 ns
		told = append(told, i)
	})
	return func() []HandlerIncident {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(told)
	}, stop
}

// sleeper is a handler that takes its time, and does not look at its context.
func sleeper(d time.Duration) session.Handle {
	return func(context.Context, *session.Request) (mcp.Result, error) {
		time.Sleep(d)
		return &mcp.CallToolResult{}, nil
	}
}

func TestWatchSlowHandlers(t *testing.T) {
	for name, tc := range map[string]struct {
		slow, takes time.Duration
		streams     bool
		want        int
	}{
		"slower":          {100 * time.Millisecond, 150 * time.Millisecond, false, 1},
		"streams":         {100 * time.Millisecond, 150 * time.Millisecond, true, 0},
		"fast enough":     {100 * time.Millisecond, 99 * time.Millisecond, false, 0},
		"not asked for":   {0, 150 * time.Millisecond, false, 0},
		"anything at all": {1, time.Microsecond, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{})
				r.tools["sleep"], r.streams = sleeper(tc.takes), tc.streams
				incidents, stop := watched(r.tel, tc.slow)
				r.post(call("sleep"), &sink{})
				require.Len(t, incidents(), tc.want)
				if tc.want > 0 {
					require.Equal(t, HandlerIncident{
						Reason: IncidentSlow, Method: mcp.MethodToolsCall, Target: "sleep", Ran: tc.takes,
						TraceID: r.span().SpanContext().TraceID().String(),
					}, incidents()[0])
				}
				stop()
				r.post(call("sleep"), &sink{})
				require.Len(t, incidents(), tc.want, "nobody watches any more")
			})
		})
	}
}

// The time in the queue is none of the handler's.
func TestWatchLeavesTheQueueOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{limits: limits.Limits{MaxInFlightTotal: 1}})
		r.tools["sleep"] = sleeper(100 * time.Millisecond)
		incidents, _ := watched(r.tel, 101*time.Millisecond)
		for range 2 {
			st := r.core.Exchange(httpConn, 1, mcp.Modern)
			r.core.Receive(call("sleep"), st)
			go func() { _ = st.Pump(&sink{}) }()
		}
		r.rest()
		require.Empty(t, incidents())
	})
}

// An abandoned handler is reported when it is abandoned, and not again as a slow one.
func TestWatchAbandonedHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{limits: limits.Limits{AbandonGrace: 5 * time.Second}})
		r.tools["stubborn"] = sleeper(time.Hour)
		incidents, _ := watched(r.tel, time.Second)
		st := r.core.Exchange(httpConn, 1, mcp.Modern)
		r.core.Receive(call("stubborn"), st)
		require.NoError(t, st.Pump(&sink{})) // the answer of the deadline, a second later
		time.Sleep(6 * time.Second)
		want := []HandlerIncident{{
			Reason: IncidentAbandoned, Method: mcp.MethodToolsCall, Target: "stubborn", Ran: 6 * time.Second,
			TraceID: r.span().SpanContext().TraceID().String(),
		}}
		require.Equal(t, want, incidents())
		time.Sleep(time.Hour)
		r.rest()
		require.Equal(t, want, incidents())
	})
}

// A subscription lives for hours and is not slow.
func TestWatchLeavesSubscriptionsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.subscriptions()
		incidents, _ := watched(r.tel, time.Second)
		r.post(listen(), &sink{})
		require.Empty(t, incidents())
	})
}

func TestFlightCounters(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	reasons := []string{IncidentSlow, IncidentAbandoned, report.FlightOnDemand}
	families := gather(t, tel.Registry())
	for _, reason := range reasons {
		require.Zero(t, value(families, MetricFlightSnapshots, "reason", reason), "there from the start")
		tel.Count(MetricFlightSnapshots, reason)
	}
	for _, why := range report.FlightDrops() {
		require.Zero(t, value(families, MetricFlightTriggersDropped, "reason", why), "there from the start")
		tel.Count(MetricFlightTriggersDropped, why)
	}
	families = gather(t, tel.Registry())
	for _, reason := range reasons {
		require.EqualValues(t, 1, value(families, MetricFlightSnapshots, "reason", reason))
	}
	for _, why := range report.FlightDrops() {
		require.EqualValues(t, 1, value(families, MetricFlightTriggersDropped, "reason", why))
	}

	off := Disabled()
	off.Count(MetricFlightSnapshots, report.FlightOnDemand)
	off.Count(MetricFlightTriggersDropped, "busy")
	off.WatchHandlers(1, nil)()
}

// Count ignores names that it does not count: unknown ones, metrics that others count, and those that are no counters.
func TestCountIgnoresOtherNames(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	for _, metric := range []string{"", "no_such_metric", MetricResponsesSent, MetricClassLimit, MetricQueueWait} {
		require.NotPanics(t, func() { tel.Count(metric) }, metric)
		require.NotPanics(t, func() { tel.Count(metric, "label") }, metric)
	}
	require.NotContains(t, gather(t, tel.Registry()), "no_such_metric")
}

package service

import (
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A clock changes only when the test sets it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newFlight(t *testing.T, cfg FlightConfig) (*flight, *clock) {
	t.Helper()
	tel, err := telemetry.New()
	require.NoError(t, err)
	c := newClock()
	f, err := startFlight(cfg, tel, c.now)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !f.stopped {
			f.stop()
		}
	})
	return f, c
}

// metrics returns the exposition.
func (f *flight) metrics() string {
	w := httptest.NewRecorder()
	f.tel.MetricsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// Many slow handlers cause one snapshot in each interval, and no request waits for it. A reason
// that comes meanwhile waits in the mailbox. If the mailbox is full, the reason is counted and
// dropped.
func TestFlightBoundsSnapshotsOfManySlowHandlers(t *testing.T) {
	cfg := defaultFlight()
	f, clock := newFlight(t, cfg)
	slow := telemetry.HandlerIncident{Reason: telemetry.IncidentSlow, Method: "tools/call", Target: "echo", Ran: time.Minute}
	f.taking.Lock() // as if the first one took for ever
	unlock := sync.OnceFunc(f.taking.Unlock)
	t.Cleanup(unlock)
	for range 100 {
		f.trigger(slow)
	}
	require.Eventually(t, func() bool { return len(f.incidents) == 0 }, 30*time.Second, time.Millisecond)
	clock.pass(cfg.Interval - 1)
	f.trigger(slow)
	clock.pass(1)
	f.trigger(slow)
	require.Len(t, f.incidents, 1, "it waits its turn")
	clock.pass(cfg.Interval)
	f.trigger(slow)
	unlock()

	f.stop() // the mailbox is emptied before
	require.Len(t, f.list(), 2)
	first := f.list()[0]
	require.Equal(t, slow, telemetry.HandlerIncident{
		Reason: first.Reason, Method: first.Method, Target: first.Tool, TraceID: first.TraceID,
		Ran: time.Duration(first.RanSeconds * float64(time.Second)),
	})
	require.Equal(t, "20260728T120200Z-1-slow_handler.trace", first.Name)
	require.NotEmpty(t, first.data)
	metrics := f.metrics()
	require.Contains(t, metrics, `vitrine_flight_snapshots_total{reason="slow_handler"} 2`)
	require.Contains(t, metrics, `vitrine_flight_triggers_dropped_total{reason="interval"} 100`)
	require.Contains(t, metrics, `vitrine_flight_triggers_dropped_total{reason="busy"} 1`)

	clock.pass(cfg.Interval)
	f.trigger(slow)
	_, err := f.take(slow)
	require.Error(t, err, "the recorder is stopped")
	require.Len(t, f.list(), 2)
	metrics = f.metrics()
	require.Contains(t, metrics, `vitrine_flight_triggers_dropped_total{reason="busy"} 2`)
	require.Contains(t, metrics, `vitrine_flight_triggers_dropped_total{reason="failed"} 1`)
}

// Slow handlers that keep coming do not delay the next snapshot.
func TestFlightIntervalCountsFromTheLastSnapshot(t *testing.T) {
	cfg := defaultFlight()
	f, clock := newFlight(t, cfg)
	accepted := 0
	for range 60 { // ten minutes
		if f.accept(telemetry.HandlerIncident{Reason: telemetry.IncidentAbandoned}) == "" {
			accepted++
			require.Eventually(t, func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.taken == accepted // its name has the time
			}, 30*time.Second, time.Millisecond)
		}
		clock.pass(cfg.Interval / 6)
	}
	require.Equal(t, 10, accepted)
	f.stop()
	require.Len(t, f.list(), cfg.Keep, "the oldest have gone")
	require.Equal(t, "20260728T120900Z-10-abandoned_handler.trace", f.list()[cfg.Keep-1].Name)
}

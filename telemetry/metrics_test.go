package telemetry

import (
	"context"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func requireExemplar(t *testing.T, e *dto.Exemplar, sc trace.SpanContext) {
	t.Helper()
	require.NotNil(t, e, "no exemplar")
	labels := map[string]string{}
	for _, l := range e.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	require.Equal(t, map[string]string{"trace_id": sc.TraceID().String(), "span_id": sc.SpanID().String()}, labels)
}

// TestSharedRegistry checks that two servers in one process count in the same metrics.
func TestSharedRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		a := newRig(t, rigConfig{telemetry: []Option{WithRegistry(reg)}})
		b := newRig(t, rigConfig{telemetry: []Option{WithRegistry(reg)}})
		a.post(call("echo"), &sink{})
		b.post(call("echo"), &sink{})
		families := gather(t, reg)
		require.EqualValues(t, 2, value(families, MetricOperationDuration, "gen_ai_tool_name", "echo"))
		require.EqualValues(t, 2, value(families, MetricRequestsAdmitted, "method", "tools/call"))
	})
}

func TestRegistryWithOtherMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: MetricRequestsAdmitted, Help: "mine"}))
	_, err := New(WithRegistry(reg))
	require.ErrorContains(t, err, "other metrics under our names")
}

// TestRemovedSource checks that counters do not fall when their server is removed.
func TestRemovedSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		tel, err := New()
		require.NoError(t, err)
		remove := tel.AddSource(sourceOf(r.core))
		r.post(call("echo"), &sink{})
		remove()
		remove()
		require.Empty(t, tel.snapshots())
		r.post(call("echo"), &sink{})
		require.EqualValues(t, 1, value(gather(t, tel.Registry()), MetricResponsesSent, "method", "tools/call"))
	})
}

// TestScrape reads /metrics as a scraper does and finds the exemplar.
func TestScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.post(call("echo"), &sink{})
		req := httptest.NewRequest("GET", "/metrics", nil)
		req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
		rec := httptest.NewRecorder()
		r.tel.MetricsHandler().ServeHTTP(rec, req)
		require.Equal(t, 200, rec.Code)
		require.Contains(t, rec.Header().Get("Content-Type"), "application/openmetrics-text")
		exemplar := regexp.MustCompile(
			`(?m)^mcp_server_operation_duration_seconds_bucket\{.*gen_ai_tool_name="echo".*\} 1 # \{.*trace_id="([0-9a-f]{32})"`)
		found := exemplar.FindStringSubmatch(rec.Body.String())
		require.NotNil(t, found)
		require.Equal(t, r.span().SpanContext().TraceID().String(), found[1])
		require.Contains(t, rec.Body.String(), "vitrine_requests_admitted_total{method=\"tools/call\"} 1")
		require.True(t, strings.HasSuffix(rec.Body.String(), "# EOF\n"))

		rec = httptest.NewRecorder()
		r.tel.MetricsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(rec.Body)
		require.NoError(t, err)
		require.Contains(t, families, "go_goroutines")
		require.EqualValues(t, 1, value(families, MetricOperationDuration, "gen_ai_tool_name", "echo"))
	})
}

// TestSizesWritesAndWaitsAreMeasured checks the histograms of sizes, writes and queue waits.
func TestSizesWritesAndWaitsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.post(call("echo"), &sink{})
		families := gather(t, r.tel.Registry())
		m := find(families, MetricRequestBytes, map[string]string{"method": "tools/call", "tool": "echo"})
		require.EqualValues(t, 321, m.GetHistogram().GetSampleSum())
		require.EqualValues(t, 1, value(families, MetricResponseBytes, "tool", "echo"))
		require.EqualValues(t, 1, value(families, MetricWrite, "transport", "http"))
		require.EqualValues(t, 1, value(families, MetricQueueWait))
	})
}

// TestQueueWaitOfACancelledRequest checks that the wait of a request is measured that is
// cancelled in the queue.
func TestQueueWaitOfACancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{limits: limits.Limits{MaxInFlightTotal: 1}})
		release := make(chan struct{})
		r.tools["t"] = func(context.Context, *session.Request) (mcp.Result, error) {
			<-release
			return &mcp.CallToolResult{}, nil
		}
		s := r.core.Connect(pipeConn, &sink{})
		s.Receive(call("t"))
		queued := call("t")
		queued.ID = mcp.IntID(8)
		s.Receive(queued)
		synctest.Wait()
		require.EqualValues(t, 1, value(gather(t, r.tel.Registry()), MetricRequestsInFlight, "state", "queued"))
		s.Receive(&session.Inbound{Conn: pipeConn, Envelope: wire.Envelope{
			Kind: wire.Notification, Method: mcp.NotificationCancelled,
			Cancel: &wire.Cancel{HasRequestID: true, RequestID: mcp.IntID(8), RequestIDOK: true},
		}})
		synctest.Wait()
		families := gather(t, r.tel.Registry())
		require.EqualValues(t, 2, value(families, MetricQueueWait))
		require.EqualValues(t, 0, value(families, MetricCancelUnwind, "tool", "", "cause", "client_cancel"))
		close(release)
		s.Finish(mcp.CauseTransportClose)
	})
}

// countedSource counts how often it is asked.
type countedSource struct {
	Source
	asked int
}

func (c *countedSource) Snapshot() *Snapshot {
	c.asked++
	return c.Source.Snapshot()
}

// TestOneSnapshotPerScrape checks that a scrape takes one snapshot, because two could contradict
// each other.
func TestOneSnapshotPerScrape(t *testing.T) {
	r := newRig(t, rigConfig{})
	src := &countedSource{Source: sourceOf(r.core)}
	r.tel.AddSource(src)
	gather(t, r.tel.Registry())
	require.Equal(t, 1, src.asked)
}

// TestScrapeUnderLoad: within one scrape, what was admitted and has no known fate
// is in flight. (Not in a bubble: this is about real concurrency.)
func TestScrapeUnderLoad(t *testing.T) {
	r := newRig(t, rigConfig{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for i := range 300 {
				st := r.core.Exchange(httpConn, 1, mcp.Modern)
				r.core.Receive(call("echo"), st)
				if i%3 == 0 {
					st.Lost()
				}
				_ = st.Pump(&sink{})
			}
		})
	}
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		families := gather(t, r.tel.Registry())
		unknown := sum(families, MetricRequestsAdmitted) - sum(families, MetricResponsesSent) -
			sum(families, MetricResponsesStored) - sum(families, MetricResponsesDropped)
		var inFlight float64
		for _, m := range families[MetricRequestsInFlight].GetMetric() {
			inFlight += m.GetGauge().GetValue()
		}
		require.GreaterOrEqual(t, unknown, 0.0)
		require.LessOrEqual(t, unknown, inFlight)
	}
	r.rest()
	families := gather(t, r.tel.Registry())
	require.EqualValues(t, 1200, sum(families, MetricRequestsAdmitted))
	require.EqualValues(t, 1200, sum(families, MetricResponsesSent)+sum(families, MetricResponsesDropped))
	durations := 0.0
	for _, end := range []string{"", "client_cancel", "client_disconnect"} {
		if find(families, MetricOperationDuration, map[string]string{"gen_ai_tool_name": "echo", "error_type": end}) != nil {
			durations += value(families, MetricOperationDuration, "gen_ai_tool_name", "echo", "error_type", end)
		}
	}
	require.EqualValues(t, 1200, durations)
}

func TestDisabled(t *testing.T) {
	tel := Disabled()
	require.False(t, tel.Enabled())
	require.NoError(t, TestBridge.Start(t.Context(), tel))
	rec := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, rec.Code)
	remove := tel.AddSource(sourceOf(session.New(session.Config{})))
	rec = httptest.NewRecorder()
	tel.RequestsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/debug/requests", nil))
	require.Equal(t, 200, rec.Code)
	remove()
	tel.SetGlobal()
	TestBridge.Result(&session.Request{}, &mcp.CallToolResult{})
	TestBridge.Error(&session.Request{}, errPrivate)
	TestBridge.Encoding(&session.Request{}, errPrivate)
	TestBridge.Validated(&session.Request{}, 1)
	TestBridge.ArgumentsRejected(&session.Request{}, "a fault")
	require.NoError(t, tel.Shutdown(t.Context()))
	require.NoError(t, tel.Shutdown(t.Context()))
}

// New series can be made while a scrape waits for a collector of the program.
func TestCollectHoldsNoLock(t *testing.T) {
	in, ch := newInstruments(false), make(chan prometheus.Metric)
	child := func(tool string) {
		in.histogram(MetricOperationDuration, "tools/call", "", tool, "", "", "", "", "", "", "")
	}
	child("a")
	child("b")
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		in.Collect(ch)
		close(ch)
	}()
	<-ch // and nobody takes the second one
	made := make(chan struct{})
	go func() {
		defer close(made)
		child("c")
	}()
	select {
	case <-made:
	case <-time.After(20 * time.Second):
		t.Error("a new series waits for the scrape")
	}
	for range ch {
	}
	<-collected
	<-made
}

// Durations are in the series of their own labels, in whichever order the series are made.
func TestDurationsHaveTheLabelsOfTheirOperation(t *testing.T) {
	r := newRig(t, rigConfig{})
	fail := false
	r.tools["get"] = func(context.Context, *session.Request) (mcp.Result, error) {
		if fail = !fail; fail {
			return nil, mcp.NewError(mcp.CodeInvalidParams, "no")
		}
		return &mcp.CallToolResult{}, nil
	}
	for range 6 {
		r.post(call("get"), &sink{})
	}
	r.post(call("get"), &sink{})
	families := gather(t, r.tel.Registry())
	require.EqualValues(t, 3, value(families, MetricOperationDuration, "gen_ai_tool_name", "get", "rpc_response_status_code", ""))
	require.EqualValues(t, 4, value(families, MetricOperationDuration, "gen_ai_tool_name", "get", "rpc_response_status_code", "-32602"))
}

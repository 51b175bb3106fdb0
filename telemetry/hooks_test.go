package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

type panicSampler struct{ sdktrace.Sampler }

func (panicSampler) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	panic("sampler")
}

type panicOnStart struct{ discard }

func (panicOnStart) OnStart(context.Context, sdktrace.ReadWriteSpan) { panic("start") }

type panicOnEnd struct{ discard }

func (panicOnEnd) OnEnd(sdktrace.ReadOnlySpan) { panic("end") }

type panicPropagator struct{ propagation.TraceContext }

func (panicPropagator) Extract(context.Context, propagation.TextMapCarrier) context.Context {
	panic("extract")
}
func (panicPropagator) Inject(context.Context, propagation.TextMapCarrier) { panic("inject") }

// What users plug into telemetry may panic: callers have their answers, clients are
// asked, and the panics are counted.
func TestPanickingHooks(t *testing.T) {
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
			r := newRig(t, rigConfig{panics: true, telemetry: []Option{option}})
			out := &askSink{}
			s := r.core.Connect(pipeConn, out)
			s.Initialize(&session.Peer{Version: mcp.LatestLegacyVersion})
			s.Initialized()
			out.respond = func() { s.Receive(answer(wire.Envelope{Result: []byte(`{"roots":[]}`)})) }
			asked := make(chan error, 1)
			r.tools["ask"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
				_, err := q.Ask(ctx, mcp.MethodRootsList, nil)
				asked <- err
				return &mcp.CallToolResult{}, nil
			}
			in := call("ask")
			in.Era, in.Version, in.Conn = mcp.Legacy, "", pipeConn
			s.Receive(in)
			require.NoError(t, <-asked)
			task := r.detach()
			task.Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel})
			task.Panicked("ouch", nil)
			task.Done(session.DetachedEnd{Status: mcp.TaskCancelled})
			who, err := r.tel.live.join()
			require.NoError(t, err)
			r.tel.live.leave(who)
			answered := &sink{}
			r.post(call("echo"), answered)
			require.Equal(t, 1, answered.frames)
			s.Close(mcp.CauseTransportClose)
			<-s.Done()
			require.Equal(t, 2, out.frames, "a question and an answer")
			require.Positive(t, r.core.Snapshot().Counters.ObserverPanics)
		})
	}
}

// brittleExporter panics in all that is asked of it, as each kind of exporter.
type brittleExporter struct{}

func (brittleExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { panic("export") }
func (brittleExporter) Shutdown(context.Context) error                             { panic("shutdown") }
func (brittleExporter) ForceFlush(context.Context) error                           { panic("flush") }

type brittleLogExporter struct{ brittleExporter }

func (brittleLogExporter) Export(context.Context, []sdklog.Record) error { panic("export") }

type brittleMetricExporter struct{ brittleExporter }

func (brittleMetricExporter) Export(context.Context, *metricdata.ResourceMetrics) error {
	panic("export")
}

func (brittleMetricExporter) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

func (brittleMetricExporter) Aggregation(kind sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(kind)
}

// An exporter can be the program's own, registered under a name for OTEL_*_EXPORTER. The SDK
// calls it on its own goroutine. Its panic is only a failed export.
func TestPanickingExporters(t *testing.T) {
	tel, err := New(WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	tel.process(newSpanQueue(tel.newWatch(environment.Traces), brittleExporter{}))
	serve(t, tel, call("echo"))
	require.NoError(t, tel.owned.ForceFlush(t.Context()))
	logs := sdklog.NewLoggerProvider(sdklog.WithProcessor(
		newLogQueue(tel.newWatch(environment.Logs), brittleLogExporter{})))
	slog.New(otelslog.NewHandler("", otelslog.WithLoggerProvider(logs))).Info("hello")
	require.Error(t, logs.ForceFlush(t.Context()))
	metrics := sdkmetric.NewMeterProvider(sdkmetric.WithReader(
		sdkmetric.NewPeriodicReader(&metricExporter{brittleMetricExporter{}, tel.newWatch(environment.Metrics)})))
	require.Error(t, metrics.ForceFlush(t.Context()))

	families := gather(t, tel.Registry())
	for _, signal := range []environment.Signal{environment.Traces, environment.Logs, environment.Metrics} {
		require.EqualValues(t, 1, value(families, MetricExportFailures, "signal", string(signal)), signal)
	}
	require.EqualValues(t, 1, value(families, MetricSpansDropped, "reason", lostExportFailed))
	require.EqualValues(t, 1, value(families, MetricLogRecordsDropped, "reason", lostExportFailed))
	require.EqualValues(t, 0, value(families, MetricSpansQueued))
	require.EqualValues(t, 0, value(families, MetricLogRecordsQueued))
	require.EqualValues(t, 5, value(families, MetricPanics), "three exports, two flushes")
	for name, shutdown := range map[string]func(context.Context) error{
		"traces": tel.Shutdown, "logs": logs.Shutdown, "metrics": metrics.Shutdown,
	} {
		require.ErrorContains(t, shutdown(t.Context()), "panicked", name)
	}
}

// When a collector of the program panics, or the function of its metric, our metrics are still
// scraped and pushed.
func TestPanickingCollector(t *testing.T) {
	for name, tc := range map[string]struct {
		own    prometheus.Collector
		counts float64
	}{
		"collector": {own: panicCollector{}}, // client_golang makes an error of it
		"function": {
			own:    prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "users_own"}, func() float64 { panic("ouch") }),
			counts: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			reg.MustRegister(tc.own)
			r := newRig(t, rigConfig{telemetry: []Option{WithRegistry(reg)}})
			out := &sink{}
			r.post(call("echo"), out)
			require.Equal(t, 1, out.frames)
			scrape := func() string {
				rec := httptest.NewRecorder()
				r.tel.MetricsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
				require.Equal(t, http.StatusOK, rec.Code)
				return rec.Body.String()
			}
			require.Contains(t, scrape(), MetricRequestsAdmitted+`{method="tools/call"} 1`)
			text := scrape()
			require.Contains(t, text, MetricScrapeFailures+`{reason="gather"} 1`)
			require.Contains(t, text, fmt.Sprintf("%s %v\n", MetricPanics, 2*tc.counts), "the second one is counted before it shows")
			require.NotContains(t, text, "users_own")

			pushed := ""
			producer := &translator{bridge.NewMetricProducer(bridge.WithGatherer(pushGatherer{r.tel})), r.tel.metrics.rows}
			scopes, err := producer.Produce(t.Context())
			require.NoError(t, err)
			for _, m := range scopes[0].Metrics {
				pushed += m.Name + "\n"
			}
			require.Contains(t, pushed, "vitrine.requests.admitted\n")
			require.Contains(t, scrape(), MetricScrapeFailures+`{reason="gather"} 3`)
		})
	}
}

type panicCollector struct{}

func (panicCollector) Describe(ch chan<- *prometheus.Desc) { ch <- brokenDesc }
func (panicCollector) Collect(chan<- prometheus.Metric)    { panic("ouch") }

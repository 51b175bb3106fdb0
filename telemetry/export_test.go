package telemetry

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// serve runs one traced call through a core that reports to tel.
func serve(t *testing.T, tel *Telemetry, in *session.Inbound) *rig {
	t.Helper()
	r := &rig{t: t, tel: tel, tools: map[string]session.Handle{}, other: map[string]session.Handle{}}
	logger := slog.New(tel.LogHandler(slog.DiscardHandler))
	r.tools["echo"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
		logger.With("a", 1).WithGroup("g").InfoContext(ctx, "inside", "b", 2)
		return &mcp.CallToolResult{}, nil
	}
	r.core = session.New(session.Config{Dispatcher: r, Observer: TestBridge.Observer(tel)})
	tel.AddSource(sourceOf(r.core))
	r.post(in, &sink{})
	return r
}

// TestStartExports: with an endpoint in the environment, all three signals arrive
// and agree on the trace.
func TestStartExports(t *testing.T) {
	clearOTel(t)
	c := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	var console bytes.Buffer
	tel, err := New(WithService("weather", "1.2.0"), WithLogger(slog.New(slog.NewTextHandler(&console, nil))))
	require.NoError(t, err)
	handler := tel.LogHandler(slog.NewTextHandler(io.Discard, nil)) // made before Start
	require.NoError(t, TestBridge.Start(t.Context(), tel))
	require.NoError(t, TestBridge.Start(t.Context(), tel))
	in := call("echo")
	in.Meta.TraceParent = callerParent
	r := serve(t, tel, in)
	slog.New(handler).With("a", 1).WithGroup("g").InfoContext(
		trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{9}, SpanID: trace.SpanID{9}})),
		"hello", "b", 2)
	require.NoError(t, tel.Shutdown(t.Context()))
	require.NoError(t, tel.Shutdown(t.Context()))
	require.Empty(t, console.String())
	require.Zero(t, r.core.Pending())

	require.Len(t, c.traces, 1)
	resource := attrsPB(c.traces[0].GetResource().GetAttributes())
	require.Equal(t, "weather", resource["service.name"])
	require.Equal(t, "1.2.0", resource["service.version"])
	require.NotContains(t, resource, "process.command_args", "arguments may hold secrets")
	span := c.traces[0].GetScopeSpans()[0].GetSpans()[0]
	require.Equal(t, "tools/call echo", span.GetName())
	require.Equal(t, callerTrace, trace.TraceID(span.GetTraceId()).String())
	require.Equal(t, "b7ad6b7169203331", trace.SpanID(span.GetParentSpanId()).String())
	require.Equal(t, tracepb.Span_SPAN_KIND_SERVER, span.GetKind())

	record := findLog(c.logs, "hello")
	require.NotNil(t, record)
	require.Equal(t, trace.TraceID{9}.String(), trace.TraceID(record.GetTraceId()).String())

	require.NotEmpty(t, c.metrics)
	op := findMetric(c.metrics, "mcp.server.operation.duration")
	require.NotNil(t, op)
	require.Equal(t, "s", op.GetUnit())
	attrs := attrsPB(op.GetExponentialHistogram().GetDataPoints()[0].GetAttributes())
	require.Equal(t, map[string]string{
		"mcp.method.name": "tools/call", "gen_ai.tool.name": "echo", "gen_ai.operation.name": "execute_tool",
		"mcp.protocol.version": "2026-07-28", "network.transport": "tcp", "network.protocol.name": "http",
		"network.protocol.version": "1.1",
	}, attrs)
	admitted := findMetric(c.metrics, "vitrine.requests.admitted")
	require.Equal(t, "{request}", admitted.GetUnit())
	require.True(t, admitted.GetSum().GetIsMonotonic())
	require.Nil(t, findMetric(c.metrics, MetricOperationDuration))

	families := gather(t, tel.Registry())
	require.EqualValues(t, 1, value(families, MetricSpansExported))
	require.EqualValues(t, 0, value(families, MetricSpansQueued))
	require.EqualValues(t, 0, value(families, MetricExportFailures, "signal", "traces"))
}

func TestStartReportsWhatItCannotExport(t *testing.T) {
	clearOTel(t)
	for _, s := range []string{"TRACES", "METRICS", "LOGS"} {
		t.Setenv("OTEL_"+s+"_EXPORTER", "carrier-pigeon")
	}
	tel, err := New()
	require.NoError(t, err)
	err = TestBridge.Start(t.Context(), tel)
	for _, s := range []string{"traces", "metrics", "logs"} {
		require.ErrorContains(t, err, "export of "+s)
	}
	require.NoError(t, tel.Shutdown(t.Context()))
}

// TestDeadCollector checks that failures are counted, are logged once, and delay no request.
func TestDeadCollector(t *testing.T) {
	clearOTel(t)
	c := newCollector(t)
	c.status = http.StatusBadRequest
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	var console bytes.Buffer
	tel, err := New()
	require.NoError(t, err)
	tel.logger = slog.New(tel.LogHandler(slog.NewTextHandler(&console, nil)))
	require.NoError(t, TestBridge.Start(t.Context(), tel))
	r := serve(t, tel, call("echo"))
	require.NoError(t, tel.owned.ForceFlush(t.Context()))
	r.post(call("echo"), &sink{})
	families := gather(t, tel.Registry())
	require.EqualValues(t, 0, value(families, MetricLogRecordsQueued), "complaints are not exported")
	tel.logger.Info("hello")
	tel.logger.Info("world")
	require.EqualValues(t, 2, value(gather(t, tel.Registry()), MetricLogRecordsQueued))
	require.NoError(t, tel.Shutdown(t.Context()))
	require.Equal(t, 1, strings.Count(console.String(), "signal=traces"), console.String())
	families = gather(t, tel.Registry())
	require.EqualValues(t, 2, value(families, MetricExportFailures, "signal", "traces"))
	require.EqualValues(t, 1, value(families, MetricExportFailures, "signal", "logs"))
	require.EqualValues(t, 2, value(families, MetricLogRecordsDropped, "reason", lostExportFailed))
	require.EqualValues(t, 0, value(families, MetricLogRecordsExported))
	require.EqualValues(t, 0, value(families, MetricLogRecordsQueued))
	require.EqualValues(t, 2, value(families, MetricSpansDropped, "reason", lostExportFailed))
	require.EqualValues(t, 0, value(families, MetricSpansExported))
}

func (stuckExporter) Shutdown(context.Context) error { return nil }

// TestFullQueue: spans beyond the queue are dropped and counted, exactly.
func TestFullQueue(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
	synctest.Test(t, func(t *testing.T) {
		tel, err := New()
		require.NoError(t, err)
		exporter := stuckExporter{make(chan struct{})}
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(newSpanQueue(tel.newWatch(environment.Traces), exporter)))
		for range 100 {
			_, span := provider.Tracer("").Start(t.Context(), "x")
			span.End()
			synctest.Wait()
		}
		families := gather(t, tel.Registry())
		require.EqualValues(t, 90, value(families, MetricSpansDropped, "reason", lostQueueFull))
		require.EqualValues(t, 10, value(families, MetricSpansQueued))
		close(exporter.release)
		require.NoError(t, provider.ForceFlush(t.Context()))
		_, span := provider.Tracer("").Start(t.Context(), "there is room again")
		span.End()
		require.NoError(t, provider.Shutdown(t.Context()))
		families = gather(t, tel.Registry())
		require.EqualValues(t, 11, value(families, MetricSpansExported))
		require.EqualValues(t, 0, value(families, MetricSpansQueued))
	})
}

// TestFullLogQueue: so are log records.
func TestFullLogQueue(t *testing.T) {
	t.Setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "10")
	t.Setenv("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "4")
	synctest.Test(t, func(t *testing.T) {
		tel, err := New()
		require.NoError(t, err)
		exporter := &stuckLogExporter{release: make(chan struct{})}
		provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(newLogQueue(tel.newWatch(environment.Logs), exporter)))
		logger := slog.New(otelslog.NewHandler("", otelslog.WithLoggerProvider(provider)))
		for i := range 100 {
			logger.Info(strconv.Itoa(i))
			synctest.Wait()
		}
		families := gather(t, tel.Registry())
		require.EqualValues(t, 90, value(families, MetricLogRecordsDropped, "reason", lostQueueFull))
		require.EqualValues(t, 10, value(families, MetricLogRecordsQueued))
		close(exporter.release)
		require.NoError(t, provider.ForceFlush(t.Context()))
		logger.Info("there is room again")
		require.NoError(t, provider.Shutdown(t.Context()))
		families = gather(t, tel.Registry())
		require.EqualValues(t, 11, value(families, MetricLogRecordsExported))
		require.EqualValues(t, 0, value(families, MetricLogRecordsQueued))
		require.Equal(t, append(strings.Split("0123456789", ""), "there is room again"), exporter.exported)
	})
}

func TestRecoveryIsLogged(t *testing.T) {
	var console bytes.Buffer
	tel, err := New(WithLogger(slog.New(slog.NewTextHandler(&console, nil))))
	require.NoError(t, err)
	w := tel.newWatch(environment.Logs)
	for _, err := range []error{nil, errPrivate, errPrivate, nil, nil} {
		w.saw(err)
	}
	require.Equal(t, 1, strings.Count(console.String(), "export_failed"))
	require.Equal(t, 1, strings.Count(console.String(), "export_recovered"))
	require.Contains(t, console.String(), "failures=2")
}

// TestSharedRegistryIsPushedOnce: two servers of a process do not export their
// common registry twice.
func TestSharedRegistryIsPushedOnce(t *testing.T) {
	clearOTel(t)
	c := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", c.URL+"/v1/metrics")
	reg := prometheus.NewRegistry()
	var both []*Telemetry
	for range 2 {
		tel, err := New(WithRegistry(reg))
		require.NoError(t, err)
		require.NoError(t, TestBridge.Start(t.Context(), tel))
		both = append(both, tel)
	}
	for _, tel := range both {
		require.NoError(t, tel.Shutdown(t.Context()))
	}
	require.Len(t, c.metrics, 1)
}

// An export that is refused does not keep others from pushing the registry.
func TestRefusedExportLeavesTheRegistryToOthers(t *testing.T) {
	reg := prometheus.NewRegistry()
	ended, err := New(WithRegistry(reg))
	require.NoError(t, err)
	other, err := New(WithRegistry(reg))
	require.NoError(t, err)
	require.NoError(t, ended.Shutdown(t.Context()))
	require.False(t, ended.ExportMetrics(discardMetrics{}), "it is shut down")
	require.True(t, other.ExportMetrics(discardMetrics{}))
	require.NoError(t, other.Shutdown(t.Context()))
}

// An export that is refused because another Telemetry pushes the registry may begin when that one has ended.
func TestExportBeginsWhenTheOtherHasEnded(t *testing.T) {
	reg := prometheus.NewRegistry()
	first, err := New(WithRegistry(reg))
	require.NoError(t, err)
	second, err := New(WithRegistry(reg))
	require.NoError(t, err)
	require.True(t, first.ExportMetrics(discardMetrics{}))
	require.False(t, first.ExportMetrics(discardMetrics{}), "it exports already")
	require.False(t, second.ExportMetrics(discardMetrics{}), "the other one does")
	require.NoError(t, first.Shutdown(t.Context()))
	require.True(t, second.ExportMetrics(discardMetrics{}))
	require.NoError(t, second.Shutdown(t.Context()))
}

// TestShutdownIsBounded: a collector that hangs does not hang the process.
func TestShutdownIsBounded(t *testing.T) {
	clearOTel(t)
	release := make(chan struct{})
	hang := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hang.Close()
	defer close(release)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", hang.URL)
	tel, err := New(WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, TestBridge.Start(t.Context(), tel))
	serve(t, tel, call("echo"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_ = tel.Shutdown(ctx)
	require.Less(t, time.Since(begin), 5*time.Second)
}

// One endpoint that hangs does not take the time of the others.
func TestShutdownIsAtTheSameTime(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	flushed := make(chan struct{})
	tel.stops = []func(context.Context) error{
		func(ctx context.Context) error { <-flushed; return nil },
		func(context.Context) error { close(flushed); return nil },
	}
	require.NoError(t, tel.Shutdown(t.Context()))
}

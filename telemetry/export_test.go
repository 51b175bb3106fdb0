package telemetry

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A collector receives OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	status  int // to answer with, if not 0
	traces  []*tracepb.ResourceSpans
	metrics []*metrics.ResourceMetrics
	logs    []*logs.ResourceLogs
	hits    int
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		c.Close()
	})
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var body io.Reader = req.Body
	if req.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(body)
	}
	b, _ := io.ReadAll(body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hits++
	if c.status != 0 {
		w.WriteHeader(c.status)
		return
	}
	var err error
	switch req.URL.Path {
	case "/v1/traces":
		var m coltrace.ExportTraceServiceRequest
		err = proto.Unmarshal(b, &m)
		c.traces = append(c.traces, m.GetResourceSpans()...)
	case "/v1/metrics":
		var m colmetrics.ExportMetricsServiceRequest
		err = proto.Unmarshal(b, &m)
		c.metrics = append(c.metrics, m.GetResourceMetrics()...)
	case "/v1/logs":
		var m collogs.ExportLogsServiceRequest
		err = proto.Unmarshal(b, &m)
		c.logs = append(c.logs, m.GetResourceLogs()...)
	default:
		err = errors.New("no such path")
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
}

// clearOTel removes all OTEL_* variables that the tests set.
func clearOTel(t *testing.T) {
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
		"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER",
		"OTEL_SDK_DISABLED", "OTEL_PROPAGATORS", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
	} {
		t.Setenv(name, "")
	}
}

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

// TestStartFollowsTheEnvironment: a signal is exported iff a variable asks for it.
func TestStartFollowsTheEnvironment(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string // "URL" is replaced
		want []string
	}{
		"nothing":     {},
		"disabled":    {env: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}},
		"only traces": {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "URL/v1/traces"}, want: []string{"traces"}},
		"all but logs": {
			env:  map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_LOGS_EXPORTER": "none"},
			want: []string{"metrics", "traces"},
		},
		"metrics are pulled": {
			env:  map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_METRICS_EXPORTER": "prometheus"},
			want: []string{"logs", "traces"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clearOTel(t)
			c := newCollector(t)
			for k, v := range tc.env {
				t.Setenv(k, strings.ReplaceAll(v, "URL", c.URL))
			}
			var console bytes.Buffer
			tel, err := New(WithLogger(slog.New(slog.NewTextHandler(&console, nil))))
			require.NoError(t, err)
			require.NoError(t, TestBridge.Start(t.Context(), tel))
			if tc.want == nil {
				require.Empty(t, tel.stops)
				require.Nil(t, tel.logs.Load())
			}
			serve(t, tel, call("echo"))
			slog.New(tel.LogHandler(slog.NewTextHandler(io.Discard, nil))).Info("hello")
			require.NoError(t, tel.Shutdown(t.Context()))
			require.Empty(t, console.String())
			got := map[string]bool{}
			if c.traces != nil {
				got["traces"] = true
			}
			if c.metrics != nil {
				got["metrics"] = true
			}
			if c.logs != nil {
				got["logs"] = true
			}
			require.Equal(t, tc.want, keys(got))
			require.EqualValues(t, 1, value(gather(t, tel.Registry()), MetricOperationDuration, "gen_ai_tool_name", "echo"),
				"/metrics works in any case")
		})
	}
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

// TestDeadCollector: failures are counted and complained of once, and nobody waits.
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

// stuckExporter does not return before it is released.
type stuckExporter struct{ release chan struct{} }

func (e stuckExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	<-e.release
	return nil
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
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(newSpanQueue(tel.newWatch(signalTraces), exporter)))
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

// stuckLogExporter does not return before it is released.
type stuckLogExporter struct {
	sdklog.Exporter
	release  chan struct{}
	exported []string
}

func (e *stuckLogExporter) Export(_ context.Context, records []sdklog.Record) error {
	<-e.release
	for i := range records {
		e.exported = append(e.exported, records[i].Body().AsString())
	}
	return nil
}
func (*stuckLogExporter) Shutdown(context.Context) error   { return nil }
func (*stuckLogExporter) ForceFlush(context.Context) error { return nil }

// TestFullLogQueue: so are log records.
func TestFullLogQueue(t *testing.T) {
	t.Setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "10")
	t.Setenv("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "4")
	synctest.Test(t, func(t *testing.T) {
		tel, err := New()
		require.NoError(t, err)
		exporter := &stuckLogExporter{release: make(chan struct{})}
		provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(newLogQueue(tel.newWatch(signalLogs), exporter)))
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
	w := tel.newWatch(signalLogs)
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

func TestPropagators(t *testing.T) {
	clearOTel(t)
	t.Setenv("OTEL_PROPAGATORS", "baggage,b3")
	var console bytes.Buffer
	tel, err := New(WithLogger(slog.New(slog.NewTextHandler(&console, nil))))
	require.NoError(t, err)
	require.Equal(t, []string{"baggage"}, tel.propagator.Fields())
	require.Contains(t, console.String(), "b3")
	t.Setenv("OTEL_PROPAGATORS", "none")
	tel, err = New()
	require.NoError(t, err)
	require.Empty(t, tel.propagator.Fields())
}

func TestServiceNameOfTheEnvironmentWins(t *testing.T) {
	clearOTel(t)
	t.Setenv("OTEL_SERVICE_NAME", "from-env")
	tel, err := New(WithService("code", "1"))
	require.NoError(t, err)
	attrs := attrMap(tel.resource.Attributes())
	require.Equal(t, "from-env", attrs["service.name"])
	require.Equal(t, "1", attrs["service.version"])
}

func TestSDKDisabled(t *testing.T) {
	clearOTel(t)
	t.Setenv("OTEL_SDK_DISABLED", "TRUE")
	tel, err := New()
	require.NoError(t, err)
	_, span := tel.provider.Tracer("").Start(t.Context(), "x")
	require.False(t, span.IsRecording())
}

func TestSamplerOfTheEnvironment(t *testing.T) {
	clearOTel(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	tel, err := New()
	require.NoError(t, err)
	_, span := tel.provider.Tracer("").Start(t.Context(), "x")
	require.False(t, span.SpanContext().IsSampled())
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

func attrsPB(kvs []*common.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range kvs {
		m[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	return m
}

func findMetric(rms []*metrics.ResourceMetrics, name string) *metrics.Metric {
	for _, rm := range rms {
		for _, sm := range rm.GetScopeMetrics() {
			for _, m := range sm.GetMetrics() {
				if m.GetName() == name {
					return m
				}
			}
		}
	}
	return nil
}

func findLog(rls []*logs.ResourceLogs, body string) *logs.LogRecord {
	for _, rl := range rls {
		for _, sl := range rl.GetScopeLogs() {
			for _, rec := range sl.GetLogRecords() {
				if rec.GetBody().GetStringValue() == body {
					return rec
				}
			}
		}
	}
	return nil
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

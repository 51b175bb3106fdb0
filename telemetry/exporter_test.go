package telemetry

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
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

// stuckExporter does not return before it is released.
type stuckExporter struct{ release chan struct{} }

func (e stuckExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error {
	<-e.release
	return nil
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

func (*stuckLogExporter) Shutdown(context.Context) error { return nil }

func (*stuckLogExporter) ForceFlush(context.Context) error { return nil }

// discardMetrics exports nothing.
type discardMetrics struct{}

func (discardMetrics) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return sdkmetric.DefaultTemporalitySelector(k)
}

func (discardMetrics) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

func (discardMetrics) Export(context.Context, *metricdata.ResourceMetrics) error { return nil }

func (discardMetrics) ForceFlush(context.Context) error { return nil }

func (discardMetrics) Shutdown(context.Context) error { return nil }

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

package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A receiver is an OTLP/HTTP collector that keeps everything.
type receiver struct {
	url string

	mu      sync.Mutex
	spans   []span
	logs    []*logs.LogRecord
	metrics map[string]*metricspb.Metric // the latest push of each
	faults  []error
}

// A span is a span as it was received.
type span struct {
	*trace.Span
	resource map[string]any
}

// receive starts a receiver.
func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{metrics: map[string]*metricspb.Metric{}}
	server := httptest.NewServer(r)
	r.url = server.URL
	t.Cleanup(func() {
		server.Close()
		for _, err := range r.faults {
			t.Errorf("OTLP: %v", err)
		}
	})
	return r
}

// env is the environment of a server that exports to the receiver, without delay.
func (r *receiver) env() adjust {
	return withEnv("OTEL_EXPORTER_OTLP_ENDPOINT="+r.url, "OTEL_BSP_SCHEDULE_DELAY=20",
		"OTEL_BLRP_SCHEDULE_DELAY=20", "OTEL_METRIC_EXPORT_INTERVAL=100")
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := body(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest) // a push that the end of the process has cut off
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.take(req, body); err != nil {
		r.faults = append(r.faults, err)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty message is success
}

func body(req *http.Request) ([]byte, error) {
	if req.Header.Get("Content-Encoding") != "gzip" {
		return io.ReadAll(req.Body)
	}
	in, err := gzip.NewReader(req.Body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

// take stores the content of one export.
func (r *receiver) take(req *http.Request, body []byte) error {
	if got := req.Header.Get("Content-Type"); got != "application/x-protobuf" {
		return fmt.Errorf("%s is sent as %q", req.URL.Path, got)
	}
	switch req.URL.Path {
	case "/v1/traces":
		var export coltrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &export); err != nil {
			return err
		}
		for _, rs := range export.GetResourceSpans() {
			resource := attributes(rs.GetResource().GetAttributes())
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					r.spans = append(r.spans, span{s, resource})
				}
			}
		}
	case "/v1/metrics":
		var export colmetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &export); err != nil {
			return err
		}
		for _, rm := range export.GetResourceMetrics() {
			for _, sm := range rm.GetScopeMetrics() {
				for _, m := range sm.GetMetrics() {
					// A push that the end of the process has cancelled may be read after the last one.
					if takenAt(m) >= takenAt(r.metrics[m.GetName()]) {
						r.metrics[m.GetName()] = m
					}
				}
			}
		}
	case "/v1/logs":
		var export collogs.ExportLogsServiceRequest
		if err := proto.Unmarshal(body, &export); err != nil {
			return err
		}
		for _, rl := range export.GetResourceLogs() {
			for _, sl := range rl.GetScopeLogs() {
				r.logs = append(r.logs, sl.GetLogRecords()...)
			}
		}
	default:
		return fmt.Errorf("nothing is received at %s", req.URL.Path)
	}
	return nil
}

// takenAt returns the time of the latest point of a metric, in nanoseconds since 1970.
func takenAt(m *metricspb.Metric) (latest uint64) {
	for _, p := range m.GetSum().GetDataPoints() {
		latest = max(latest, p.GetTimeUnixNano())
	}
	for _, p := range m.GetGauge().GetDataPoints() {
		latest = max(latest, p.GetTimeUnixNano())
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		latest = max(latest, p.GetTimeUnixNano())
	}
	for _, p := range m.GetExponentialHistogram().GetDataPoints() {
		latest = max(latest, p.GetTimeUnixNano())
	}
	return latest
}

// The receiver keeps the latest values, in whichever order pushes are read.
func TestReceiverKeepsTheLatestValues(t *testing.T) {
	r := receive(t)
	for _, at := range []uint64{1, 3, 2} {
		push := &colmetrics.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{ScopeMetrics: []*metricspb.ScopeMetrics{{
			Metrics: []*metricspb.Metric{{Name: "calls", Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{DataPoints: []*metricspb.NumberDataPoint{
				{TimeUnixNano: at, Value: &metricspb.NumberDataPoint_AsInt{AsInt: int64(at)}},
			}}}}},
		}}}}}
		body, err := proto.Marshal(push)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(r.url+"/v1/metrics", "application/x-protobuf", bytes.NewReader(body))
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(err, resp)
		}
		resp.Body.Close()
	}
	if n := r.sum("calls"); n != 3 {
		t.Errorf("%v calls, want 3", n)
	}
}

// awaitSpan waits for a span with a name.
func (r *receiver) awaitSpan(t *testing.T, name string) (found span) {
	t.Helper()
	eventually(t, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		var names []string
		for _, s := range r.spans {
			if s.GetName() == name {
				found = s
				return nil
			}
			names = append(names, s.GetName())
		}
		return fmt.Errorf("no span %q among %q", name, names)
	})
	return found
}

// sum adds up the points of the latest push of a counter that have the attributes,
// given as key, value, ...
func (r *receiver) sum(name string, attrs ...string) (sum float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, point := range r.metrics[name].GetSum().GetDataPoints() {
		has := attributes(point.GetAttributes())
		matches := true
		for i := 0; i < len(attrs); i += 2 {
			matches = matches && has[attrs[i]] == attrs[i+1]
		}
		if matches {
			sum += point.GetAsDouble() + float64(point.GetAsInt())
		}
	}
	return sum
}

// conserved checks the law of conservation on the last push of a server that has
// ended.
func (r *receiver) conserved(t *testing.T) {
	t.Helper()
	admitted := r.sum("vitrine.requests.admitted")
	sent, stored, dropped := r.sum("vitrine.responses.sent"), r.sum("vitrine.responses.stored"), r.sum("vitrine.responses.dropped")
	if admitted == 0 || admitted != sent+stored+dropped {
		t.Errorf("not conserved at the end: admitted %v, sent %v, stored %v, dropped %v", admitted, sent, stored, dropped)
	}
}

// attributes turns attributes into a map of strings, int64, float64 and bool.
func attributes(list []*common.KeyValue) map[string]any {
	all := map[string]any{}
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			all[kv.GetKey()] = v.IntValue
		case *common.AnyValue_DoubleValue:
			all[kv.GetKey()] = v.DoubleValue
		case *common.AnyValue_BoolValue:
			all[kv.GetKey()] = v.BoolValue
		default:
			all[kv.GetKey()] = kv.GetValue().String()
		}
	}
	return all
}

func (s span) traceID() string  { return hex.EncodeToString(s.GetTraceId()) }
func (s span) parentID() string { return hex.EncodeToString(s.GetParentSpanId()) }

func (s span) attributes() map[string]any { return attributes(s.Span.GetAttributes()) }

// event returns the attributes of the event with a name, or nil.
func (s span) event(name string) map[string]any {
	for _, e := range s.GetEvents() {
		if e.GetName() == name {
			return attributes(e.GetAttributes())
		}
	}
	return nil
}

var errNotYet = errors.New("not yet")

// missing returns an error that names what was not received: metrics by name, and a log record.
func (r *receiver) missing(names ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if r.metrics[name] == nil {
			return fmt.Errorf("no metric %s among %q", name, slices.Sorted(maps.Keys(r.metrics)))
		}
	}
	if len(r.logs) == 0 {
		return errors.New("no log record")
	}
	return nil
}

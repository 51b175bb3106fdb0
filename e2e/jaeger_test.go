package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// What users take as it is.
const (
	jaegerConfig       = "../deploy/jaeger/jaeger.yaml"
	collectorConfig    = "../deploy/otel-collector/collector.yaml"
	tailSamplingConfig = "../deploy/otel-collector/tail-sampling.yaml"
)

// jaegerProgram returns the file of the Jaeger that make tools has built.
func jaegerProgram(t *testing.T) string {
	t.Helper()
	needs.Long(t, "e2e/jaeger")
	out, err := exec.Command("../scripts/jaeger.sh", "path").Output()
	if err != nil {
		t.Fatalf("scripts/jaeger.sh: %v", err)
	}
	file := strings.TrimSpace(string(out))
	if _, err := os.Stat(file); err != nil {
		needs.Skip(t, "e2e/jaeger", "Jaeger is not built")
	}
	return file
}

// A jaeger is a Jaeger server.
type jaeger struct {
	*process
	otlp, query, metrics string // URLs
}

// storeTraces starts a Jaeger with the configurations, which it merges.
func storeTraces(t *testing.T, configs ...string) *jaeger {
	t.Helper()
	p := program{path: jaegerProgram(t)}
	for _, c := range configs {
		p.args = append(p.args, "--config="+c)
	}
	for {
		grpc, otlp, query, queryGRPC, metrics := freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t)
		_, port, err := net.SplitHostPort(metrics)
		if err != nil {
			t.Fatal(err)
		}
		p.env = []string{
			"JAEGER_OTLP_GRPC=" + grpc, "JAEGER_OTLP_HTTP=" + otlp, "JAEGER_QUERY_HTTP=" + query,
			"JAEGER_QUERY_GRPC=" + queryGRPC, "JAEGER_METRICS_PORT=" + port,
		}
		j := &jaeger{process: start(t, p), otlp: "http://" + otlp, query: "http://" + query, metrics: "http://" + metrics + "/metrics"}
		if j.listens(t) {
			return j
		}
	}
}

// listens waits until Jaeger answers. It is false if another process was faster to
// take an address.
func (j *jaeger) listens(t *testing.T) (yes bool) {
	t.Helper()
	eventually(t, func() error {
		if !j.running() && strings.Contains(j.stderr.text(), "address already in use") {
			return nil
		}
		err := j.api("services", nil, new(any))
		yes = err == nil
		return err
	})
	return yes
}

// env is the environment of a server that exports its spans to Jaeger, without delay.
func (j *jaeger) env() adjust {
	return withEnv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+j.otlp+"/v1/traces", "OTEL_BSP_SCHEDULE_DELAY=20")
}

// api asks the HTTP API and decodes the data of the answer.
func (j *jaeger) api(path string, query url.Values, data any) error {
	if !j.running() {
		return fmt.Errorf("jaeger has ended: %s", j.stderr)
	}
	body, _, err := get(j.query+"/api/"+path+"?"+query.Encode(), "application/json")
	if err != nil {
		return err
	}
	return json.Unmarshal(body, &struct{ Data any }{data})
}

// A storedTrace is a trace as Jaeger returns it.
type storedTrace struct {
	TraceID string
	Spans   []storedSpan
}

// A storedSpan is a span of such a trace.
type storedSpan struct {
	OperationName string
	Duration      int64 // in microseconds
	Tags          []storedField
	Logs          []struct{ Fields []storedField }
}

type storedField struct {
	Key   string
	Value any
}

func (s storedSpan) duration() time.Duration { return time.Duration(s.Duration) * time.Microsecond }

// attributes returns the attributes, and as error whether the status is an error.
func (s storedSpan) attributes() map[string]any { return fields(s.Tags) }

// event returns the attributes of the event with a name, or nil.
func (s storedSpan) event(name string) map[string]any {
	for _, e := range s.Logs {
		if f := fields(e.Fields); f["event"] == name {
			return f
		}
	}
	return nil
}

func fields(list []storedField) map[string]any {
	all := map[string]any{}
	for _, f := range list {
		all[f.Key] = f.Value
	}
	return all
}

// awaitTrace waits for a trace of one span.
func (j *jaeger) awaitTrace(t *testing.T, id string) (found storedSpan) {
	t.Helper()
	eventually(t, func() error {
		var traces []storedTrace
		if err := j.api("traces/"+id, nil, &traces); err != nil {
			return err
		}
		if len(traces) != 1 || len(traces[0].Spans) != 1 || traces[0].TraceID != id {
			return fmt.Errorf("trace %s: %+v", id, traces)
		}
		found = traces[0].Spans[0]
		return nil
	})
	return found
}

// traces returns all traces of a service, by their id.
func (j *jaeger) traces(service string) (map[string]storedTrace, error) {
	const most = 100_000 // that Jaeger keeps
	var list []storedTrace
	err := j.api("traces", url.Values{"service": {service}, "limit": {fmt.Sprint(most)}, "lookback": {"1h"}}, &list)
	all := map[string]storedTrace{}
	for _, trace := range list {
		all[trace.TraceID] = trace
	}
	return all, err
}

// decisions returns how many traces were received, kept and not kept by tail sampling.
func (j *jaeger) decisions() (received, kept, gone float64, err error) {
	body, header, err := get(j.metrics, "text/plain;version=0.0.4")
	if err != nil {
		return 0, 0, 0, err
	}
	m, err := decodeMetrics(body, header)
	if err != nil {
		return 0, 0, 0, err
	}
	const arrived, decided = "otelcol_processor_tail_sampling_new_trace_id_received_total", "otelcol_processor_tail_sampling_global_count_traces_sampled_total"
	if m[arrived] == nil || m[decided] == nil {
		return 0, 0, 0, errors.New("no metrics of tail sampling yet")
	}
	return m.sum(arrived), m.sum(decided, "sampled", "true"), m.sum(decided, "sampled", "false"), nil
}

package e2e

import (
	"encoding/hex"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Two remote traces: one arrives in _meta, one in a header of HTTP.
const (
	metaTrace  = "0af7651916cd43dd8448eb211c80319c"
	metaSpan   = "b7ad6b7169203331"
	otherTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	otherSpan  = "00f067aa0ba902b7"
)

// traced adds a trace context to a request.
func traced(r request) request {
	return r.with("traceparent", "00-"+metaTrace+"-"+metaSpan+"-01").with("tracestate", "vendor=value")
}

// Every part of the span of a modern call over HTTP.
func TestSpanOfAModernCall(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	s := serveHTTP(t, otlp.env())
	r := traced(call(42, "echo", object{"text": "x"}))
	headers := r.headers()
	headers.Set("traceparent", "00-"+otherTrace+"-"+otherSpan+"-01")
	if a := s.send(t, "POST", headers, r.frame()); a.status != 200 || a.Error != nil {
		t.Fatalf("echo: %d %s", a.status, a.body)
	}
	got := otlp.awaitSpan(t, "tools/call echo")

	if got.traceID() != metaTrace || got.parentID() != metaSpan || got.GetTraceState() != "vendor=value" {
		t.Errorf("trace %s, parent %s, state %q", got.traceID(), got.parentID(), got.GetTraceState())
	}
	if got.GetKind() != trace.Span_SPAN_KIND_SERVER || got.GetStatus().GetCode() != trace.Status_STATUS_CODE_UNSET {
		t.Errorf("kind %v, status %v", got.GetKind(), got.GetStatus())
	}
	attrs := got.attributes()
	checkAttributes(t, attrs, map[string]any{
		"mcp.method.name": "tools/call", "mcp.protocol.version": modernVersion, "jsonrpc.request.id": "42",
		"gen_ai.tool.name": "echo", "gen_ai.operation.name": "execute_tool",
		"network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "1.1",
		"client.address": "127.0.0.1", "client.port": attrs["client.port"],
		"vitrine.client.name": "raw", "vitrine.client.version": "0.1",
		"vitrine.response.outcome": "sent", "vitrine.queue.wait": attrs["vitrine.queue.wait"],
	})
	if port, ok := attrs["client.port"].(int64); !ok || port <= 0 {
		t.Errorf("client.port: %v", attrs["client.port"])
	}
	if wait, ok := attrs["vitrine.queue.wait"].(float64); !ok || wait < 0 || wait > patience.Seconds() {
		t.Errorf("vitrine.queue.wait: %v", attrs["vitrine.queue.wait"])
	}
	if got.GetEndTimeUnixNano() < got.GetStartTimeUnixNano() || len(got.GetEvents()) > 0 {
		t.Errorf("from %d to %d, events %v", got.GetStartTimeUnixNano(), got.GetEndTimeUnixNano(), got.GetEvents())
	}
	for key, want := range map[string]any{"service.name": "everything", "telemetry.sdk.language": "go"} {
		if got.resource[key] != want {
			t.Errorf("resource: %s is %v, want %v", key, got.resource[key], want)
		}
	}

	t.Run("links the trace of the HTTP request", func(t *testing.T) {
		links := got.GetLinks()
		if len(links) != 1 || hex.EncodeToString(links[0].GetTraceId()) != otherTrace || hex.EncodeToString(links[0].GetSpanId()) != otherSpan {
			t.Errorf("links: %v, want one to %s", links, otherTrace)
		}
	})
	t.Run("exemplar", func(t *testing.T) {
		ids := s.metrics(t).traces("mcp_server_operation_duration_seconds", "gen_ai_tool_name", "echo")
		if len(ids) == 0 || slices.ContainsFunc(ids, func(id string) bool { return id != metaTrace }) {
			t.Errorf("exemplars of traces %q, want %s", ids, metaTrace)
		}
		text, _, err := s.get("/metrics", "application/openmetrics-text;version=1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		bucket := regexp.MustCompile(`(?m)^mcp_server_operation_duration_seconds_bucket{[^}]*gen_ai_tool_name="echo"[^}]*} \d+ # {[^}]*trace_id="` + metaTrace + `"`)
		if !bucket.Match(text) || !strings.HasSuffix(string(text), "# EOF\n") {
			t.Errorf("no exemplar of the call in the text:\n%s", text)
		}
	})
	t.Run("metrics and logs", func(t *testing.T) {
		eventually(t, func() error { return otlp.missing("mcp.server.operation.duration", "vitrine.requests.admitted") })
	})
}

// checkAttributes compares all attributes.
func checkAttributes(t *testing.T, got, want map[string]any) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[key]; !ok || v != want[key] {
			t.Errorf("attribute %s is %v, want %v", key, v, want[key])
		}
	}
	for key, v := range got {
		if _, ok := want[key]; !ok {
			t.Errorf("attribute %s = %v is not expected", key, v)
		}
	}
}

// What differs between spans: eras, transports, and whose fault an error was.
func TestSpanOutcomes(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	s := serveHTTP(t, otlp.env())
	session := s.initialize(t)
	legacy := func(r request) { s.send(t, "POST", session.headers(), r.inLegacy().frame()) }
	modern := func(r request) { s.post(t, r) }
	unset, failed := trace.Status_STATUS_CODE_UNSET, trace.Status_STATUS_CODE_ERROR
	for _, c := range []struct {
		title  string
		send   func(request)
		req    request
		name   string
		status trace.Status_StatusCode
		want   map[string]any // nil: the attribute is not there
	}{
		{"legacy", legacy, call("a", "sleep", object{"ms": 0}), "tools/call sleep", unset, map[string]any{
			"mcp.protocol.version": legacyVersion, "mcp.session.id": session.id[:8], "jsonrpc.request.id": "a", "error.type": nil,
		}},
		{"the tool fails", modern, call(1, "test_error_handling", object{}), "tools/call test_error_handling", failed, map[string]any{
			"error.type": "tool_error", "rpc.response.status_code": nil,
		}},
		{"the handler panics", modern, call(2, "panic", object{}), "tools/call panic", failed, map[string]any{
			"error.type": "-32603", "rpc.response.status_code": "-32603",
		}},
		{"the caller names no tool of ours", modern, call(3, "surprise", object{}), "tools/call", unset, map[string]any{
			"error.type": nil, "rpc.response.status_code": "-32602", "gen_ai.tool.name": nil, "gen_ai.operation.name": "execute_tool",
		}},
		{"the caller names no method of ours", modern, request{id: 4, method: "surprise"}, "_OTHER", unset, map[string]any{
			"error.type": nil, "rpc.response.status_code": "-32601", "mcp.method.name": "_OTHER", "gen_ai.operation.name": nil,
		}},
		{"list", modern, request{id: 5, method: "tools/list"}, "tools/list", unset, map[string]any{
			"error.type": nil, "gen_ai.operation.name": nil, "mcp.session.id": nil,
		}},
	} {
		t.Run(c.title, func(t *testing.T) {
			c.send(c.req)
			got := otlp.awaitSpan(t, c.name)
			if got.GetStatus().GetCode() != c.status {
				t.Errorf("status %v, want %v", got.GetStatus(), c.status)
			}
			attrs := got.attributes()
			for key, want := range c.want {
				if attrs[key] != want {
					t.Errorf("attribute %s is %v, want %v", key, attrs[key], want)
				}
			}
		})
	}
	if stack, _ := otlp.awaitSpan(t, "tools/call panic").event("exception")["exception.stacktrace"].(string); !strings.Contains(stack, "goroutine") {
		t.Errorf("the span of a panic has the stack %q", stack)
	}
}

// A pipe has no address, and no protocol below MCP.
func TestSpanOfAPipeHasNoAddress(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	p := connect(serveStdio(t, otlp.env()))
	p.ask(t, traced(call("first", "echo", object{"text": "x"})))
	got := otlp.awaitSpan(t, "tools/call echo")
	attrs := got.attributes()
	checkAttributes(t, attrs, map[string]any{
		"mcp.method.name": "tools/call", "mcp.protocol.version": modernVersion, "jsonrpc.request.id": "first",
		"gen_ai.tool.name": "echo", "gen_ai.operation.name": "execute_tool", "network.transport": "pipe",
		"vitrine.client.name": "raw", "vitrine.client.version": "0.1",
		"vitrine.response.outcome": "sent", "vitrine.queue.wait": attrs["vitrine.queue.wait"],
	})
	if got.traceID() != metaTrace || got.parentID() != metaSpan {
		t.Errorf("trace %s, parent %s", got.traceID(), got.parentID())
	}
}

// Without a variable that asks for exports nothing leaves the process, and nothing is logged.
func TestWithoutConfigurationNothingIsExported(t *testing.T) {
	t.Parallel()
	// The default endpoint of the exporters. If it is taken, it is not by us.
	l, err := net.Listen("tcp", "127.0.0.1:4318")
	if err == nil {
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				t.Errorf("%s has connected to the default endpoint", c.RemoteAddr())
				c.Close()
			}
		}()
	}
	s := serveHTTP(t, withEnv("OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_METRIC_EXPORT_INTERVAL=10"))
	s.post(t, traced(call(1, "echo", object{"text": "x"})))
	s.settled(t)
	s.signal(t, syscall.SIGTERM)
	s.exited(t, 0)
	lifecycle := []string{"service.ready", "readiness.changed", "drain.begin", "drain.refusing", "drain.end"}
	for _, line := range s.stderr.snapshot() {
		if !slices.ContainsFunc(lifecycle, func(name string) bool { return isRecord(name)(line) }) {
			t.Errorf("a complaint: %s", line)
		}
	}
}

// A missing collector affects no call, and neither the start nor the end of the process. /metrics
// shows it.
func TestMissingCollectorAffectsNoCall(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + l.Addr().String()
	l.Close()
	s := serveHTTP(t, withEnv("OTEL_EXPORTER_OTLP_ENDPOINT="+dead, "OTEL_BSP_SCHEDULE_DELAY=1",
		"OTEL_METRIC_EXPORT_INTERVAL=10", "OTEL_EXPORTER_OTLP_TIMEOUT=100"), withArgs("--flush-timeout", "1s"))
	for range 50 {
		if a := s.post(t, call(1, "echo", object{"text": "x"})); a.status != 200 || a.Error != nil {
			t.Fatalf("echo: %d %s", a.status, a.body)
		}
	}
	eventually(t, func() error {
		if s.metrics(t).sum("vitrine_telemetry_export_failures_total", "signal", "traces") == 0 {
			return errNotYet
		}
		return nil
	})
}

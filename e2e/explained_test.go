package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// A mishap is something that happens to one call of a tool. Prometheus and Jaeger must show what it
// was.
type mishap struct {
	title string
	start func(*testing.T, ...adjust) *server
	args  []string // of the server
	// provoke causes it from outside.
	provoke func(*testing.T, *server)

	tool      string
	cause     string // vitrine.cancel.cause; "" if the call was not cancelled
	outcome   string // vitrine.response.outcome
	drop      string // vitrine.drop.reason; "" if its answer was not dropped
	errorType string // "" if it was not the service's fault
}

// lasting lets a server that ends wait for its handlers for longer than the test takes.
var lasting = []string{"--cleanup-grace", "10m"}

// stubbornForever is a call for which an ending server waits: its handler ignores cancellation.
func stubbornForever() request {
	return call("keeper", "sleep", object{"ms": 600_000, "stubborn": true})
}

// stepping is a call of another tool, whose handler goes on until it is cancelled.
func stepping(id any) request { return call(id, "progress", object{"steps": 100_000, "ms": 60_000}) }

// mishaps are all causes of cancellation and all reasons for drops that can be provoked
// from outside. Two causes cannot: session_idle and session_evicted, because only a
// session without requests is idle, and only idle ones are evicted. See TestEndsOfIdleSessionsAreCounted.
var mishaps = []mishap{
	{
		title: "notifications/cancelled, legacy HTTP", start: serveHTTP, provoke: cancelLegacy,
		tool: "sleep", cause: "client_cancel", outcome: "sent",
	},
	{
		title: "notifications/cancelled, stdio", start: serveStdio, provoke: cancelLine,
		tool: "sleep", cause: "client_cancel", outcome: "dropped", drop: "cancelled",
	},
	{
		title: "hanging up on a modern call", start: serveHTTP, provoke: hangUp,
		tool: "sleep", cause: "client_disconnect", outcome: "dropped", drop: "cancelled",
	},
	{
		title: "hanging up on a legacy call", start: serveHTTP, args: []string{"--orphan-grace", "1h"}, provoke: hangUpLegacy,
		tool: "sleep", outcome: "dropped", drop: "stream_gone",
	},
	{
		title: "hanging up while the answer is written", start: serveHTTP, provoke: hangUpOnAnswer,
		tool: "big", outcome: "dropped", drop: "broken_peer",
	},
	{
		title: "not reading the answer", start: serveHTTP, args: []string{"--write-timeout", "500ms"}, provoke: doNotRead,
		tool: "big", outcome: "dropped", drop: "write_timeout", errorType: "write_timeout",
	},
	{
		title: "DELETE of the session", start: serveHTTP, provoke: deleteSession,
		tool: "sleep", cause: "session_delete", outcome: "dropped", drop: "session_gone",
	},
	{
		title: "deadline", start: serveHTTP, args: []string{"--max-request-timeout", "500ms"}, provoke: callAndWait,
		tool: "sleep", cause: "deadline", outcome: "sent", errorType: "deadline",
	},
	{
		title: "SIGTERM", start: launchHTTP, args: append([]string{"--drain-timeout", "1ms"}, lasting...), provoke: terminate,
		tool: "progress", cause: "server_shutdown", outcome: "sent", errorType: "server_shutdown",
	},
	{
		title: "end of the input", start: launchStdio, args: append([]string{"--eof-grace", "-1s"}, lasting...), provoke: endInput,
		tool: "progress", cause: "transport_close", outcome: "sent", errorType: "transport_close",
	},
	{
		title: "the reader of the output goes away", start: launchUnread, args: lasting, provoke: breakPipe,
		tool: "progress", cause: "transport_error", outcome: "dropped", drop: "broken_peer", errorType: "transport_error",
	},
	{
		title: "nothing but garbage", start: launchStdio, args: lasting, provoke: sendGarbage,
		tool: "progress", cause: "transport_error", outcome: "dropped", drop: "closed_writer", errorType: "transport_error",
	},
}

// TestEachMishapIsExplained provokes each mishap and asks Prometheus and Jaeger about it. Each server
// runs only while its mishap is explained.
func TestEachMishapIsExplained(t *testing.T) {
	needs.Long(t, "e2e/prometheus")
	needs.Tool(t, "e2e/prometheus", "prometheus")
	jaegerProgram(t)
	t.Parallel()
	j := storeTraces(t, jaegerConfig)
	p := scrapeWatched(t, time.Second, "exemplar-storage")
	for _, m := range mishaps {
		t.Run(m.title, func(t *testing.T) {
			t.Parallel()
			s := m.start(t, j.env(), withArgs(m.args...))
			p.watch(t, s)
			m.provoke(t, s)
			m.check(t, s, p, j)
		})
	}
}

// check does what an operator does: it goes from a counter to its exemplar, and from there to the
// trace.
func (m mishap) check(t *testing.T, s *server, p *prometheus, j *jaeger) {
	t.Helper()
	const cancelled, dropped = "vitrine_requests_cancelled_total", "vitrine_responses_dropped_total"
	var traces []string
	for _, c := range []struct{ metric, label, value string }{{cancelled, "cause", m.cause}, {dropped, "reason", m.drop}} {
		if c.value != "" {
			series := fmt.Sprintf(`%s{instance=%q,method="tools/call",tool=%q,%s=%q}`, c.metric, s.instance(), m.tool, c.label, c.value)
			p.awaitValue(t, "sum("+series+")", "1") // the other phases have 0
			traces = append(traces, p.awaitTrace(t, series))
		}
		// Nothing else has happened to the tool. A series without a tool is always there.
		p.awaitValue(t, fmt.Sprintf(`sum(%s{instance=%q,tool=~"(%s)?"})`, c.metric, s.instance(), m.tool), fmt.Sprint(count(c.value != "")))
	}
	if traces = slices.Compact(traces); len(traces) != 1 {
		t.Fatalf("the exemplars name the traces %q, want one", traces)
	}
	span := j.awaitTrace(t, traces[0])
	if want := "tools/call " + m.tool; span.OperationName != want {
		t.Errorf("the span is named %q, want %q", span.OperationName, want)
	}
	got := span.attributes()
	for key, want := range map[string]string{
		"gen_ai.tool.name": m.tool, "span.kind": "server", "vitrine.response.outcome": m.outcome,
		"vitrine.cancel.cause": m.cause, "vitrine.drop.reason": m.drop, "error.type": m.errorType,
	} {
		if v, ok := got[key]; want == "" && ok || want != "" && v != want {
			t.Errorf("attribute %s is %v, want %q", key, v, want)
		}
	}
	if failed := got["error"] == true; failed != (m.errorType != "") || failed != (got["otel.status_code"] == "ERROR") {
		t.Errorf("error %v, status %v; want error.type %q", got["error"], got["otel.status_code"], m.errorType)
	}
	for _, e := range []struct{ name, key, want string }{
		{"vitrine.cancelled", "vitrine.cancel.cause", m.cause}, {"vitrine.response.dropped", "vitrine.drop.reason", m.drop},
	} {
		if event := span.event(e.name); e.want == "" && event != nil || e.want != "" && event[e.key] != e.want {
			t.Errorf("event %s: %v, want %q", e.name, event, e.want)
		}
	}
}

// awaitTrace waits until the exemplars of a series name a trace, and returns it.
func (p *prometheus) awaitTrace(t *testing.T, series string) (trace string) {
	t.Helper()
	eventually(t, func() error {
		traces, err := p.exemplars(series)
		if err != nil {
			return err
		}
		if traces = slices.Compact(traces); len(traces) != 1 || len(traces[0]) != 32 {
			return fmt.Errorf("the exemplars of %s name the traces %q, want one", series, traces)
		}
		trace = traces[0]
		return nil
	})
	return trace
}

// launchHTTP starts a server that the test does not end in order.
func launchHTTP(t *testing.T, adjusts ...adjust) *server {
	return launch(t, append(adjusts, withArgs("--addr", "127.0.0.1:0")))
}

// launchStdio starts a server on pipes that the test does not end in order.
func launchStdio(t *testing.T, adjusts ...adjust) *server {
	return launch(t, append(adjusts, withArgs("--stdio")))
}

// launchUnread starts a server whose standard output nobody reads, so that its first write fails.
func launchUnread(t *testing.T, adjusts ...adjust) *server {
	t.Helper()
	stdout, leave := abandonable(t)
	s := launchStdio(t, append(adjusts, func(p *program) { p.stdout = stdout })...)
	stdout.Close()
	leave()
	return s
}

func launch(t *testing.T, adjusts []adjust) *server {
	t.Helper()
	s := &server{process: start(t, everything(adjusts...))}
	s.findEndpoints(t)
	t.Cleanup(func() { s.checkLog(t) })
	return s
}

func cancelLegacy(t *testing.T, s *server) {
	session := s.initialize(t)
	s.begin(t, session.headers(), sleeping(1).inLegacy().frame())
	s.awaitRunning(t, "sleep")
	cancel := request{method: "notifications/cancelled", params: object{"requestId": 1}, legacy: true}
	if a := s.send(t, http.MethodPost, session.headers(), cancel.frame()); a.status != http.StatusAccepted {
		t.Errorf("the cancel: %d %s", a.status, a.body)
	}
}

func cancelLine(t *testing.T, s *server) {
	p := connect(s)
	p.write(t, sleeping(1).frame())
	p.awaitRunning(t, "sleep")
	p.write(t, request{method: "notifications/cancelled", params: object{"requestId": 1}}.frame())
}

func hangUp(t *testing.T, s *server) {
	r := sleeping(1)
	p := s.begin(t, r.headers(), r.frame())
	s.awaitRunning(t, "sleep")
	p.drop()
}

func hangUpLegacy(t *testing.T, s *server) {
	session := s.initialize(t)
	p := s.begin(t, session.headers(), call(1, "sleep", object{"ms": 3000}).inLegacy().frame())
	s.awaitRunning(t, "sleep")
	p.drop()
	s.settled(t) // before the clean-up deletes the session
}

func deleteSession(t *testing.T, s *server) {
	session := s.initialize(t)
	s.begin(t, session.headers(), sleeping(1).inLegacy().frame())
	s.awaitRunning(t, "sleep")
	s.send(t, http.MethodDelete, session.headers(), "")
}

func callAndWait(t *testing.T, s *server) { s.post(t, sleeping(1)) }

func terminate(t *testing.T, s *server) {
	for _, r := range []request{stubbornForever(), stepping(1)} {
		s.begin(t, r.headers(), r.frame())
	}
	s.awaitRunning(t, "sleep")
	s.awaitRunning(t, "progress")
	s.signal(t, syscall.SIGTERM)
}

// busy starts both calls on pipes.
func busy(t *testing.T, s *server) *pipe {
	t.Helper()
	p := connect(s)
	p.write(t, stubbornForever().frame())
	p.write(t, stepping(1).frame())
	p.awaitRunning(t, "sleep")
	p.awaitRunning(t, "progress")
	return p
}

func endInput(t *testing.T, s *server) { busy(t, s).stdin.Close() }

// breakPipe makes the server write an error, by sending garbage.
func breakPipe(t *testing.T, s *server) { busy(t, s).write(t, "garbage") }

func sendGarbage(t *testing.T, s *server) {
	p := busy(t, s)
	for range 100 {
		p.write(t, "garbage")
	}
}

// much is a call whose answer is larger than all buffers.
func much(id any) request { return call(id, "big", object{"bytes": 12 << 20}) }

// sendOnly sends a request and reads nothing.
func sendOnly(t *testing.T, s *server, r request) *net.TCPConn {
	t.Helper()
	endpoint, err := url.Parse(s.mcp)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", endpoint.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	req, err := http.NewRequest(http.MethodPost, s.mcp, strings.NewReader(r.frame()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = r.headers()
	tcp := conn.(*net.TCPConn)
	if err := tcp.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if err := req.Write(tcp); err != nil {
		t.Fatal(err)
	}
	return tcp
}

func doNotRead(t *testing.T, s *server) { sendOnly(t, s, much(1)) }

func hangUpOnAnswer(t *testing.T, s *server) { resetOnAnswer(t, s, much(1)) }

// resetOnAnswer sends a request and resets the connection while the answer is written.
func resetOnAnswer(t *testing.T, s *server, r request) {
	t.Helper()
	conn := sendOnly(t, s, r)
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // it is being written
		t.Fatal(err)
	}
	if err := conn.SetLinger(0); err != nil { // the rest is not waited for
		t.Fatal(err)
	}
	conn.Close()
}

// Sessions end for two causes that cancel no request. Prometheus has both.
func TestEndsOfIdleSessionsAreCounted(t *testing.T) {
	needs.Long(t, "e2e/prometheus")
	needs.Tool(t, "e2e/prometheus", "prometheus")
	t.Parallel()
	idle := serveHTTP(t, withArgs("--session-idle", "200ms"))
	evicted := serveHTTP(t, withArgs("--max-sessions", "1"))
	p := scrape(t, 500*time.Millisecond, "exemplar-storage", idle, evicted)
	for _, c := range []struct {
		cause   string
		s       *server
		provoke func(*testing.T, *server)
	}{
		{"session_idle", idle, func(t *testing.T, s *server) { s.initialize(t) }},
		{"session_evicted", evicted, func(t *testing.T, s *server) {
			s.initialize(t)
			eventually(t, func() error { // the first is idle only when its last message was handled
				if a := s.post(t, initializeRequest()); a.status != http.StatusOK {
					return fmt.Errorf("initialize: %d %s", a.status, a.body)
				}
				return nil
			})
		}},
	} {
		t.Run(c.cause, func(t *testing.T) {
			c.provoke(t, c.s)
			p.awaitValue(t, fmt.Sprintf(`vitrine_sessions_closed_total{instance=%q,cause=%q}`, c.s.instance(), c.cause), "1")
			p.awaitValue(t, fmt.Sprintf(`sum(vitrine_requests_cancelled_total{instance=%q})`, c.s.instance()), "0")
		})
	}
}

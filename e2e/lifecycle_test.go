package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
)

// stubborn is a call whose handler ignores its cancellation for so long that the
// test can look at it meanwhile.
func stubborn(id any) request { return call(id, "sleep", object{"ms": 5_000, "stubborn": true}) }

// sleeping is a call whose handler goes on until it is cancelled.
func sleeping(id any) request { return call(id, "sleep", object{"ms": 600_000}) }

// cancelledBy matches a request in flight that was cancelled.
func cancelledBy(cause string) func(inFlight) bool {
	return func(r inFlight) bool { return r.State == "cancelled" && r.CancelCause == cause }
}

// checkCancelled looks at the counters for the one request that was cancelled.
func (s *server) checkCancelled(t *testing.T, cause, dropped string) {
	t.Helper()
	rep := s.settled(t)
	for c, n := range rep.Totals.Cancelled {
		if want := count(c == cause); n != want {
			t.Errorf("cancelled by %s: %d, want %d", c, n, want)
		}
	}
	for reason, n := range rep.Totals.Dropped {
		if want := count(reason == dropped); n != want {
			t.Errorf("dropped as %s: %d, want %d", reason, n, want)
		}
	}
	m := s.metrics(t)
	if n := m.sum("vitrine_requests_cancelled_total", "method", "tools/call", "tool", "sleep", "cause", cause); n != count1(cause != "") {
		t.Errorf("vitrine_requests_cancelled_total of the call: %v", n)
	}
	if n := m.sum("vitrine_responses_dropped_total", "method", "tools/call", "tool", "sleep", "reason", dropped); n != count1(dropped != "") {
		t.Errorf("vitrine_responses_dropped_total of the call: %v", n)
	}
	if n := m.sum("vitrine_cancel_unwind_seconds", "tool", "sleep", "cause", cause); n != count1(cause != "") {
		t.Errorf("vitrine_cancel_unwind_seconds of the call: %v", n)
	}
}

func count(yes bool) uint64 {
	if yes {
		return 1
	}
	return 0
}

func count1(yes bool) float64 { return float64(count(yes)) }

// checkCancelSpan looks at the span of a cancelled call.
func checkCancelSpan(t *testing.T, otlp *receiver, cause, outcome, dropped, errorType string) {
	t.Helper()
	got := otlp.awaitSpan(t, "tools/call sleep")
	attrs := got.attributes()
	for key, want := range map[string]string{
		"vitrine.cancel.cause": cause, "vitrine.response.outcome": outcome,
		"vitrine.drop.reason": dropped, "error.type": errorType,
	} {
		if v, ok := attrs[key]; want == "" && ok || want != "" && v != want {
			t.Errorf("attribute %s is %v, want %q", key, v, want)
		}
	}
	status := trace.Status_STATUS_CODE_UNSET
	if errorType != "" {
		status = trace.Status_STATUS_CODE_ERROR
	}
	if got.GetStatus().GetCode() != status {
		t.Errorf("status %v, want %v", got.GetStatus(), status)
	}
	if e := got.event("vitrine.cancelled"); e["vitrine.cancel.cause"] != cause {
		t.Errorf("event vitrine.cancelled: %v, want the cause %s", e, cause)
	}
	if e := got.event("vitrine.response.dropped"); dropped != "" && e["vitrine.drop.reason"] != dropped || dropped == "" && e != nil {
		t.Errorf("event vitrine.response.dropped: %v, want the reason %q", e, dropped)
	}
}

// TestDisconnect: hanging up on a modern call cancels it.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	s := serveHTTP(t, otlp.env())
	r := stubborn(1)
	p := s.begin(t, r.headers(), r.frame())
	row := s.awaitRunning(t, "sleep")
	if row.ID != "1" || row.Method != "tools/call" || row.Transport != "http" || row.Client != "raw" || len(row.TraceID) != 32 {
		t.Errorf("in flight as %+v", row)
	}
	if n := s.metrics(t).sum("vitrine_requests_in_flight", "state", "running"); n != 1 {
		t.Errorf("running on /metrics: %v", n)
	}
	p.drop()
	s.awaitRequest(t, "cancelled", cancelledBy("client_disconnect"))
	if n := s.metrics(t).sum("vitrine_requests_in_flight", "state", "cancelled"); n != 1 {
		t.Errorf("cancelled on /metrics: %v", n)
	}
	s.checkCancelled(t, "client_disconnect", "cancelled")
	checkCancelSpan(t, otlp, "client_disconnect", "dropped", "cancelled", "")
	if trace := otlp.awaitSpan(t, "tools/call sleep").traceID(); trace != row.TraceID {
		t.Errorf("trace %s on the page, %s on the span", row.TraceID, trace)
	}
}

// TestDisconnectOfLegacy: hanging up on a legacy call cancels nothing. Its answer
// finds no stream.
func TestDisconnectOfLegacy(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t)
	session := s.initialize(t)
	r := call(1, "sleep", object{"ms": 500}).inLegacy()
	p := s.begin(t, session.headers(), r.frame())
	s.awaitRunning(t, "sleep")
	p.drop()
	s.checkCancelled(t, "", "stream_gone")
}

// TestCancelStdio: notifications/cancelled on a pipe cancels the call and there is
// no answer.
func TestCancelStdio(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			otlp := receive(t)
			p := connect(serveStdio(t, otlp.env()))
			r, cancel := stubborn(7), request{method: "notifications/cancelled", params: object{"requestId": 7, "reason": "no\nmore"}}
			if era == "legacy" {
				p.handshake(t)
				r, cancel = r.inLegacy(), cancel.inLegacy()
			}
			p.write(t, r.frame())
			p.awaitRunning(t, "sleep")
			p.write(t, cancel.frame())
			row := p.awaitRequest(t, "cancelled", cancelledBy("client_cancel"))
			if !strings.HasPrefix(row.CancelDetail, "no") || strings.Contains(row.CancelDetail, "\n") {
				t.Errorf("the client's reason is shown as %q", row.CancelDetail)
			}
			p.write(t, cancel.frame()) // a second time: there is nothing to cancel any more
			eventually(t, func() error {
				if n := p.metrics(t).sum("vitrine_frames_ignored_total", "kind", "cancel", "reason", "unknown_id"); n != 1 {
					return fmt.Errorf("%v cancels were ignored", n)
				}
				return nil
			})
			// The id is free at once, although the handler has not returned.
			again := call(7, "echo", object{"text": "again"})
			again.legacy = r.legacy
			if m := p.ask(t, again); m.Result == nil || m.text() != `{"text":"again"}` {
				t.Errorf("the id used again: %+v", m)
			}
			p.checkCancelled(t, "client_cancel", "cancelled")
			checkCancelSpan(t, otlp, "client_cancel", "dropped", "cancelled", "")
			last := call(8, "echo", object{"text": "last"})
			last.legacy = r.legacy
			p.ask(t, last)
			answers := 0
			for _, line := range p.stdout.snapshot() {
				if string(decode(t, line).ID) == "7" {
					answers++
				}
			}
			if answers != 1 {
				t.Errorf("%d answers with the id, want the one of the second call:\n%s", answers, p.stdout)
			}
		})
	}
}

// TestCancelLegacyHTTP: over HTTP a cancelled legacy exchange must end with
// something.
func TestCancelLegacyHTTP(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	s := serveHTTP(t, otlp.env())
	session := s.initialize(t)
	p := s.begin(t, session.headers(), stubborn(7).inLegacy().frame())
	s.awaitRunning(t, "sleep")
	cancel := request{method: "notifications/cancelled", params: object{"requestId": 7}, legacy: true}
	if a := s.send(t, "POST", session.headers(), cancel.frame()); a.status != http.StatusAccepted {
		t.Errorf("the cancel: %d %s", a.status, a.body)
	}
	s.awaitRequest(t, "cancelled", cancelledBy("client_cancel"))
	if a := p.wait(t); a.code() != -32800 {
		t.Errorf("the cancelled call: %d %s", a.status, a.body)
	}
	s.checkCancelled(t, "client_cancel", "")
	checkCancelSpan(t, otlp, "client_cancel", "sent", "", "")
}

// TestCancelModernHTTP: nobody can cancel a modern call by its id, which anybody
// could have chosen.
func TestCancelModernHTTP(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t)
	r := call(7, "sleep", object{"ms": 600})
	p := s.begin(t, r.headers(), r.frame())
	s.awaitRunning(t, "sleep")
	cancel := request{method: "notifications/cancelled", params: object{"requestId": 7}}
	if a := s.send(t, "POST", cancel.headers(), cancel.frame()); a.status != http.StatusAccepted || a.body != "" {
		t.Errorf("the cancel: %d %s", a.status, a.body)
	}
	if n := s.metrics(t).sum("vitrine_frames_ignored_total", "kind", "cancel", "reason", "wrong_transport"); n != 1 {
		t.Errorf("%v cancels were ignored", n)
	}
	if a := p.wait(t); a.status != 200 || a.text() != "slept for 600ms" {
		t.Errorf("the call: %d %s", a.status, a.body)
	}
	s.checkCancelled(t, "", "")
}

// TestEndOfInput: when standard input ends, a running call has a grace, is then
// cancelled, and the process ends in order. This test does not run beside others,
// because it must look at the page within a grace of half a second.
func TestEndOfInput(t *testing.T) {
	for _, c := range []struct {
		title, errorType string
		call             request
		code             int
	}{
		{"the handler obeys", "transport_close", sleeping(1), 0},
		{"the handler is stubborn", "transport_close", stubborn(1), 1},
	} {
		t.Run(c.title, func(t *testing.T) {
			otlp := receive(t)
			p := connect(serveStdio(t, otlp.env()))
			p.write(t, c.call.frame())
			p.awaitRunning(t, "sleep")
			p.stdin.Close()
			p.stderr.await(t, "record session.eof", 0, isRecord("session.eof"))
			p.awaitRunning(t, "sleep") // in its grace
			if c.code != 0 {
				p.awaitRequest(t, "cancelled", cancelledBy("transport_close"))
			}
			p.exited(t, c.code)
			p.stdout.drained(t)
			answers := answersByID(t, p.stdout.text())
			m := answers["1"]
			if len(answers) != 1 || m.Error == nil && (m.Result == nil || !m.Result.IsError) {
				t.Errorf("the answer to the call: %s", p.stdout)
			}
			checkCancelSpan(t, otlp, "transport_close", "sent", "", c.errorType)
			if n := otlp.sum("vitrine.requests.cancelled", "vitrine.cancel.cause", "transport_close", "gen_ai.tool.name", "sleep"); n != 1 {
				t.Errorf("vitrine.requests.cancelled: %v", n)
			}
			otlp.conserved(t)
			if c.code != 0 {
				last := p.stderr.snapshot()
				if !strings.Contains(last[len(last)-1], "sleep") {
					t.Errorf("the last words do not name the handler: %s", last[len(last)-1])
				}
			}
		})
	}
}

// TestTermination: a call of a second survives SIGTERM.
func TestTermination(t *testing.T) {
	for _, transport := range []string{"http", "stdio"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			otlp := receive(t)
			r := call(1, "sleep", object{"ms": 1000})
			if transport == "http" {
				s := serveHTTP(t, otlp.env())
				p := s.begin(t, r.headers(), r.frame())
				s.awaitRunning(t, "sleep")
				s.signal(t, syscall.SIGTERM)
				if a := p.wait(t); a.status != 200 || a.text() != "slept for 1s" {
					t.Errorf("the call: %d %s", a.status, a.body)
				}
				s.exited(t, 0)
			} else {
				p := connect(serveStdio(t, otlp.env()))
				p.write(t, r.frame())
				p.awaitRunning(t, "sleep")
				p.signal(t, syscall.SIGTERM)
				if m := p.readID(t, "1"); m.text() != "slept for 1s" {
					t.Errorf("the call: %+v", m)
				}
				p.exited(t, 0)
			}
			got := otlp.awaitSpan(t, "tools/call sleep")
			if attrs := got.attributes(); attrs["vitrine.response.outcome"] != "sent" || attrs["vitrine.cancel.cause"] != nil {
				t.Errorf("the span: %v", attrs)
			}
			if n := otlp.sum("vitrine.requests.cancelled"); n != 0 {
				t.Errorf("%v requests were cancelled", n)
			}
			otlp.conserved(t)
		})
	}
}

// TestDrain: while the server drains it says so, refuses what is new, and lets what
// runs go on, until the drain's deadline or a second signal.
func TestDrain(t *testing.T) {
	for _, c := range []struct {
		title, timeout string
		call           request
		second         bool
		codes          []int
	}{
		// After a second signal no handler is waited for: one that obeys may be back in time,
		// or be among those that were left behind.
		{"second signal", "10m", sleeping(1), true, []int{0, 1}},
		{"second signal, stubborn handler", "10m", call(1, "sleep", object{"ms": 60_000, "stubborn": true}), true, []int{1}},
		{"deadline", "3s", sleeping(1), false, []int{0}},
	} {
		t.Run(c.title, func(t *testing.T) {
			t.Parallel()
			otlp := receive(t)
			s := serveHTTP(t, otlp.env(), withArgs("--drain-timeout", c.timeout))
			if _, _, err := s.get("/readyz", "*/*"); err != nil {
				t.Errorf("before: %v", err)
			}
			p := s.begin(t, c.call.headers(), c.call.frame())
			s.awaitRunning(t, "sleep")
			s.signal(t, syscall.SIGTERM)
			s.stderr.await(t, "record drain.begin", 0, isRecord("drain.begin"))
			eventually(t, func() error { // the server begins to refuse a moment later
				if _, _, err := s.get("/readyz", "*/*"); err == nil {
					return fmt.Errorf("still ready")
				}
				a := s.post(t, call(2, "echo", object{"text": "late"}))
				if a.code() != codeInternal {
					return fmt.Errorf("a new call: %d %s", a.status, a.body)
				}
				if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(string(a.Error.Data), "shutting_down") {
					t.Errorf("a new call: %d %v %s", a.status, a.header, a.body)
				}
				return nil
			})
			if c.second {
				s.awaitRunning(t, "sleep")
				s.signal(t, syscall.SIGTERM)
			}
			// Our error, or what the handler has made of its cancellation.
			if a := p.wait(t); a.code() != codeInternal && (a.Result == nil || !a.Result.IsError) || !strings.Contains(a.body, "server_shutdown") {
				t.Errorf("the call that was cancelled: %d %s", a.status, a.body)
			}
			s.exited(t, c.codes...)
			checkCancelSpan(t, otlp, "server_shutdown", "sent", "", "server_shutdown")
			if n := otlp.sum("vitrine.requests.cancelled", "vitrine.cancel.cause", "server_shutdown"); n != 1 {
				t.Errorf("vitrine.requests.cancelled: %v", n)
			}
			if n := otlp.sum("vitrine.requests.rejected", "vitrine.reject.reason", "shutting_down"); n < 1 {
				t.Errorf("vitrine.requests.rejected: %v", n)
			}
			otlp.conserved(t)
		})
	}
}

// TestBrokenPipe: the reader of standard output goes away. The process must not die
// of SIGPIPE, which would be the default, but end in order.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := connect(serveStdio(t, otlp.env(), func(p *program) { p.stdout = writer }))
	writer.Close()
	p.write(t, sleeping(1).frame())
	p.awaitRunning(t, "sleep")
	reader.Close()
	p.write(t, call(2, "echo", object{"text": "to nobody"}).frame())
	p.exited(t, 0)
	checkCancelSpan(t, otlp, "transport_error", "dropped", "broken_peer", "transport_error")
	if n := otlp.sum("vitrine.responses.dropped", "vitrine.drop.reason", "broken_peer"); n != 2 {
		t.Errorf("%v responses were dropped as broken_peer, want 2", n)
	}
	otlp.conserved(t)
	p.stderr.await(t, "record session.peer_lost", 0, isRecord("session.peer_lost"))
}

// TestOneShot: a server with files for its standard input and output answers
// everything and ends.
func TestOneShot(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			const calls = 200
			var in strings.Builder
			if era == "legacy" {
				fmt.Fprintln(&in, initializeRequest().frame())
				fmt.Fprintln(&in, request{method: "notifications/initialized", legacy: true}.frame())
			}
			for i := range calls {
				r := call(i, "echo", object{"text": fmt.Sprint("line ", i)})
				if i%20 == 19 {
					r = call(i, "sleep", object{"ms": 300}) // still running when the file ends
				}
				r.legacy = era == "legacy"
				fmt.Fprintln(&in, r.frame())
			}
			dir := t.TempDir()
			stdin, stdout := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
			if err := os.WriteFile(stdin, []byte(strings.TrimSuffix(in.String(), "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			p := everything(withArgs("--stdio"))
			var err error
			if p.stdin, err = os.Open(stdin); err != nil {
				t.Fatal(err)
			}
			defer p.stdin.Close()
			if p.stdout, err = os.Create(stdout); err != nil {
				t.Fatal(err)
			}
			defer p.stdout.Close()
			s := &server{process: start(t, p)}
			s.exited(t, 0)
			out, err := os.ReadFile(stdout)
			if err != nil {
				t.Fatal(err)
			}
			answers := answersByID(t, string(out))
			for i := range calls {
				want := encode(object{"text": fmt.Sprint("line ", i)})
				if i%20 == 19 {
					want = "slept for 300ms"
				}
				if m := answers[fmt.Sprint(i)]; m.text() != want {
					t.Fatalf("answer %d: %s, want %s", i, m, want)
				}
			}
			if extra := len(answers) - calls - int(count(era == "legacy")); extra != 0 {
				t.Errorf("%d more answers than requests", extra)
			}
			s.checkLog(t)
		})
	}
}

// TestPanic: a handler that panics is answered with an error, and nobody else
// notices.
func TestPanic(t *testing.T) {
	const secret = "as requested"
	check := func(t *testing.T, s *server, raw string, m message) {
		t.Helper()
		if m.code() != codeInternal || strings.Contains(raw, secret) || strings.Contains(raw, "goroutine") {
			t.Errorf("the answer to the caller: %s", raw)
		}
		line, _ := s.stderr.await(t, "record handler.panic", 0, isRecord("handler.panic"))
		if !strings.Contains(line, secret) || !strings.Contains(line, "goroutine") {
			t.Errorf("the log lacks the panic or the stack: %s", line)
		}
		if n := s.metrics(t).sum("vitrine_handler_panics_total", "tool", "panic"); n != 1 {
			t.Errorf("vitrine_handler_panics_total: %v", n)
		}
	}
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		s := serveHTTP(t)
		r := call(1, "sleep", object{"ms": 700})
		other := s.begin(t, r.headers(), r.frame())
		s.awaitRunning(t, "sleep")
		a := s.post(t, call(2, "panic", object{}))
		check(t, s, a.body, a.message)
		if a := other.wait(t); a.text() != "slept for 700ms" {
			t.Errorf("the other call: %s", a.body)
		}
		if a := s.post(t, call(3, "echo", object{"text": "x"})); a.Error != nil {
			t.Errorf("the next call: %s", a.body)
		}
		s.checkCancelled(t, "", "")
	})
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		p := connect(serveStdio(t))
		p.write(t, call(1, "sleep", object{"ms": 700}).frame())
		p.awaitRunning(t, "sleep")
		m := p.ask(t, call(2, "panic", object{}))
		check(t, p.server, p.stdout.String(), m)
		if m := p.readID(t, "1"); m.text() != "slept for 700ms" {
			t.Errorf("the other call: %+v", m)
		}
		if m := p.ask(t, call(3, "echo", object{"text": "x"})); m.Error != nil {
			t.Errorf("the next call: %+v", m)
		}
		p.checkCancelled(t, "", "")
	})
}

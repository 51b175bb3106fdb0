package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// When standard input ends, a running call has a grace. Then it is cancelled, and the process ends
// in order. The test does not run in parallel with others, because it must read the page within a
// grace of half a second.
func TestEndOfInputCancelsAfterTheGrace(t *testing.T) {
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

// A call of one second survives SIGTERM.
func TestCallSurvivesTermination(t *testing.T) {
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

// While the server drains it says so, rejects new requests, and finishes running ones, until the
// drain's deadline or a second signal.
func TestDrainFinishesRunningCalls(t *testing.T) {
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
			// The error of the server, or the result of the cancelled handler.
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

// The reader of standard output goes away. The process must not die of SIGPIPE, which is the
// default, but end in order.
func TestBrokenPipeEndsTheProcessInOrder(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	stdout, leave := abandonable(t)
	p := connect(serveStdio(t, otlp.env(), func(p *program) { p.stdout = stdout }))
	stdout.Close()
	p.write(t, sleeping(1).frame())
	p.awaitRunning(t, "sleep")
	leave()
	p.write(t, call(2, "echo", object{"text": "to nobody"}).frame())
	p.exited(t, 0)
	checkCancelSpan(t, otlp, "transport_error", "dropped", "broken_peer", "transport_error")
	if n := otlp.sum("vitrine.responses.dropped", "vitrine.drop.reason", "broken_peer"); n != 2 {
		t.Errorf("%v responses were dropped as broken_peer, want 2", n)
	}
	otlp.conserved(t)
	p.stderr.await(t, "record session.peer_lost", 0, isRecord("session.peer_lost"))
}

// A server with files for its standard input and output answers everything and ends.
func TestRequestsInAFileAreAnswered(t *testing.T) {
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

// A handler that panics is answered with an error, and affects no other call.
func TestPanicIsAnsweredWithAnError(t *testing.T) {
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

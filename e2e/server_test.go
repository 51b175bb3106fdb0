package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A server is the fixture server, or the demonstration service, at work.
type server struct {
	*process
	mcp   string // URL of the MCP endpoint; empty over stdio
	admin string // URL of the admin listener
	// behind are the servers behind a balancer, whose requests and metrics are its own.
	behind []*server
}

// An adjust changes how a server is started.
type adjust func(*program)

func withEnv(env ...string) adjust   { return func(p *program) { p.env = append(p.env, env...) } }
func withArgs(args ...string) adjust { return func(p *program) { p.args = append(p.args, args...) } }

// everything describes how to start the fixture server. The log is JSON, so that it
// can be read here.
func everything(adjusts ...adjust) program {
	p := program{
		path: programFile("everything"),
		args: []string{"--admin-addr", "127.0.0.1:0", "--log-format", "json"},
	}
	for _, a := range adjusts {
		a(&p)
	}
	return p
}

// serveHTTP starts the server on a free port. At the end of the test it must be at
// rest, with every answer accounted for, and end in order.
func serveHTTP(t *testing.T, adjusts ...adjust) *server {
	t.Helper()
	s := &server{process: start(t, everything(append([]adjust{withArgs("--addr", "127.0.0.1:0")}, adjusts...)...))}
	s.findEndpoints(t)
	t.Cleanup(func() { s.end(t) })
	return s
}

// serveStdio starts the server on pipes.
func serveStdio(t *testing.T, adjusts ...adjust) *server {
	t.Helper()
	s := &server{process: start(t, everything(append([]adjust{withArgs("--stdio")}, adjusts...)...))}
	s.findEndpoints(t)
	t.Cleanup(func() { s.end(t) })
	return s
}

// findEndpoints waits until the server has logged its addresses.
func (s *server) findEndpoints(t *testing.T) {
	t.Helper()
	var ready struct{ MCP, Admin string }
	line, _ := s.stderr.await(t, "record service.ready", 0, isRecord("service.ready"))
	if err := json.Unmarshal([]byte(line), &ready); err != nil {
		t.Fatal(err)
	}
	s.mcp, s.admin = ready.MCP, ready.Admin
}

// isRecord matches the log records with a message.
func isRecord(msg string) func(string) bool {
	return func(line string) bool {
		var record struct{ Msg string }
		return json.Unmarshal([]byte(line), &record) == nil && record.Msg == msg
	}
}

// end checks what must be true at the end of every test, if the test has not ended
// the server itself.
func (s *server) end(t *testing.T) {
	if s.running() && !t.Failed() {
		s.awaitSubscriptions(t, 0)
		s.settled(t)
		s.signal(t, syscall.SIGTERM)
		s.exited(t, 0)
	}
	s.checkLog(t)
}

// exited waits for the end of the server and checks its exit status.
func (s *server) exited(t *testing.T, codes ...int) {
	t.Helper()
	if status := s.exit(t); !status.Exited() || !slices.Contains(codes, status.ExitStatus()) {
		t.Errorf("exit status %d, signal %v; want exit status %d", status.ExitStatus(), status.Signal(), codes)
	}
}

// checkLog checks that the log has no record that it must not have.
func (s *server) checkLog(t *testing.T) {
	for _, line := range s.stderr.snapshot() {
		for _, bad := range []string{"WARNING: DATA RACE", "invariant.broken"} {
			if strings.Contains(line, bad) {
				t.Errorf("on standard error: %s", line)
			}
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			t.Errorf("the process died: %s", line)
		}
	}
}

// report has those parts of /debug/requests that the tests read.
type report struct {
	InFlight map[string]int `json:"in_flight"`
	Requests []inFlight     `json:"requests"`
	// Subscriptions stay open as long as a client likes.
	Subscriptions []inFlight `json:"subscriptions"`
	Sessions      []struct {
		Transport       string `json:"transport"`
		ProtocolVersion string `json:"protocol_version"`
		Client          string `json:"client"`
		Streaming       bool   `json:"streaming"`
	} `json:"sessions"`
	Totals struct {
		Received  map[string]uint64 `json:"received"`
		Admitted  uint64            `json:"admitted"`
		Sent      uint64            `json:"sent"`
		Stored    uint64            `json:"stored"`
		Dropped   map[string]uint64 `json:"dropped"`
		Cancelled map[string]uint64 `json:"cancelled"`
		Rejected  map[string]uint64 `json:"rejected"`
		Abandoned map[string]uint64 `json:"abandoned"`
		Panics    uint64            `json:"panics"`
	} `json:"totals"`
}

// inFlight is one request in a report.
type inFlight struct {
	ID              string  `json:"id"`
	Method          string  `json:"method"`
	Tool            string  `json:"tool"`
	State           string  `json:"state"`
	Remote          string  `json:"remote"`
	AgeSeconds      float64 `json:"age_seconds"`
	CancelCause     string  `json:"cancel_cause"`
	CancelDetail    string  `json:"cancel_detail"`
	TraceID         string  `json:"trace_id"`
	Client          string  `json:"client"`
	ClientVersion   string  `json:"client_version"`
	ProtocolVersion string  `json:"protocol_version"`
	Transport       string  `json:"transport"`
}

// requests reads /debug/requests.
func (s *server) requests() (*report, error) {
	if s.behind != nil {
		return requestsOf(s.behind)
	}
	body, _, err := s.get("/debug/requests", "application/json")
	if err != nil {
		return nil, err
	}
	rep := new(report)
	return rep, json.Unmarshal(body, rep)
}

// get reads a page of the admin listener.
func (s *server) get(path, accept string) ([]byte, http.Header, error) {
	return get(s.admin+path, accept)
}

// get reads a page.
func get(url, accept string) ([]byte, http.Header, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, body)
	}
	return body, resp.Header, err
}

// awaitRequest waits until a request that match accepts is in flight, and returns it.
func (s *server) awaitRequest(t *testing.T, what string, match func(inFlight) bool) (found inFlight) {
	t.Helper()
	eventually(t, func() error {
		rep, err := s.requests()
		if err != nil {
			return err
		}
		for _, r := range rep.Requests {
			if match(r) {
				found = r
				return nil
			}
		}
		return fmt.Errorf("no request that is %s in flight, but %+v", what, rep.Requests)
	})
	return found
}

// awaitRunning waits until a call of the tool runs.
func (s *server) awaitRunning(t *testing.T, tool string) inFlight {
	t.Helper()
	return s.awaitRequest(t, "a running "+tool, func(r inFlight) bool { return r.Tool == tool && r.State == "running" })
}

// awaitSubscriptions waits until n subscriptions are open.
func (s *server) awaitSubscriptions(t *testing.T, n int) {
	t.Helper()
	eventually(t, func() error {
		rep, err := s.requests()
		if err == nil && len(rep.Subscriptions) != n {
			err = fmt.Errorf("%d subscriptions are open, want %d: %+v", len(rep.Subscriptions), n, rep.Subscriptions)
		}
		return err
	})
}

// settled waits until nothing is in flight but subscriptions, and checks that every
// answer is accounted for: admitted = sent + stored + dropped. It does so on both pages.
func (s *server) settled(t *testing.T) *report {
	t.Helper()
	var rep *report
	eventually(t, func() (err error) {
		if rep, err = s.requests(); err != nil {
			return err
		}
		if len(rep.Requests) > 0 {
			return fmt.Errorf("in flight: %+v", rep.Requests)
		}
		return nil
	})
	open := len(rep.Subscriptions)
	dropped := uint64(0)
	for _, n := range rep.Totals.Dropped {
		dropped += n
	}
	if a := &rep.Totals; a.Admitted != a.Sent+a.Stored+dropped+uint64(open) {
		t.Errorf("not conserved: admitted %d, sent %d, stored %d, dropped %v, open %d", a.Admitted, a.Sent, a.Stored, a.Dropped, open)
	}
	m := s.metrics(t)
	admitted := m.sum("vitrine_requests_admitted_total")
	known := m.sum("vitrine_responses_sent_total") + m.sum("vitrine_responses_stored_total") + m.sum("vitrine_responses_dropped_total")
	if admitted != known+float64(open) || admitted != float64(rep.Totals.Admitted) {
		t.Errorf("not conserved on /metrics: admitted %v (reported %d), with a known fate %v, open %d", admitted, rep.Totals.Admitted, known, open)
	}
	if n := m.sum("vitrine_requests_in_flight"); n != float64(open) {
		t.Errorf("in flight on /metrics: %v, of which %d are subscriptions", n, open)
	}
	return rep
}

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// noReturn makes nginx ignore a replica that it takes for dead until the test ends.
func noReturn() []string { return []string{"fail_timeout=2s", "fail_timeout=1h"} }

// narrow is a server that is full with two calls: one runs, and one waits.
func narrow() adjust { return withArgs("--max-in-flight-total", "1", "--max-queue", "1") }

// fill makes a narrow server full, without the proxy, until the returned function is called.
func (s *server) fill(t *testing.T) (release func()) {
	t.Helper()
	calls := []*pending{
		s.begin(t, sleeping(1).headers(), sleeping(1).frame()),
		s.begin(t, sleeping(2).headers(), sleeping(2).frame()),
	}
	eventually(t, func() error {
		rep, err := s.requests()
		if err == nil && rep.InFlight["queued"] != 1 {
			err = fmt.Errorf("in flight: %v, want one to wait", rep.InFlight)
		}
		return err
	})
	return func() {
		for _, p := range calls {
			p.drop()
		}
	}
}

// refusals returns the number of requests that a server has rejected for a reason.
func (s *server) refusals(t *testing.T, reason string) float64 {
	t.Helper()
	return s.metrics(t).sum("vitrine_requests_rejected_total", "reason", reason)
}

// overloaded reports whether an answer is the complete one of a full server.
func (a *answer) overloaded() bool {
	return a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") == "1" &&
		a.Error != nil && strings.Contains(string(a.Error.Data), `"overload"`)
}

// A full replica stays in rotation, and serves again as soon as it can.
func TestNginxKeepsAFullReplicaInRotation(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	all := replicas(t, 3, narrow())
	front := proxy(t, all, noReturn()...)
	echo := func(n int) (served, refused int) {
		t.Helper()
		for i := range n {
			switch a := front.post(t, echoX(i)); {
			case a.echoes():
				served++
			case a.overloaded():
				refused++
			default:
				t.Errorf("echo: %d %s", a.status, a.body)
			}
		}
		return served, refused
	}
	release := all[0].fill(t)
	if served, refused := echo(10); served == 0 || refused < 2 {
		t.Errorf("one replica is full: %d calls were served and %d refused, want both, and refusals again and again", served, refused)
	}
	releaseOther := all[1].fill(t)
	if served, refused := echo(10); served != 0 || refused != 10 {
		t.Errorf("both are full: %d calls were served and %d refused", served, refused)
	}
	release()
	releaseOther()
	all[0].settled(t)
	all[1].settled(t)
	was := [2]float64{all[0].calls(t), all[1].calls(t)}
	if served, refused := echo(10); served != 10 {
		t.Errorf("none is full any more: %d calls were served and %d refused", served, refused)
	}
	for i, n := range was {
		if all[i].calls(t) == n {
			t.Errorf("replica %d gets no calls any more", i)
		}
	}
}

// nginx leaves a draining replica at its first refusal.
func TestNginxLeavesADrainingReplica(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	all := replicas(t, 3, narrow(), withArgs("--drain-timeout", "10m"))
	front := proxy(t, all, noReturn()...)
	release := all[0].fill(t)
	all[0].signal(t, syscall.SIGTERM)
	eventually(t, func() error {
		if a := all[0].post(t, echoX(1)); a.status != http.StatusServiceUnavailable {
			return fmt.Errorf("the replica does not drain yet: %d %s", a.status, a.body)
		}
		return nil
	})
	was := all[0].refusals(t, "shutting_down")
	for i := range 20 {
		if a := front.post(t, echoX(i)); !a.echoes() {
			t.Errorf("a replica drains: %d %s", a.status, a.body)
		}
	}
	if n := all[0].refusals(t, "shutting_down") - was; n != 1 {
		t.Errorf("the replica that drains has refused %v calls, want 1", n)
	}
	release()
	all[0].exited(t, 0)
}

// Streams go to the next replica when one has enough, or is away. The full one still gets calls.
func TestNginxSendsStreamsToTheNextReplica(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	all := replicas(t, 3, withArgs("--max-sessions", "1", "--max-in-flight", "1"))
	front := proxy(t, all, noReturn()...)
	busy := all[0].initialize(t)
	p := all[0].begin(t, busy.headers(), sleeping(1).inLegacy().frame())
	holder(t, all[:1])
	for range 4 { // an idle session is evicted
		if s := front.initialize(t); !strings.HasPrefix(s.id, "b.") {
			t.Errorf("the session %s is where there is no room", s.id)
		}
	}
	if n := all[0].refusals(t, "overload"); n == 0 {
		t.Error("the replica without room was not asked")
	}
	was := all[0].calls(t)
	for i := range 4 {
		if a := front.post(t, echoX(i)); !a.echoes() {
			t.Errorf("echo: %d %s", a.status, a.body)
		}
	}
	if all[0].calls(t) == was {
		t.Error("the replica without room for sessions gets no calls")
	}
	p.drop()
	all[0].kill(t)
	for range 4 { // at the latest the second one meets the replica that is away
		front.initialize(t)
	}
}

// A call of a legacy session is rejected while the replica of the session is full. Another
// replica would not know the session.
func TestNginxRejectsCallsOfAFullSession(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	all := replicas(t, 3, narrow())
	front := proxy(t, all)
	s := front.initialize(t)
	home := all[0]
	if strings.HasPrefix(s.id, "b.") {
		home = all[1]
	}
	release := home.fill(t)
	echo := echoX(1).inLegacy().frame()
	if a := s.send(t, http.MethodPost, s.headers(), echo); !a.overloaded() {
		t.Errorf("the replica is full: %d %s", a.status, a.body)
	}
	release()
	home.settled(t)
	if a := s.send(t, http.MethodPost, s.headers(), echo); !a.echoes() {
		t.Errorf("the replica is not full any more: %d %s", a.status, a.body)
	}
}

// The log names requests, and sessions in the same way as the server's log: the whole id is a
// secret of the client.
func TestNginxLogNamesSessionsAsTheServerDoes(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp.log")
	front := proxy(t, replicas(t, 3), "access_log /var/log/nginx/mcp.log mcp;", "access_log "+file+" mcp;")
	s := front.initialize(t)
	_, own, _ := strings.Cut(s.id, ".")
	if a := s.send(t, http.MethodPost, s.headers(), echoX(1).inLegacy().frame()); own == "" || !a.echoes() {
		t.Fatalf("session %s: %d %s", s.id, a.status, a.body)
	}
	last := echoX(2)
	headers := last.headers()
	headers.Set("Mcp-Session-Id", s.id) // a modern client has none; it is no less a secret
	headers.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	front.send(t, http.MethodPost, headers, last.frame())
	eventually(t, func() error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), own) {
			t.Fatalf("the log has the session %s:\n%s", own, text)
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		var entry struct {
			Status                                       int
			Method, Name, Session, Upstream, Traceparent string
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &entry); err != nil {
			return err // half of a line
		}
		if entry.Method != "tools/call" || entry.Name != "echo" || entry.Status == 0 || entry.Upstream == "" || entry.Traceparent == "" || entry.Session != own[:8] {
			return fmt.Errorf("the last line is %+v", entry)
		}
		return nil
	})
}

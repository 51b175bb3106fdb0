package e2e

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// The notifications of a handler reach the client through nginx while the handler works. A
// buffer would be full only after a minute.
func TestNginxPassesEventsOnAtOnce(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	all := replicas(t, 3)
	front := proxy(t, all)
	o := front.open(t, call(1, "progress", object{"steps": 100_000, "ms": 2_000}).with("progressToken", "p"))
	o.awaitData(t, `"progress":1,`, 0)
	s := holder(t, all)
	o.drop()
	s.checkUnwound(t)
}

// A client that disconnects cancels its call, although no write shows nginx that it has gone.
func TestNginxPassesADisconnectOn(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	all := replicas(t, 3, withArgs("--keep-alive", "10m"))
	front := proxy(t, all)
	p := front.begin(t, sleeping(1).headers(), sleeping(1).frame())
	s := holder(t, all)
	p.drop()
	s.checkUnwound(t)
}

// checkUnwound waits for the end of a call whose client has disconnected, and checks the cause.
func (s *server) checkUnwound(t *testing.T) {
	t.Helper()
	rep := s.settled(t)
	if n := rep.Totals.Cancelled["client_disconnect"]; n != 1 || rep.Totals.Dropped["cancelled"] != 1 {
		t.Errorf("%d calls were cancelled by client_disconnect, want 1; dropped: %v", n, rep.Totals.Dropped)
	}
}

// Keep-alives keep a call that sends nothing for longer than the time-out of nginx.
func TestNginxKeepsAQuietStream(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	const silence = 3 * time.Second
	shorter := []string{"proxy_read_timeout 60s;", fmt.Sprintf("proxy_read_timeout %ds;", int(silence.Seconds()))}
	t.Run("with signs of life", func(t *testing.T) {
		t.Parallel()
		all := replicas(t, 3, withArgs("--keep-alive", "100ms"))
		front := proxy(t, all, shorter...)
		began := time.Now()
		o := front.open(t, sleeping(1))
		for next := 0; time.Since(began) < 2*silence; {
			_, next = o.await(t, "sign of life", next, func(line string) bool { return line == ":" })
		}
		s := holder(t, all)
		o.drop()
		s.checkUnwound(t)
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		all := replicas(t, 3, withArgs("--keep-alive", "10m"))
		front := proxy(t, all, shorter...)
		if a := front.begin(t, sleeping(1).headers(), sleeping(1).frame()); (<-a.answer).status != http.StatusGatewayTimeout {
			t.Error("the call was not cut: the other test proves nothing")
		}
		n := 0.0
		for _, s := range all {
			s.settled(t)
			n += s.calls(t)
		}
		if n != 1 {
			t.Errorf("%v replicas have got the call, want 1", n)
		}
	})
}

// holder waits until a server runs the one call, and returns it.
func holder(t *testing.T, all []*server) (found *server) {
	t.Helper()
	eventually(t, func() error {
		for _, s := range all {
			rep, err := s.requests()
			if err != nil {
				return err
			}
			if len(rep.Requests) > 0 {
				found = s
				return nil
			}
		}
		return errors.New("no server runs the call")
	})
	return found
}

// The headers of a call choose its replica. Other calls are spread.
func TestNginxRoutesByHeader(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	all := replicas(t, 3)
	front := proxy(t, all)
	front.post(t, call(1, "search_text", object{"pattern": "x"})) // a tool that these servers have not
	for i := range 10 {
		if a := front.post(t, echoX(i)); !a.echoes() {
			t.Errorf("echo: %d %s", a.status, a.body)
		}
	}
	a, b, search := all[0].calls(t), all[1].calls(t), all[2].calls(t)
	if a == 0 || b == 0 || a+b != 10 || search != 1 {
		t.Errorf("the replicas have got %v and %v calls, that of search_text %v; want 10 together, and 1", a, b, search)
	}
}

// A legacy session stays on its replica, and ends with it.
func TestNginxKeepsASessionOnItsReplica(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	all := replicas(t, 3)
	front := proxy(t, all)
	echo := echoX(1).inLegacy()
	sessions := map[string]*legacySession{}
	for range 4 {
		s := front.initialize(t)
		name, own, _ := strings.Cut(s.id, ".")
		if own == "" {
			t.Fatalf("the session is called %q", s.id)
		}
		sessions[name] = s
		for range 5 {
			if a := s.send(t, http.MethodPost, s.headers(), echo.frame()); !a.echoes() {
				t.Errorf("session %s: %d %s", s.id, a.status, a.body)
			}
		}
	}
	if len(sessions) != 2 || sessions["a"] == nil || sessions["b"] == nil {
		t.Fatalf("the sessions are on %v, want a and b", sessions)
	}
	for i, s := range all {
		if n := s.metrics(t).sum("vitrine_requests_rejected_total", "reason", "session_unknown"); n != 0 {
			t.Errorf("replica %d was asked %v times for a session of another one", i, n)
		}
		if n, want := s.calls(t), []float64{10, 10, 0}[i]; n != want {
			t.Errorf("replica %d has got %v calls, want %v", i, n, want)
		}
	}
	all[0].signal(t, syscall.SIGTERM)
	all[0].exited(t, 0)
	if a := sessions["a"].send(t, http.MethodPost, sessions["a"].headers(), echo.frame()); a.status != http.StatusNotFound {
		t.Errorf("the replica of the session is away: %d %s, want 404", a.status, a.body)
	}
	if a := sessions["b"].send(t, http.MethodPost, sessions["b"].headers(), echo.frame()); !a.echoes() {
		t.Errorf("the session on the other one: %d %s", a.status, a.body)
	}
	for _, id := range []string{"z.unknown", "unknown", "127.0.0.1:1.unknown"} {
		h := sessions["b"].headers()
		h.Set("Mcp-Session-Id", id)
		if a := front.send(t, http.MethodPost, h, echo.frame()); a.status != http.StatusNotFound {
			t.Errorf("session %s: %d %s, want 404", id, a.status, a.body)
		}
	}
}

// A worker may open as many files as its connections need. Each proxied call has two
// connections, and one more descriptor if its body is in a file.
func TestNginxHasEnoughDescriptors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(nginxDir, "nginx.conf"))
	if err != nil {
		t.Fatal(err)
	}
	number := func(name string) int {
		m := regexp.MustCompile(`(?m)^\s*` + name + ` (\d+);`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("nginx.conf does not set %s", name)
		}
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if files, connections := number("worker_rlimit_nofile"), number("worker_connections"); files < 2*connections {
		t.Errorf("a worker has %d descriptors for %d connections, want twice as many", files, connections)
	}
}

// A modern client brings its answer to any replica, if all have the same keys.
func TestNginxLetsAnyReplicaTakeAnAnswer(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	const rounds = 8 // enough for an answer on the other replica: requests take turns
	key := func(b byte) string { return base64.StdEncoding.EncodeToString(append(bytes.Repeat([]byte{b}, 31), ^b)) }
	for name, keys := range map[string][2]string{
		"one key":             {key(1), key(1)},
		"a key that is newer": {key(1) + "," + key(2), key(2) + "," + key(1)},
		"keys of their own":   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := make([]*server, 3)
			for i := range all {
				all[i] = replicas(t, 1, withEnv("VITRINE_STATE_KEYS="+keys[i%2]))[0]
			}
			front := proxy(t, all)
			ask := func(r request) (a answer, replica int) {
				t.Helper()
				before := all[0].calls(t)
				if a = front.post(t, r); all[0].calls(t) == before {
					replica = 1
				}
				return a, replica
			}
			elsewhere := 0
			for range rounds {
				asked, first := ask(unconfirmed)
				a, second := ask(confirmed(t, asked))
				if first != second {
					elsewhere++
				}
				switch foreign := a.code() == codeInvalidParams && strings.Contains(string(a.Error.Data), `"state_foreign"`); {
				case keys[0] == "" && first != second:
					if !foreign {
						t.Errorf("another replica has no key for the state: %s", a.raw)
					}
				case a.text() != "state-ok: accept, ok: true":
					t.Errorf("the answer to replica %d, asked by %d: %s", second, first, a.raw)
				}
			}
			if elsewhere == 0 {
				t.Errorf("none of %d answers went to another replica", rounds)
			}
		})
	}
}

// A task lives in one replica. With the lines of the README its tool and the requests about tasks
// go to the same replica.
func TestNginxKeepsATaskOnItsReplica(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(nginxDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^"tools/call my_tool" +mcp_tasks;\n~\^tasks/ +mcp_tasks;$`).FindString(string(readme))
	if lines == "" {
		t.Fatal("the README does not say how to route tasks")
	}
	lines = strings.NewReplacer("my_tool", "slow_compute", "mcp_tasks", "mcp_search").Replace(lines)
	all := replicas(t, 3)
	front := proxy(t, all, `"tools/call search_text" mcp_search;`, lines)
	r := computing(1, 0.1)
	for range 3 {
		task := decodeTask(t, front.send(t, http.MethodPost, r.headers(), r.frame()).body).Result.TaskID
		for range 4 {
			get := aboutTask(2, "tasks/get", task)
			headers := get.headers()
			headers.Set("Mcp-Name", task)
			decodeTask(t, front.send(t, http.MethodPost, headers, get.frame()).body)
		}
	}
	if n := all[2].calls(t); n != 3 {
		t.Errorf("the replica for tasks has got %v calls, want 3", n)
	}
}

// A request that a replica has not begun goes to another one. A request that has begun does not.
func TestNginxRepeatsOnlyWhatHasNotBegun(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	t.Parallel()
	all := replicas(t, 3)
	front := proxy(t, all)
	running := front.begin(t, sleeping(1).headers(), sleeping(1).frame())
	s := holder(t, all)
	other := all[0]
	if s == other {
		other = all[1]
	}
	s.kill(t)
	select {
	case a := <-running.answer:
		if a.status != http.StatusBadGateway {
			t.Errorf("the replica of the call has died: %d %s, want 502", a.status, a.body)
		}
	case <-time.After(patience):
		t.Errorf("the replica of the call has died, and nginx has not noticed or goes on")
	}
	if other.calls(t) != 0 {
		t.Error("the call has begun twice")
	}
	eventually(t, func() error { // until nginx has tried the dead one again
		if a := front.post(t, echoX(1)); !a.echoes() {
			t.Fatalf("a replica is away: %d %s", a.status, a.body)
		}
		if !strings.Contains(front.stderr.text(), "Connection refused") {
			return errors.New("nginx has not met the replica that is away")
		}
		return nil
	})
}

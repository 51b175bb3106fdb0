package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// The situations of replicas that share a store, and the ordinary time of two.

// joins has a server share the store at an address. Its time is generous, so that no operation fails because the
// machine is busy.
func joins(addr string) adjust {
	return withArgs("--store", "redis://"+addr, "--store-timeout", "2s")
}

// share starts a Redis server, another replica that uses it, and a proxy in front of it for the server of the
// situation.
func (d *drill) share(t *testing.T) {
	t.Helper()
	d.store = redistest.Start(t, "e2e/runbook")
	d.link = redistest.StartProxy(t, d.store.Addr())
	d.peer = serveHTTP(t, sealed, joins(d.store.Addr()))
}

// loseReplica kills the other replica while it runs n tasks, whose client asks for them at this one.
func loseReplica(t *testing.T, d *drill, n int) {
	if n == 1 {
		return // all series are there from the beginning
	}
	var tasks []string
	for i := range n {
		r := from("batch", computing(i, 300))
		tasks = append(tasks, decodeTask(t, d.peer.send(t, http.MethodPost, r.headers(), r.frame()).body).Result.TaskID)
	}
	d.prom.scraped(t, d.peer)
	d.peer.kill(t)
	for began := time.Now(); d.metrics(t).sum("vitrine_tasks_lost_total") < float64(n); time.Sleep(200 * time.Millisecond) {
		if time.Since(began) > 4*patience {
			t.Fatalf("after %v not all tasks of the replica that was killed are lost", 4*patience)
		}
		for _, id := range tasks {
			d.aboutTask(t, "tasks/get", id)
		}
	}
}

// cutOff breaks the server's connections to the store. Its clients cancel what runs at another replica.
func cutOff(t *testing.T, d *drill, n int) {
	if n == 1 {
		return // all series are there from the beginning
	}
	session := d.initialize(t)
	d.link.Cut()
	for i := range n {
		session.tell(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
	}
	eventually(t, func() error {
		if d.metrics(t).sum("vitrine_store_away_seconds") == 0 {
			return fmt.Errorf("the store is not away")
		}
		return nil
	})
}

// loseEvents empties the store while n streams of events are written, and n tasks run.
func loseEvents(t *testing.T, d *drill, n int) {
	const steps = 50
	before := d.metrics(t).sum("vitrine_tasks_unstored_total")
	redis := redistest.Dial(t, d.store.Addr())
	var calls []*pending
	var sessions []*legacySession
	for i := range n {
		session := d.initialize(t)
		r := call(i, "progress", object{"steps": steps, "ms": 100}).with("progressToken", i).inLegacy()
		sessions, calls = append(sessions, session), append(calls, d.begin(t, session.headers(), r.frame()))
	}
	eventually(t, func() error {
		if stored := redis.Do("KEYS vitrine:events/*"); len(stored) != n {
			return fmt.Errorf("the store has the events of %d streams, want %d", len(stored), n)
		}
		return nil
	})
	for range n {
		d.startTask(t, 3) // as long as the streams take, or less
	}
	redis.Do("FLUSHALL")
	for i, p := range calls {
		a := p.wait(t)
		if !strings.Contains(a.body, fmt.Sprint(steps, " steps done")) {
			t.Errorf("the stream does not go on: %s", a.body)
		}
		sessions[i].cannotResume(t, a.body)
	}
	eventually(t, func() error {
		if lost := d.metrics(t).sum("vitrine_tasks_unstored_total") - before; lost != float64(n) {
			return fmt.Errorf("%v results are lost, want %d", lost, n)
		}
		return nil
	})
}

// fillStore has the store refuse what needs memory, while n streams are written, n calls would become tasks, and clients
// ask for tasks.
func fillStore(t *testing.T, d *drill, n int) {
	task := d.startTask(t, 0)
	eventually(t, func() error {
		if now := d.aboutTask(t, "tasks/get", task); now.Result.Status != "completed" {
			return fmt.Errorf("the task is %s", now.Result.Status)
		}
		return nil
	})
	d.startTask(t, 120) // as long as it runs the replica renews its lease
	refusedLeases := func() float64 {
		return d.metrics(t).sum("vitrine_store_operations_total", "operation", "lease", "outcome", "refused")
	}
	before := refusedLeases()
	redis := redistest.Dial(t, d.store.Addr())
	redis.Do("CONFIG SET maxmemory 1")
	for i := range n {
		for range 2 { // five failures in a row are logged
			session := d.initialize(t)
			if a := session.ask(t, call(i, "progress", object{"steps": 2}).with("progressToken", i)); !strings.Contains(a.body, "2 steps done") {
				t.Errorf("a stream while the store is full: %d %s", a.status, a.body)
			}
			r := from("batch", computing(i, 300))
			if a := d.send(t, http.MethodPost, r.headers(), r.frame()); !strings.Contains(a.body, "the store that has the tasks is full") {
				t.Errorf("a call that would become a task while the store is full: %d %s", a.status, a.body)
			}
			if now := d.aboutTask(t, "tasks/get", task); now.Result.Status != "completed" {
				t.Errorf("a task while the store is full: %+v", now)
			}
		}
	}
	eventually(t, func() error {
		if refusedLeases() == before {
			return errors.New("no renewal of the lease was refused")
		}
		return nil
	})
	if n == 1 {
		redis.Do("CONFIG SET maxmemory 0")
	}
}

var eventID = regexp.MustCompile(`(?m)^id: (\S+)$`)

// cannotResume tries to go on after each event of a stream, in vain.
func (l *legacySession) cannotResume(t *testing.T, stream string) {
	t.Helper()
	ids := eventID.FindAllStringSubmatch(stream, -1)
	if len(ids) == 0 {
		t.Errorf("no event has an id: %s", stream)
	}
	for _, id := range ids {
		h := l.headers()
		h.Set("Last-Event-ID", id[1])
		if a := l.send(t, http.MethodGet, h, ""); a.status != http.StatusBadRequest {
			t.Errorf("GET after %s: %d %s", id[1], a.status, a.body)
		}
	}
}

// shareWork lets two replicas have an ordinary time with one session: what arrives at one concerns what runs at
// the other.
func shareWork(t *testing.T, s, other *server) {
	t.Helper()
	session := other.initialize(t)
	for _, c := range []struct{ runs, told *server }{{s, other}, {other, s}} {
		slow := sleeping("not wanted")
		p := c.runs.begin(t, session.headers(), slow.inLegacy().frame())
		c.runs.awaitRunning(t, "sleep")
		session.at(c.told).tell(t, request{
			method: "notifications/cancelled", legacy: true, params: object{"requestId": slow.id, "reason": "the user has stopped it"},
		}.frame())
		if a := p.wait(t); a.code() != -32800 {
			t.Errorf("cancelled at another replica: %d %s", a.status, a.body)
		}
		stream := session.at(c.runs).ask(t, call("steps", "progress", object{"steps": 3}).with("progressToken", 1))
		ids := eventID.FindAllStringSubmatch(stream.body, -1)
		if len(ids) == 0 {
			t.Fatalf("the stream: %d %s", stream.status, stream.body)
		}
		h := session.headers()
		h.Set("Last-Event-ID", ids[0][1])
		if a := c.told.send(t, http.MethodGet, h, ""); !strings.Contains(a.body, "3 steps done") {
			t.Errorf("the rest of the stream at another replica: %d %s", a.status, a.body)
		}
		id := c.runs.startTask(t, 1)
		eventually(t, func() error {
			if now := c.told.aboutTask(t, "tasks/get", id); now.Result.Status != "completed" {
				return fmt.Errorf("the task is %s", now.Result.Status)
			}
			return nil
		})
	}
	session.close(t)
	m := s.metrics(t)
	for _, outcome := range []string{"sent", "received"} {
		if m.sum("vitrine_signals_total", "outcome", outcome) == 0 {
			t.Errorf("no signal was %s", outcome)
		}
	}
	for _, operation := range []string{"append", "task_update"} {
		if m.sum("vitrine_store_operations_total", "operation", operation, "outcome", "ok") == 0 {
			t.Errorf("no %s of the store has succeeded", operation)
		}
	}
}

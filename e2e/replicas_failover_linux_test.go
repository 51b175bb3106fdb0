package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// The server of the store dies, and its replica takes its place. What it had copied is there: a session that was deleted
// stays so, a stream can be resumed, and a task that runs meanwhile has its result. Then the replicas work as before.
func TestReplicasThroughAFailover(t *testing.T) {
	t.Parallel()
	store := redistest.StartFailover(t, "e2e/redis")
	adjusts := []adjust{sealed, withStoreURL(store.URL())}
	all := replicas(t, 3, adjusts...)
	a, b, c := all[0], all[1], all[2]
	deleted, session := a.initialize(t), a.initialize(t)
	deleted.close(t)
	const steps = 3
	stream := session.ask(t, call(1, "progress", object{"steps": steps}).with("progressToken", 1))
	ids := eventID.FindAllStringSubmatch(stream.body, -1)
	if len(ids) == 0 {
		t.Fatalf("the stream: %d %s", stream.status, stream.body)
	}
	task := b.startTask(t, 3)
	store.AwaitCopy()

	wait := missed(t, all)
	store.Master.Kill()
	wait()
	awaitStore(t, all)
	for _, s := range append(all, replicas(t, 1, adjusts...)...) { // the last one knows what the store says, and no more
		if r := deleted.at(s).ask(t, call(2, "echo", object{"text": "hello"})); r.status != http.StatusNotFound {
			t.Errorf("%s serves a session that was deleted: %d %s", s.mcp, r.status, r.body)
		}
		if r := session.at(s).ask(t, call(2, "echo", object{"text": "hello"})); !strings.Contains(r.body, "hello") {
			t.Errorf("%s does not serve a session: %d %s", s.mcp, r.status, r.body)
		}
	}
	h := session.headers()
	h.Set("Last-Event-ID", ids[0][1])
	if r := c.send(t, http.MethodGet, h, ""); !strings.Contains(r.body, fmt.Sprint(steps, " steps done")) {
		t.Errorf("the rest of the stream: %d %s", r.status, r.body)
	}
	eventually(t, func() error {
		if now := c.aboutTask(t, "tasks/get", task); now.Result.Status != "completed" {
			return fmt.Errorf("the task that ran meanwhile: %+v", now)
		}
		return nil
	})
	shareWork(t, a, b)
}

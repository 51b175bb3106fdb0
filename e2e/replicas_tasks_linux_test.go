package e2e

import (
	"fmt"
	"testing"
	"time"
)

// It does not matter which replica a request about a task reaches, behind a real balancer. A task whose
// replica is killed fails, and those of others go on.
func TestReplicasShareTasks(t *testing.T) {
	t.Parallel()
	all, _ := sharing(t)
	front := proxy(t, all, "~^a\\.   mcp_a;", "", "~^b\\.   mcp_b;", "")

	until := func(t *testing.T, id, status string, within time.Duration) (last taskState) {
		t.Helper()
		for began := time.Now(); time.Since(began) < within; time.Sleep(100 * time.Millisecond) {
			if last = front.aboutTask(t, "tasks/get", id); last.Result.Status == status {
				return last
			}
		}
		t.Fatalf("after %v the task is %s, want %s", within, last.Result.Status, status)
		return last
	}
	t.Run("result", func(t *testing.T) {
		for range 3 {
			until(t, front.startTask(t, 1), "completed", patience)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		id := all[0].startTask(t, 60)
		all[1].aboutTask(t, "tasks/cancel", id)
		until(t, id, "cancelled", patience)
		eventually(t, func() error {
			return atLeastOne(all[0].metrics(t).sum("vitrine_tasks_cancelled_total", "cause", "client_cancel"), "cancelled handlers")
		})
	})
	t.Run("killed", func(t *testing.T) {
		other, id := all[1].startTask(t, 120), all[0].startTask(t, 120)
		all[0].kill(t)
		if last := until(t, id, "failed", time.Minute); last.Result.Error.Data.Reason != "replica_lost" {
			t.Errorf("the task of the killed replica: %+v", last)
		}
		if n := all[1].metrics(t).sum("vitrine_tasks_lost_total") + all[2].metrics(t).sum("vitrine_tasks_lost_total"); n != 1 {
			t.Errorf("%v tasks were lost, want 1", n)
		}
		if now := all[2].aboutTask(t, "tasks/get", other); now.Result.Status != "working" {
			t.Errorf("the task of another replica is %s", now.Result.Status)
		}
		all[2].aboutTask(t, "tasks/cancel", other)
	})
}

func atLeastOne(n float64, what string) error {
	if n < 1 {
		return fmt.Errorf("there are no %s", what)
	}
	return nil
}

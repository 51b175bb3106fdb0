package e2e

import (
	"fmt"
	"syscall"
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

// The task of a restartable tool begins again at another replica if its own one is killed, or stopped for too long.
// That one may not end it any more when it goes on. A replica that shuts down hands it over.
func TestReplicasBeginTasksAgain(t *testing.T) {
	t.Parallel()
	all, _ := sharing(t, withArgs("--drain-timeout", "1s"))
	sum := func(t *testing.T, metric string, at ...*server) (n float64) {
		t.Helper()
		for _, s := range at {
			n += s.metrics(t).sum(metric)
		}
		return n
	}
	// taken waits until another replica runs the task of a replica that is lost.
	taken := func(t *testing.T, id string, want float64, by ...*server) {
		t.Helper()
		eventuallyWithin(t, time.Minute, func() error {
			for _, s := range by {
				if now := s.aboutTask(t, "tasks/get", id); now.Result.Status != "working" {
					t.Fatalf("the task is %s", now.Result.Status)
				}
			}
			if n := sum(t, "vitrine_tasks_taken_over_total", by...); n != want {
				return fmt.Errorf("%v tasks were taken over, want %v", n, want)
			}
			return nil
		})
	}
	completed := func(t *testing.T, id string, at *server) {
		t.Helper()
		eventuallyWithin(t, time.Minute, func() error {
			now := at.aboutTask(t, "tasks/get", id)
			if now.Result.Status != "completed" || len(now.Result.Result.Content) != 1 ||
				now.Result.Result.Content[0].Text != "the result was computed in 10s" {
				return fmt.Errorf("the task is %+v", now.Result)
			}
			return nil
		})
	}
	t.Run("stopped", func(t *testing.T) {
		id := all[0].startTaskOf(t, "restartable_compute", 10)
		all[0].signal(t, syscall.SIGSTOP)
		taken(t, id, 1, all[1], all[2])
		all[0].signal(t, syscall.SIGCONT)
		eventually(t, func() error { return atLeastOne(sum(t, "vitrine_tasks_fenced_total", all[0]), "fenced results") })
		completed(t, id, all[0])
		if n := sum(t, "vitrine_tasks_fenced_total", all...); n != 1 {
			t.Errorf("%v ends were refused, want 1", n)
		}
	})
	t.Run("killed", func(t *testing.T) {
		id := all[0].startTaskOf(t, "restartable_compute", 10)
		all[0].kill(t)
		taken(t, id, 2, all[1], all[2])
		completed(t, id, all[1])
		completed(t, id, all[2])
		if n := sum(t, "vitrine_tasks_lost_total", all[1], all[2]); n != 0 {
			t.Errorf("%v tasks have failed", n)
		}
	})
	t.Run("shut down", func(t *testing.T) {
		id, before := all[1].startTaskOf(t, "restartable_compute", 10), sum(t, "vitrine_tasks_taken_over_total", all[2])
		all[1].signal(t, syscall.SIGTERM)
		all[1].exited(t, 0)
		taken(t, id, before+1, all[2])
		completed(t, id, all[2])
	})
}

func atLeastOne(n float64, what string) error {
	if n < 1 {
		return fmt.Errorf("there are no %s", what)
	}
	return nil
}

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// sharesAll are the settings of servers that share all that replicas can share. The limit has no token again while a
// test runs.
var sharesAll = []adjust{withArgs("--single-use-states"), withEnv("VITRINE_RATE_LIMITS=calls 12/100h tools echo")}

// shareAll checks that three replicas share all that they should: what arrives at the wrong one has its effect at the
// right one.
func shareAll(t *testing.T, all []*server) {
	session := all[0].initializeWith(t, object{"elicitation": object{}})
	for _, s := range all {
		session.at(s).ask(t, call(1, "where", object{}))
	}
	own := session.listens(t)
	defer own.out.drop()

	t.Run("cancel", func(t *testing.T) {
		slow := all[0].begin(t, session.headers(), call(7, "slow_compute", object{"seconds": 60}).inLegacy().frame())
		all[0].awaitRunning(t, "slow_compute")
		session.at(all[1]).tell(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		if a := slow.wait(t); a.Error == nil || a.Error.Code != -32800 {
			t.Errorf("the cancelled call: %s", a.body)
		}
		if n := all[0].metrics(t).sum("vitrine_requests_cancelled_total", "cause", "client_cancel"); n != 1 {
			t.Errorf("%v requests were cancelled by their client, want 1", n)
		}
	})
	t.Run("answer", func(t *testing.T) {
		own.answers(t, session.asks(t, 8), all[1])
	})
	t.Run("own stream", func(t *testing.T) {
		own.answers(t, session.at(all[1]).asks(t, 9), all[2])
	})
	t.Run("changes", func(t *testing.T) {
		session.at(all[1]).ask(t, request{id: 10, method: "resources/subscribe", params: object{"uri": watched}})
		for change, notification := range map[string]string{"resource_update": resourceUpdated, "tool_change": toolsChanged} {
			eventually(t, func() error {
				heard := len(own.out.snapshot())
				all[2].answers(t, call(11, "test_trigger_"+change, object{}))
				for _, line := range own.out.snapshot()[heard:] {
					if strings.Contains(line, notification) {
						return nil
					}
				}
				return fmt.Errorf("no %s", notification)
			})
		}
	})
	t.Run("level", func(t *testing.T) {
		said := func(s *server) bool {
			return strings.Contains(session.at(s).ask(t, call(2, "test_logging_tool", object{})).body, "notifications/message")
		}
		session.at(all[2]).ask(t, request{id: 3, method: "logging/setLevel", params: object{"level": "emergency"}})
		for _, s := range all {
			eventually(t, func() error {
				if said(s) {
					return fmt.Errorf("%s sends messages below the level", s.mcp)
				}
				return nil
			})
		}
	})
	t.Run("stream", func(t *testing.T) {
		const id, had, steps = 12, 3, 10
		c := session.starts(t, id, steps, 50)
		c.readProgress(t, 1, had)
		c.legacySession = session.at(all[1])
		c.resumes(t)
		c.readProgress(t, had+1, steps)
		c.readAnswer(t, id, steps)
	})
	t.Run("work", func(t *testing.T) { shareWork(t, all[1], all[2]) })
	t.Run("tasks", func(t *testing.T) {
		answered := all[0].startConfirmation(t)
		all[1].confirmTask(t, answered)
		all[2].awaitTask(t, answered, "completed")
		cancelled := all[0].startTask(t, 60)
		all[1].aboutTask(t, "tasks/cancel", cancelled)
		all[2].awaitTask(t, cancelled, "cancelled")
		eventually(t, func() error {
			return atLeastOne(all[0].metrics(t).sum("vitrine_tasks_cancelled_total", "cause", "client_cancel"), "cancelled handlers")
		})
	})
	t.Run("state", func(t *testing.T) {
		again := confirmed(t, all[0].post(t, unconfirmed))
		all[1].answers(t, again)
		for _, s := range all {
			if a := s.post(t, again); !strings.Contains(a.body, "state_used") {
				t.Errorf("%s has accepted a state again: %d %s", s.mcp, a.status, a.body)
			}
		}
	})
	t.Run("rate limit", func(t *testing.T) {
		passed := 0
		for _, s := range all {
			passed += s.passes(t, 8)
		}
		if passed != 12 {
			t.Errorf("%d calls pass, want 12", passed)
		}
	})
	t.Run("delete", func(t *testing.T) {
		if a := all[1].send(t, http.MethodDelete, session.headers(), ""); a.status != http.StatusNoContent {
			t.Fatalf("DELETE: %d %s", a.status, a.body)
		}
		for _, s := range all {
			eventually(t, func() error {
				if a := session.at(s).ask(t, call(4, "where", object{})); a.status != http.StatusNotFound {
					return fmt.Errorf("after DELETE at another replica: %d %s", a.status, a.body)
				}
				return nil
			})
		}
	})
}

// startConfirmation starts a task that asks its client, and waits until it does.
func (s *server) startConfirmation(t *testing.T) (id string) {
	t.Helper()
	r := call(1, "confirm_delete", object{"filename": "a.txt"}).with("io.modelcontextprotocol/clientCapabilities", object{
		"elicitation": object{}, "extensions": object{"io.modelcontextprotocol/tasks": object{}},
	})
	id = decodeTask(t, s.post(t, r).body).Result.TaskID
	s.awaitTask(t, id, "input_required")
	return id
}

// confirmTask answers the question of such a task.
func (s *server) confirmTask(t *testing.T, id string) {
	t.Helper()
	r := aboutTask(1, "tasks/update", id)
	r.params["inputResponses"] = object{"confirm": object{"action": "accept", "content": object{"confirm": true}}}
	headers := r.headers()
	headers.Set("Mcp-Name", id)
	if a := s.send(t, http.MethodPost, headers, r.frame()); a.status != http.StatusOK || a.Error != nil {
		t.Fatalf("tasks/update: %d %s", a.status, a.body)
	}
}

// awaitTask waits until a task has a status.
func (s *server) awaitTask(t *testing.T, id, want string) {
	t.Helper()
	eventually(t, func() error {
		if now := s.aboutTask(t, "tasks/get", id).Result.Status; now != want {
			return fmt.Errorf("the task is %s, want %s", now, want)
		}
		return nil
	})
}

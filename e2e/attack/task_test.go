package attack

import (
	"fmt"
	"strings"
	"testing"
)

// A job is a task of so many milliseconds with a result of so many bytes.
func job(ms, bytes int) call {
	return call{tool: "job", arguments: fmt.Sprintf(`{"ms":%d,"bytes":%d}`, ms, bytes), extension: true}
}

// about is a request about a task.
func about(method, task, members string) call {
	params := `"taskId":` + quote(task)
	if members != "" {
		params += "," + members
	}
	return call{method: method, params: params, name: task, extension: true}
}

// detached starts a task and returns its id.
func (c *caller) detached(t *testing.T, what call) string {
	t.Helper()
	r := c.modern(t, 1, what)
	if r.Result == nil || r.Result.TaskID == "" {
		t.Fatalf("no task: %d %s", r.status, r.body)
	}
	return r.Result.TaskID
}

// A task of another principal looks as if there were none, whoever asks and however the id is
// guessed, and it goes on.
func TestTasksOfOthersAreUnknown(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	ann := s.caller(t, attacker, "ann")
	task := ann.detached(t, job(600_000, 1))
	if len(task) < 22 {
		t.Errorf("the id %q can be guessed", task)
	}
	methods := map[string]string{"tasks/get": "", "tasks/cancel": "", "tasks/update": `"inputResponses":{"confirm":{"action":"accept"}}`}
	for _, other := range []*caller{s.caller(t, attacker, "bob"), s.caller(t, attacker, "")} {
		for method, members := range methods {
			unknown := other.modern(t, 1, about(method, strings.Repeat("A", len(task)), members))
			for _, guess := range []string{task, strings.ToLower(task), task[:len(task)-1], task + "A", task + "\x00", "*", "../" + task, ""} {
				r := other.modern(t, 1, about(method, guess, members))
				if r.Result != nil || r.code() != unknown.code() && guess != "" && r.code() != codeHeaderMismatch {
					t.Errorf("%s of %q by %q: %d %s; an unknown task: %s", method, guess, other.name, r.status, r.body, unknown.body)
				}
			}
			stolen := other.modern(t, 1, about(method, task, members))
			if stolen.body != strings.ReplaceAll(unknown.body, strings.Repeat("A", len(task)), task) {
				t.Errorf("%s: a task of another and none differ: %s and %s", method, stolen.body, unknown.body)
			}
		}
	}
	seen := map[string]bool{}
	for range 50 {
		id := ann.detached(t, job(0, 1))
		if seen[id[:8]] {
			t.Fatalf("two ids begin with %s", id[:8])
		}
		seen[id[:8]] = true
	}
	if r := ann.modern(t, 1, about("tasks/get", task, "")); r.Result == nil || r.Result.Status != "working" {
		t.Errorf("the owner's task: %d %s", r.status, r.body)
	}
	if r := ann.modern(t, 1, about("tasks/cancel", task, "")); r.Error != nil {
		t.Errorf("the owner's cancel: %d %s", r.status, r.body)
	}
	undisturbed()
}

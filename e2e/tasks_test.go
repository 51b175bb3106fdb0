package e2e

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"testing"
)

// tasking declares the tasks extension.
func tasking(r request) request {
	return r.with("io.modelcontextprotocol/clientCapabilities", object{"extensions": object{"io.modelcontextprotocol/tasks": object{}}})
}

// computing is a call that goes on as a task.
func computing(id any, seconds float64) request { return computingWith("slow_compute", id, seconds) }

// computingWith is computing with another tool.
func computingWith(tool string, id any, seconds float64) request {
	return tasking(call(id, tool, object{"seconds": seconds}))
}

// aboutTask is a request about a task.
func aboutTask(id any, method, task string) request {
	return tasking(request{id: id, method: method, params: object{"taskId": task}})
}

// taskOf has the members of a message or an answer about a task.
type taskOf struct {
	Result struct {
		ResultType, TaskID, Status string
	}
}

func decodeTask(t *testing.T, text string) taskOf {
	t.Helper()
	var m taskOf
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Result.TaskID == "" {
		t.Fatalf("no task: %s (%v)", text, err)
	}
	return m
}

// A taskState is the answer to tasks/get.
type taskState struct {
	Result struct {
		Status string
		Error  struct {
			Data struct{ Reason string }
		}
		Result struct{ Content []struct{ Text string } }
	}
}

// aboutTask sends a request about a task.
func (s *server) aboutTask(t *testing.T, method, task string) (state taskState) {
	t.Helper()
	r := aboutTask(2, method, task)
	headers := r.headers()
	headers.Set("Mcp-Name", task)
	a := s.send(t, http.MethodPost, headers, r.frame())
	if err := json.Unmarshal([]byte(a.body), &state); err != nil || a.status != http.StatusOK || a.Error != nil {
		t.Fatalf("%s: %d %s (%v)", method, a.status, a.body, err)
	}
	return state
}

// startTask calls a tool for some seconds as a task.
func (s *server) startTask(t *testing.T, seconds float64) (id string) {
	t.Helper()
	return s.startTaskOf(t, "slow_compute", seconds)
}

// startTaskOf is startTask with another tool.
func (s *server) startTaskOf(t *testing.T, tool string, seconds float64) (id string) {
	t.Helper()
	r := computingWith(tool, 1, seconds)
	return decodeTask(t, s.send(t, http.MethodPost, r.headers(), r.frame()).body).Result.TaskID
}

// linksTo reports whether a span links another one.
func (s span) linksTo(other span) bool {
	for _, l := range s.GetLinks() {
		if hex.EncodeToString(l.GetTraceId()) == other.traceID() && string(l.GetSpanId()) == string(other.GetSpanId()) {
			return true
		}
	}
	return false
}

// A call that goes on after its answer has a span of its own, and is visible while it runs.
func TestTaskHasItsOwnSpan(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	s := serveHTTP(t, otlp.env())
	r := traced(computing(1, 3))
	task := decodeTask(t, s.send(t, "POST", r.headers(), r.frame()).body)
	if task.Result.ResultType != "task" || task.Result.Status != "working" {
		t.Errorf("the answer to the call: %+v", task)
	}
	if n := s.metrics(t).sum("vitrine_tasks", "status", "working"); n != 1 {
		t.Errorf("%v tasks are working", n)
	}
	var report struct {
		Tasks []struct {
			Task, Tool string
			TraceID    string `json:"trace_id"`
		}
	}
	text, _, err := s.get("/debug/requests", "application/json")
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil || len(report.Tasks) != 1 || report.Tasks[0].Tool != "slow_compute" || report.Tasks[0].TraceID != metaTrace {
		t.Errorf("in flight: %+v (%v)", report, err)
	}
	eventually(t, func() error {
		get := aboutTask(2, "tasks/get", task.Result.TaskID)
		headers := get.headers()
		headers.Set("Mcp-Name", task.Result.TaskID)
		a := s.send(t, http.MethodPost, headers, get.frame())
		if now := decodeTask(t, a.body); now.Result.Status != "completed" {
			return fmt.Errorf("the task is %s", now.Result.Status)
		}
		return nil
	})

	call, work, get := otlp.awaitSpan(t, "tools/call slow_compute"), otlp.awaitSpan(t, "vitrine.task slow_compute"), otlp.awaitSpan(t, "tasks/get")
	if work.traceID() != metaTrace || work.parentID() != hex.EncodeToString(call.GetSpanId()) || !work.linksTo(call) {
		t.Errorf("the span of the task: trace %s, parent %s, links %v", work.traceID(), work.parentID(), work.GetLinks())
	}
	checkAttributes(t, work.attributes(), map[string]any{
		"gen_ai.tool.name": "slow_compute", "vitrine.task.id": task.Result.TaskID[:8], "vitrine.task.status": "completed",
	})
	if !get.linksTo(call) {
		t.Errorf("tasks/get does not link the call: %v", get.GetLinks())
	}
	if work.GetEndTimeUnixNano() <= call.GetEndTimeUnixNano() {
		t.Error("the task has ended before its call")
	}
}

// A drain waits for tasks.
func TestDrainWaitsForTasks(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	s := serveHTTP(t, otlp.env())
	r := computing(1, 1)
	decodeTask(t, s.send(t, "POST", r.headers(), r.frame()).body)
	s.signal(t, syscall.SIGTERM)
	s.exited(t, 0)
	attrs := otlp.awaitSpan(t, "vitrine.task slow_compute").attributes()
	if attrs["vitrine.task.status"] != "completed" || attrs["vitrine.cancel.cause"] != nil {
		t.Errorf("the span of the task: %v", attrs)
	}
}

// A client that closes standard input waits for the process, and can no longer ask for a task.
func TestEndOfInputEndsTasks(t *testing.T) {
	t.Parallel()
	otlp := receive(t)
	p := connect(serveStdio(t, otlp.env(), withArgs("--drain-timeout=1h")))
	task := decodeTask(t, p.ask(t, computing(1, 600)).raw)
	if now := decodeTask(t, p.ask(t, aboutTask(2, "tasks/get", task.Result.TaskID)).raw); now.Result.Status != "working" {
		t.Errorf("the task: %+v", now)
	}
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	p.exited(t, 0)
	attrs := otlp.awaitSpan(t, "vitrine.task slow_compute").attributes()
	if attrs["vitrine.task.status"] != "failed" || attrs["vitrine.cancel.cause"] != "server_shutdown" || attrs["error.type"] != "server_shutdown" {
		t.Errorf("the span of the task: %v", attrs)
	}
	for _, line := range p.stderr.snapshot() {
		if isRecord("handlers.abandoned")(line) {
			t.Error(line)
		}
	}
}

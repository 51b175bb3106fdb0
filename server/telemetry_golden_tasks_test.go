package server_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A worker speaks to a server about the task of one tool.
type worker struct {
	line
	job *job
	id  string
}

const taskCaps = withTasks + `,"elicitation":{"form":{}}`

func (w *worker) about(method, more string) string {
	w.t.Helper()
	return w.ask(withCaps(2, method, taskCaps, fmt.Sprintf(`"taskId":%q%s`, w.id, more)))
}

// work starts a task and returns when its handler runs.
func (s *stage) work(stubborn bool, o server.TaskOptions) *worker {
	jobs := addJob(s.srv, "work", stubborn, o)
	w := s.create("work")
	w.job = <-jobs
	return w
}

func (s *stage) create(tool string) *worker {
	w := &worker{line: s.pipe()}
	created := w.ask(withCaps(1, "tools/call", taskCaps, call(tool, `{}`)))
	found := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(created)
	require.NotNil(s.t, found, created)
	w.id = found[1]
	return w
}

// taskScenes are the calls that go on as tasks.
func taskScenes() []scene {
	tasks := []server.Option{server.WithTasks(server.Tasks{})}
	return []scene{{
		title: "task", about: "A call becomes a task, which is asked for while it runs and afterwards: tasks/get links the call.",
		options: tasks,
		play: func(s *stage) {
			w := s.work(false, server.TaskOptions{})
			require.Contains(s.t, w.about("tasks/get", ""), `"working"`)
			time.Sleep(time.Minute)
			w.job.finish("done")
			require.Contains(s.t, w.about("tasks/get", ""), `"completed"`)
		},
	}, {
		title: "task, asked and answered", about: "A task that asks its client: tasks/update is linked as well.", options: tasks,
		play: func(s *stage) {
			addSurvey(s.srv)
			w := s.create("survey")
			require.Contains(s.t, w.about("tasks/get", ""), `"input_required"`)
			w.about("tasks/update", `,"inputResponses":{"name":{"action":"accept","content":{"name":"Ada"}},`+
				`"town":{"action":"accept","content":{"town":"Bern"}}}`)
			require.Contains(s.t, w.about("tasks/get", ""), "Ada of Bern")
		},
	}, {
		title: "task, cancelled", about: "The client cancels: its own doing, and no error.", options: tasks,
		play: func(s *stage) {
			w := s.work(false, server.TaskOptions{})
			w.about("tasks/cancel", "")
			require.Contains(s.t, w.about("tasks/get", ""), `"cancelled"`)
		},
	}, {
		title: "task, failed", about: "The handler returns a JSON-RPC error.", options: tasks,
		play: func(s *stage) {
			w := s.work(false, server.TaskOptions{})
			w.job.release <- func() (string, error) { return "", mcp.NewError(4711, "out of money") }
			require.Contains(s.t, w.about("tasks/get", ""), "out of money")
		},
	}, {
		title: "task, tool error", about: "The handler reports an error to the model: the task is completed, and its span an error.",
		options: tasks,
		play: func(s *stage) {
			w := s.work(false, server.TaskOptions{})
			w.job.release <- func() (string, error) { return "", errors.New("the city is not known") }
			require.Contains(s.t, w.about("tasks/get", ""), "isError")
		},
	}, {
		title: "task, panic", about: "The handler panics.", options: tasks,
		play: func(s *stage) {
			w := s.work(false, server.TaskOptions{})
			w.job.release <- func() (string, error) { panic("out of cheese") }
			require.Contains(s.t, w.about("tasks/get", ""), `"failed"`)
		},
	}, {
		title: "task, result that cannot be encoded", about: "The client sees an internal error, and the span of the task which one.",
		options: tasks,
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "odd", Task: server.TaskOptional},
				func(ctx context.Context, c *server.Call, _ none) (*mcp.CallToolResult, error) {
					_, err := c.Detach(ctx, server.TaskOptions{})
					return &mcp.CallToolResult{ResultMeta: mcp.ResultMeta{Meta: mcp.Meta{"x": func() {}}}}, err
				})
			w := s.create("odd")
			require.Contains(s.t, w.about("tasks/get", ""), `"failed"`)
		},
	}, {
		title: "task, deadline", about: "Its life ends before its work.", options: tasks,
		play: func(s *stage) {
			s.work(false, server.TaskOptions{TTL: time.Minute})
			time.Sleep(2 * time.Minute)
		},
	}, {
		title: "task, server_shutdown", about: "The drain does not wait for it any longer.", options: tasks,
		play: func(s *stage) {
			s.work(false, server.TaskOptions{})
			s.shutdown(3 * time.Second)
		},
	}, {
		title: "task, abandoned", about: "It is cancelled, and its handler does not return.", options: tasks,
		play: func(s *stage) {
			w := s.work(true, server.TaskOptions{})
			w.about("tasks/cancel", "")
			time.Sleep(15 * time.Second)
			w.job.finish("too late")
			synctest.Wait()
		},
	}, {
		title: "task, abandoned by the drain", about: "Its handler does not return in the shutdown either. The span ends all the same.",
		options: tasks,
		play: func(s *stage) {
			w := s.work(true, server.TaskOptions{})
			s.shutdown(3 * time.Second)
			time.Sleep(5 * time.Second)
			w.job.finish("too late")
			synctest.Wait()
		},
	}, {
		title: "task, late error", about: "It fails after its client has cancelled it: nobody is told of the error.", options: tasks,
		play: func(s *stage) {
			w := s.work(true, server.TaskOptions{})
			w.about("tasks/cancel", "")
			w.job.release <- func() (string, error) { return "", mcp.NewError(4711, "out of money") }
			require.Contains(s.t, w.about("tasks/get", ""), `"cancelled"`)
		},
	}, {
		title: "task, too many", about: "A limit of tasks: the call is refused.", options: tasks, limits: server.Limits{MaxRunningTasks: 1},
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "more", Task: server.TaskOptional},
				func(ctx context.Context, c *server.Call, _ none) (string, error) {
					_, err := c.Detach(ctx, server.TaskOptions{})
					return "", err
				})
			w := s.work(false, server.TaskOptions{})
			require.Contains(s.t, w.ask(withCaps(2, "tools/call", taskCaps, call("more", `{}`))), "max_running_tasks")
			w.job.finish("done")
		},
	}, {
		title: "task, unknown", about: "tasks/get of what is not there.", options: tasks,
		play: func(s *stage) {
			w := &worker{line: s.pipe(), id: strings.Repeat("A", 26)}
			require.Contains(s.t, w.about("tasks/get", ""), "-32602")
		},
	}}
}

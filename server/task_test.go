package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// textForm asks for one text.
func textForm(name string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: "Your " + name + "?", RequestedSchema: jsontext.Value(
		fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string"}},"required":[%q]}`, name, name))}
}

// accept is the answer to a form of one field.
func accept(name string, value any) map[string]any {
	return map[string]any{"action": "accept", "content": map[string]any{name: value}}
}

func field(r *mcp.ElicitResult) string { return string(r.Content) }

// addSurvey adds a tool that asks two questions at the same time, as a task.
func addSurvey(srv *server.Server) { addSurveyAs(srv, server.Tool{}) }

// addSurveyAs is addSurvey with what else describes the tool.
func addSurveyAs(srv *server.Server, tool server.Tool) {
	tool.Name, tool.Task = "survey", server.TaskOptional
	server.AddTool(srv, tool,
		func(ctx context.Context, c *server.Call, _ none) (string, error) {
			if _, err := c.Detach(ctx, server.TaskOptions{}); err != nil {
				return "", err
			}
			var answers [2]string
			var errs [2]error
			var wg sync.WaitGroup
			for i, name := range []string{"name", "town"} {
				wg.Go(func() {
					r, err := c.Elicit(name, textForm(name))
					if errs[i] = err; err == nil {
						var value jsontext.Value = r.Content
						answers[i] = string(value[len(`{"name":"`) : len(value)-len(`"}`)])
					}
				})
			}
			wg.Wait()
			for _, err := range errs {
				if err != nil {
					return "", err
				}
			}
			return answers[0] + " of " + answers[1], nil
		})
}

func TestTaskQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t)
		addSurvey(srv)
		client := connectTasks(t, srv)
		task, err := client.StartTask(t.Context(), "survey", nil)
		require.NoError(t, err)
		require.Equal(t, mcp.TaskWorking, task.Created.Status)
		get := func() *servertest.TaskState {
			t.Helper()
			state, err := task.Get(t.Context())
			require.NoError(t, err)
			return state
		}
		keys := func() (all []string) {
			for key, q := range get().Questions {
				require.Equal(t, mcp.MethodElicitationCreate, q.Method)
				all = append(all, key)
			}
			return all
		}
		synctest.Wait()
		require.Equal(t, mcp.TaskInputRequired, get().Status)
		require.ElementsMatch(t, []string{"name", "town"}, keys())

		// What answers nothing is acknowledged and ignored.
		require.NoError(t, task.Answer(t.Context(), map[string]any{"unknown": map[string]any{"ignored": true}}))
		require.ElementsMatch(t, []string{"name", "town"}, keys())
		// What is malformed leaves the question open.
		for _, bad := range []any{12345, nil, "accept", map[string]any{}, map[string]any{"action": "maybe"}, accept("name", 5), accept("other", "x")} {
			require.NoError(t, task.Answer(t.Context(), map[string]any{"name": bad}))
			require.ElementsMatch(t, []string{"name", "town"}, keys(), "%v", bad)
		}
		require.Contains(t, get().StatusMessage, `the answer to "name" is not valid`)
		// Partial answers are fine, and the status does not flicker.
		require.NoError(t, task.Answer(t.Context(), map[string]any{"town": accept("town", "Bern"), "name": 5}))
		require.Equal(t, mcp.TaskInputRequired, get().Status)
		require.Equal(t, []string{"name"}, keys())
		require.Contains(t, get().StatusMessage, `the answer to "name" is not valid`)
		require.NoError(t, task.Answer(t.Context(), map[string]any{"town": accept("town", "Rome")}), "answered already")
		require.NoError(t, task.Answer(t.Context(), map[string]any{"name": accept("name", "Ada")}))
		state := get()
		require.Empty(t, state.Questions)
		require.NotEqual(t, mcp.TaskInputRequired, state.Status)
		require.Empty(t, state.StatusMessage, "the answer is valid now")
		result, err := task.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Ada of Bern", result.Text())

		for _, bad := range []any{nil, []int{1}, 5} {
			_, err := client.Call(t.Context(), "tasks/update", map[string]any{"taskId": task.Created.TaskID, "inputResponses": bad})
			require.Equal(t, mcp.NewError(mcp.CodeInvalidParams, "params.inputResponses must be an object"), err)
		}
		_, err = client.Call(t.Context(), "tasks/update", map[string]any{"taskId": task.Created.TaskID, "INPUTRESPONSES": map[string]any{}})
		require.Equal(t, mcp.NewError(mcp.CodeInvalidParams, "params.inputResponses must be an object"), err, "names are case-sensitive")
	})
}

// Each question of a task has a new key, also if the handler uses one key several times.
func TestTaskKeysAreNeverReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t)
		server.AddTool(srv, server.Tool{Name: "ask", Task: server.TaskOptional},
			func(ctx context.Context, c *server.Call, _ none) (text string, err error) {
				if _, err := c.Detach(ctx, server.TaskOptions{}); err != nil {
					return "", err
				}
				for _, key := range []string{"a", "a", "a-2", "a-2", "a"} {
					r, err := c.Elicit(key, textForm("name"))
					if err != nil {
						return "", err
					}
					text += field(r)
				}
				return text, nil
			})
		var keys []string
		client := connectTasks(t, srv, servertest.OnInput(func(_ context.Context, q servertest.Question) (any, error) {
			keys = append(keys, q.Key)
			return accept("name", q.Key), nil
		}))
		result, err := client.CallTool(t.Context(), "ask", nil)
		require.NoError(t, err)
		seen := map[string]bool{}
		for _, key := range keys {
			require.False(t, seen[key], keys)
			seen[key] = true
		}
		require.Len(t, keys, 5)
		require.Equal(t, "a", keys[0])
		want := ""
		for _, key := range keys {
			want += fmt.Sprintf(`{"name":%q}`, key)
		}
		require.Equal(t, want, result.Text(), "each gets its own answer")
	})
}

// A handler asks in rounds first and detaches then.
func TestTaskAfterRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t)
		runs := make(chan string, 10)
		server.AddTool(srv, server.Tool{Name: "greet", Task: server.TaskRequired},
			func(ctx context.Context, c *server.Call, _ none) (string, error) {
				name, err := c.Elicit("name", textForm("name"))
				if err != nil {
					runs <- "asked"
					return "", err
				}
				if _, err := c.Detach(ctx, server.TaskOptions{}); err != nil {
					return "", err
				}
				runs <- "detached"
				town, err := c.Elicit("name", textForm("town"))
				if err != nil {
					return "", err
				}
				return field(name) + field(town), nil
			})
		p := dial(t, srv)
		const caps = withTasks + `,"elicitation":{}`
		answer := p.ask(withCaps(1, "tools/call", caps, call("greet", `{}`)))
		require.Contains(t, answer, `"resultType":"input_required"`)
		require.NotContains(t, answer, "taskId")
		require.Equal(t, "asked", <-runs)
		var first struct{ Result roundsResult }
		require.NoError(t, json.Unmarshal([]byte(answer), &first))
		answer = p.ask(withCaps(2, "tools/call", caps, retry(call("greet", `{}`), first.Result.RequestState, "name", `{"action":"accept","content":{"name":"Ada"}}`)))
		require.Contains(t, answer, `"resultType":"task"`)
		for _, absent := range []string{"requestState", "inputRequests", `"result":{"result"`} {
			require.NotContains(t, answer, absent)
		}
		require.Equal(t, "detached", <-runs)

		asked := 0
		client := connectTasks(t, srv, servertest.OnInput(func(_ context.Context, q servertest.Question) (any, error) {
			asked++
			return accept([]string{"", "name", "town"}[asked], fmt.Sprint(asked)), nil
		}))
		result, err := client.CallTool(t.Context(), "greet", nil)
		require.NoError(t, err)
		require.Equal(t, `{"name":"1"}{"town":"2"}`, result.Text(), "in rounds and in a task alike")

		// A state that was tampered with is no way to a task.
		require.Contains(t, p.ask(withCaps(3, "tools/call", caps, call("greet", `{}`)+`,"requestState":"x","inputResponses":{}`)), `"code":-32602`)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = srv.Shutdown(ctx)
	})
}

// Input that is not accepted is answered with the error, also if the handler goes on.
func TestDetachIgnoredFault(t *testing.T) {
	srv := newTaskServer(t)
	server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional},
		func(ctx context.Context, c *server.Call, _ none) (string, error) {
			_, _ = c.Elicit("name", textForm("name"))
			if _, err := c.Detach(ctx, server.TaskOptions{}); err == nil {
				return "", nil
			}
			return "went on", nil
		})
	p := dial(t, srv)
	require.Contains(t, p.ask(withCaps(1, "tools/call", withTasks+`,"elicitation":{}`, call("work", `{}`)+`,"requestState":"forged"`)), `"code":-32602`)
	require.NoError(t, srv.Shutdown(t.Context()))
}

// The end of a task ends its open questions.
func TestTaskEndsWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		srv := newTaskServer(t, server.WithLogger(slog.New(logs)))
		errs := make(chan error, 1)
		server.AddTool(srv, server.Tool{Name: "ask", Task: server.TaskOptional},
			func(ctx context.Context, c *server.Call, _ none) (string, error) {
				ctx, err := c.Detach(ctx, server.TaskOptions{})
				if err != nil {
					return "", err
				}
				_, err = c.Elicit("name", textForm("name"))
				_, again := c.Elicit("more", textForm("name"))
				require.Equal(t, context.Cause(ctx), again, "and nothing more can be asked")
				errs <- err
				return "", err
			})
		client := connectTasks(t, srv)
		for name, tt := range map[string]struct {
			end    func(task *servertest.Task)
			cause  error
			status mcp.TaskStatus
		}{
			"cancel": {func(task *servertest.Task) { require.NoError(t, task.Cancel(t.Context())) }, mcp.ErrClientCancelled, mcp.TaskCancelled},
			"life":   {func(*servertest.Task) {}, mcp.ErrDeadline, mcp.TaskFailed},
		} {
			task, err := client.StartTask(t.Context(), "ask", nil)
			require.NoError(t, err)
			_, err = task.Await(t.Context(), mcp.TaskInputRequired)
			require.NoError(t, err)
			tt.end(task)
			require.ErrorIs(t, <-errs, tt.cause, name)
			state, err := task.Await(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.status, state.Status, name)
			require.Empty(t, state.Questions, name)
		}
		require.Empty(t, logs.find("handler.error"))
	})
}

// A check that panics leaves the question open, and nothing else happens.
func TestTaskCheckPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		srv := newTaskServer(t, server.WithLogger(slog.New(logs)))
		server.AddTool(srv, server.Tool{Name: "ask", Task: server.TaskOptional},
			func(ctx context.Context, c *server.Call, _ none) (string, error) {
				if _, err := c.Detach(ctx, server.TaskOptions{}); err != nil {
					return "", err
				}
				form, _, err := server.ElicitForm[touchy](c, "name", "Your name?")
				return string(form.Name), err
			})
		task, err := connectTasks(t, srv).StartTask(t.Context(), "ask", nil)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, task.Answer(t.Context(), map[string]any{"name": accept("name", "Eve")}))
		state, err := task.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.TaskInputRequired, state.Status)
		require.Contains(t, state.StatusMessage, "it could not be checked")
		require.Len(t, logs.find("handler.panic"), 1)
		require.NoError(t, task.Answer(t.Context(), map[string]any{"name": accept("name", "Ada")}))
		result, err := task.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Ada", result.Text())
	})
}

// touchy is a form whose decoding panics for some.
type touchy struct {
	Name touchyName `json:"name"`
}

type touchyName string

func (n *touchyName) UnmarshalText(text []byte) error {
	if string(text) == "Eve" {
		panic("not her")
	}
	*n = touchyName(text)
	return nil
}

func (n touchyName) MarshalText() ([]byte, error) { return []byte(n), nil }

// A client is not asked what it has not declared. The number of open questions is bounded.
func TestTaskQuestionsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t, server.WithLimits(server.Limits{MaxOutbound: 1}))
		errs := make(chan error, 3)
		server.AddTool(srv, server.Tool{Name: "ask", Task: server.TaskOptional},
			func(ctx context.Context, c *server.Call, _ none) (string, error) {
				ctx, err := c.Detach(ctx, server.TaskOptions{})
				if err != nil {
					return "", err
				}
				_, err = c.Roots("roots")
				errs <- err
				for range 2 {
					go func() { _, err := c.Elicit("name", textForm("name")); errs <- err }()
				}
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
		task, err := connectTasks(t, srv).StartTask(t.Context(), "ask", nil)
		require.NoError(t, err)
		require.ErrorIs(t, <-errs, mcp.ErrNotDeclared)
		rpc, _ := mcp.AsError(<-errs)
		require.NotNil(t, rpc)
		require.Equal(t, mcp.ErrorData{Reason: "overload", Limit: "max_outbound"}, rpc.Data)
		require.NoError(t, task.Cancel(t.Context()))
		require.ErrorIs(t, <-errs, mcp.ErrClientCancelled)
	})
}

// Subscribers of a task get with each change what tasks/get would return.
func TestTaskNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t)
		addSurvey(srv)
		jobs := addJob(srv, "work", false, server.TaskOptions{})
		client, other := connectTasks(t, srv), servertest.Connect(t, srv)
		task, err := client.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		id := task.Created.TaskID
		j := <-jobs

		_, err = other.Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{id}})
		rpc, _ := mcp.AsError(err)
		require.NotNil(t, rpc)
		require.Equal(t, mcp.CodeMissingRequiredCapability, rpc.Code)

		sub, err := client.Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{id, "nobody"}})
		require.NoError(t, err)
		require.Equal(t, []string{id}, sub.Filter().TaskIDs)
		next := func() *servertest.TaskState {
			t.Helper()
			change, err := sub.Next(t.Context())
			require.NoError(t, err)
			require.Equal(t, mcp.NotificationTasks, change.Method)
			state, err := change.TaskChange()
			require.NoError(t, err)
			now, err := task.Get(t.Context())
			require.NoError(t, err)
			require.Equal(t, now.Task, state.Task)
			require.True(t, strings.HasPrefix(string(change.Params), `{"taskId"`), "it is no result")
			return state
		}
		require.NoError(t, j.call.Progress(1, 2, "half"))
		require.Equal(t, "half", next().StatusMessage)
		j.finish("done")
		state := next()
		require.Equal(t, mcp.TaskCompleted, state.Status)
		require.Equal(t, "done", state.Result.Text())

		task, err = client.StartTask(t.Context(), "survey", nil)
		require.NoError(t, err)
		synctest.Wait()
		sub, err = client.Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{task.Created.TaskID}})
		require.NoError(t, err)
		require.NoError(t, task.Answer(t.Context(), map[string]any{"name": accept("name", "Ada")}))
		state = next()
		require.Equal(t, mcp.TaskInputRequired, state.Status)
		require.Len(t, state.Questions, 1)
		require.NoError(t, task.Cancel(t.Context()))
		require.Equal(t, mcp.TaskCancelled, next().Status)
	})
}

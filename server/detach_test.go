package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// withTasks is what clients of the tasks extension declare.
const withTasks = `"extensions":{"io.modelcontextprotocol/tasks":{}}`

// newTaskServer returns a server with tasks, whose clients ask ten times a second.
func newTaskServer(t *testing.T, opts ...server.Option) *server.Server {
	t.Helper()
	return newServer(t, append([]server.Option{server.WithTasks(server.Tasks{PollInterval: 100 * time.Millisecond})}, opts...)...)
}

// connectTasks connects a client that declares tasks, and that it can ask its user.
func connectTasks(t *testing.T, srv *server.Server, opts ...servertest.Option) *servertest.Client {
	t.Helper()
	return servertest.Connect(t, srv, append([]servertest.Option{
		servertest.Capabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}),
		servertest.Extension(mcp.ExtensionTasks, nil),
	}, opts...)...)
}

// A job is a task's handler that a test holds in its hand.
type job struct {
	given   context.Context // of the handler before Detach
	ctx     context.Context // and after it
	call    *server.Call
	detach  error
	release chan func() (string, error)
}

// addJob adds a tool whose calls become tasks and wait for the test. Stubborn ones
// ignore their context.
func addJob(srv *server.Server, name string, stubborn bool, o server.TaskOptions) <-chan *job {
	return addJobAs(srv, server.Tool{Name: name}, stubborn, o)
}

// addJobAs is addJob with what else describes the tool.
func addJobAs(srv *server.Server, tool server.Tool, stubborn bool, o server.TaskOptions) <-chan *job {
	jobs := make(chan *job, 100)
	tool.Task = server.TaskOptional
	server.AddTool(srv, tool,
		func(ctx context.Context, c *server.Call, _ none) (string, error) {
			j := &job{given: ctx, call: c, release: make(chan func() (string, error), 1)}
			j.ctx, j.detach = c.Detach(ctx, o)
			jobs <- j
			done := j.ctx.Done()
			if stubborn {
				done = nil
			}
			select {
			case f := <-j.release:
				return f()
			case <-done:
				return "", context.Cause(j.ctx)
			}
		})
	return jobs
}

func (j *job) finish(text string) { j.release <- func() (string, error) { return text, nil } }

const timeForm = `"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z)"`

// The bytes of a task, from its creation to its end.
func TestTaskOnTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t)
		jobs := addJob(srv, "work", false, server.TaskOptions{TTL: time.Minute, PollInterval: 2 * time.Second, Message: "at it"})
		p := dial(t, srv)
		ask := func(method, params string) string { return p.ask(withCaps(1, method, withTasks, params)) }
		require.Contains(t, ask("server/discover", ""), `"extensions":{"io.modelcontextprotocol/tasks":{}}`)

		created := ask("tools/call", call("work", `{}`)+`,"task":{"ttl":5}`)
		form := regexp.MustCompile(`^{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","_meta":{"io.modelcontextprotocol/serverInfo":` +
			`{"name":"test","version":"1"}},"taskId":"([A-Z2-7]{26})","status":"working","statusMessage":"at it","createdAt":` + timeForm +
			`,"lastUpdatedAt":` + timeForm + `,"ttlMs":60000,"pollIntervalMs":2000}}$`)
		require.Regexp(t, form, created)
		id := form.FindStringSubmatch(created)[1]
		j := <-jobs
		require.NoError(t, j.detach)

		get := func() string { return ask("tasks/get", `"taskId":"`+id+`"`) }
		require.Equal(t, strings.Replace(created, `"resultType":"task"`, `"resultType":"complete"`, 1), get(), "at once")
		time.Sleep(time.Second)
		j.finish("done")
		synctest.Wait()
		got := get()
		require.Contains(t, got, `"resultType":"complete"`)
		require.Contains(t, got, `"status":"completed","createdAt"`)
		require.Contains(t, got, `"result":{"resultType":"complete",`)
		require.Contains(t, got, `"content":[{"type":"text","text":"done"}]`)
		require.NotContains(t, got, "at it", "what is said last is not true any more")
		require.NotContains(t, got, "error")
		require.JSONEq(t, result(1, serverMeta), ask("tasks/cancel", `"taskId":"`+id+`"`))
		require.JSONEq(t, result(1, serverMeta), ask("tasks/update", `"taskId":"`+id+`","inputResponses":{"k":{}}`))
		require.Equal(t, got, get(), "terminal is final")
		p.silent()
	})
}

// Without the extension on both sides the call stays a call.
func TestDetachWithoutTasks(t *testing.T) {
	type ctxKey struct{}
	for name, opts := range map[string][]server.Option{"on": {server.WithTasks(server.Tasks{})}, "off": nil} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t, opts...)
			server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional},
				func(ctx context.Context, c *server.Call, _ none) (string, error) {
					mine := context.WithValue(ctx, ctxKey{}, 1)
					got, err := c.Detach(mine, server.TaskOptions{})
					return fmt.Sprint(got == mine, err), nil
				})
			p := dial(t, srv)
			require.Contains(t, p.ask(modern(1, "tools/call", call("work", `{}`))), `"text":"true <nil>"`)
			p.initializeWith(withTasks)
			require.Contains(t, p.ask(legacy(1, "tools/call", call("work", `{}`))), `"text":"true <nil>"`, "there are no tasks in the legacy era")
			if name == "off" {
				require.Contains(t, p.ask(withCaps(1, "tools/call", withTasks, call("work", `{}`))), `"text":"true <nil>"`)
			}
		})
	}
}

func TestTaskRequired(t *testing.T) {
	srv := newTaskServer(t, deny(func(_ *auth.Principal, op *auth.Operation) bool { return op.Name == "hidden" }))
	called := make(chan string, 1)
	for _, name := range []string{"work", "hidden"} {
		server.AddTool(srv, server.Tool{Name: name, Task: server.TaskRequired},
			func(ctx context.Context, c *server.Call, _ none) (string, error) {
				_, err := c.Detach(ctx, server.TaskOptions{})
				called <- "called"
				return "", err
			})
	}
	const required = `"error":{"code":-32021,"message":"the client must declare the extension io.modelcontextprotocol/tasks",` +
		`"data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}`
	p := dial(t, srv)
	require.Contains(t, p.ask(modern(1, "tools/call", call("work", `{}`))), required)
	require.Contains(t, p.ask(modern(1, "tools/call", call("hidden", `{}`))), `there is no tool`, "its existence is not told either")
	p.initializeWith(withTasks)
	require.Contains(t, p.ask(legacy(1, "tools/call", call("work", `{}`))), `"code":-32601`)
	require.Empty(t, called, "the handler never runs")
	require.Contains(t, p.ask(withCaps(1, "tools/call", withTasks, call("work", `{}`))), `"resultType":"task"`)
	<-called

	without := newServer(t)
	err := server.TryAddTool(without, server.Tool{Name: "work", Task: server.TaskRequired}, text(""))
	require.ErrorContains(t, err, `tool "work" requires tasks`)
	require.NoError(t, srv.Shutdown(t.Context()))
}

func TestTaskMethodsNeedTheExtension(t *testing.T) {
	srv := newTaskServer(t)
	url := listen(t, srv)
	post := func(method, capabilities, params string, headers ...string) (int, string) {
		res, got := exchange(t, "POST", url, withCaps(1, method, capabilities, params),
			append([]string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + method, "Mcp-Name: nobody"}, headers...)...)
		return res.StatusCode, got
	}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		status, got := post(method, "", `"taskId":"nobody","inputResponses":{}`)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, got, `"code":-32021`, "before the task is looked for")
		status, got = post(method, withTasks, `"taskId":"nobody","inputResponses":{}`)
		require.Equal(t, http.StatusBadRequest, status)
		require.JSONEq(t, failure(1, -32602, "there is no such task"), got)
		_, got = post(method, withTasks, `"taskId":"nobody"`, "Mcp-Name: somebody")
		require.Contains(t, got, `"code":-32020`)
		_, got = post(method, withTasks, `"taskId":5`)
		require.JSONEq(t, failure(1, -32602, "params.taskId is missing"), got)
	}
	for _, method := range []string{"tasks/list", "tasks/result"} {
		status, got := post(method, withTasks, `"taskId":"nobody"`)
		require.Equal(t, http.StatusNotFound, status)
		require.Contains(t, got, `"code":-32601`)
	}
	p := dial(t, srv)
	p.initializeWith(withTasks)
	require.Contains(t, p.ask(legacy(1, "tasks/get", `"taskId":"nobody"`)), `"code":-32601`)
	require.Contains(t, dial(t, newServer(t)).ask(withCaps(1, "tasks/get", withTasks, `"taskId":"nobody"`)), `"code":-32601`, "off by default")
}

// The outcome of the handler is the end of the task.
func TestTaskEnds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		end    func() (string, error)
		status mcp.TaskStatus
		code   mcp.Code
		text   string
		log    string
	}{
		{"result", func() (string, error) { return "fine", nil }, mcp.TaskCompleted, 0, "fine", ""},
		{"tool error", func() (string, error) { return "", mcp.ToolErrorf("no fuel") }, mcp.TaskCompleted, 0, "no fuel", ""},
		{"protocol error", func() (string, error) { return "", fmt.Errorf("wrapped: %w", mcp.NewError(7, "mine")) }, mcp.TaskFailed, 7, "mine", ""},
		{"not found", func() (string, error) { return "", server.ErrResourceNotFound }, mcp.TaskFailed, -32602, "resource", ""},
		{"panic", func() (string, error) { panic("secret") }, mcp.TaskFailed, -32603, "internal error", "handler.panic"},
		{"goexit", func() (string, error) { runtime.Goexit(); return "", nil }, mcp.TaskFailed, -32603, "internal error", "handler.panic"},
		{"not declared", func() (string, error) {
			return "", &mcp.NotDeclaredError{Missing: mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}}
		}, mcp.TaskFailed, -32021, "roots", ""},
		{"input required", func() (string, error) { return "", mcp.ErrInputRequired }, mcp.TaskFailed, -32603, "internal error", "handler.error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs := &logRecorder{}
				srv := newTaskServer(t, server.WithLogger(slog.New(logs)))
				jobs := addJob(srv, "work", false, server.TaskOptions{})
				task, err := connectTasks(t, srv).StartTask(t.Context(), "work", nil)
				require.NoError(t, err)
				(<-jobs).release <- tt.end
				state, err := task.Await(t.Context())
				require.NoError(t, err)
				require.Equal(t, tt.status, state.Status)
				if tt.code == 0 {
					require.Nil(t, state.Error)
					require.Equal(t, tt.text, state.Result.Text())
					require.Equal(t, tt.name == "tool error", state.Result.IsError)
				} else {
					require.Nil(t, state.Result)
					require.Equal(t, tt.code, state.Error.Code)
					require.Contains(t, state.Error.Message, tt.text)
					require.Contains(t, state.StatusMessage, tt.text)
				}
				if tt.log != "" {
					require.Len(t, logs.find(tt.log), 1)
					if tt.name == "panic" {
						require.Contains(t, logs.find(tt.log)[0].attrs["stack"], "detach_test.go", "the stack is the handler's")
						require.Equal(t, "secret", logs.find(tt.log)[0].attrs["panic"])
						require.Equal(t, task.Created.TaskID[:8], logs.find(tt.log)[0].attrs["task"], "and not the whole id")
					}
				}
				require.NoError(t, srv.Shutdown(t.Context()))
			})
		})
	}
}

// A bomb encodes to nothing good.
type bomb struct{ exit bool }

func (b bomb) MarshalJSON() ([]byte, error) {
	if b.exit {
		runtime.Goexit()
	}
	panic("secret")
}

// The result of a task is encoded on a goroutine without a request. A panic of its marshaler is
// recovered.
func TestTaskResultPanicsWhenEncoded(t *testing.T) {
	for name, end := range map[string]func() (*mcp.CallToolResult, error){
		"panic":    func() (*mcp.CallToolResult, error) { return &mcp.CallToolResult{StructuredContent: bomb{}}, nil },
		"goexit":   func() (*mcp.CallToolResult, error) { return &mcp.CallToolResult{StructuredContent: bomb{true}}, nil },
		"data":     func() (*mcp.CallToolResult, error) { return nil, mcp.NewError(7, "mine").WithData(bomb{}) },
		"encoding": func() (*mcp.CallToolResult, error) { return &mcp.CallToolResult{StructuredContent: func() {}}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs := &logRecorder{}
				srv := newTaskServer(t, server.WithLogger(slog.New(logs)))
				server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional},
					func(ctx context.Context, c *server.Call, _ none) (*mcp.CallToolResult, error) {
						if _, err := c.Detach(ctx, server.TaskOptions{}); err != nil {
							return nil, err
						}
						return end()
					})
				_, err := connectTasks(t, srv).CallTool(t.Context(), "work", nil)
				require.Equal(t, mcp.NewError(mcp.CodeInternalError, "internal error"), err)
				if name == "encoding" {
					require.Len(t, logs.find("handler.error"), 1)
				} else {
					require.Len(t, logs.find("handler.panic"), 1)
				}
			})
		})
	}
}

// A handler that fails before it detaches fails its call, as in a plain tool.
func TestTaskToolFailsBeforeDetach(t *testing.T) {
	logs := &logRecorder{}
	srv := newTaskServer(t, server.WithLogger(slog.New(logs)))
	add := func(name string, end func() (string, error)) {
		server.AddTool(srv, server.Tool{Name: name, Task: server.TaskOptional},
			func(context.Context, *server.Call, none) (string, error) { return end() })
	}
	add("result", func() (string, error) { return "quick", nil })
	add("error", func() (string, error) { return "", errors.New("no fuel") })
	add("rpc", func() (string, error) { return "", mcp.NewError(7, "mine") })
	add("panic", func() (string, error) { panic("secret") })
	add("goexit", func() (string, error) { runtime.Goexit(); return "", nil })
	p := dial(t, srv)
	for tool, want := range map[string]string{
		"result": `"text":"quick"`, "error": `"isError":true`, "rpc": `"code":7`,
		"panic": `"code":-32603,"message":"internal error"`, "goexit": `"code":-32603,"message":"internal error"`,
	} {
		require.Contains(t, p.ask(withCaps(1, "tools/call", withTasks, call(tool, `{}`))), want, tool)
	}
	panics := logs.find("handler.panic")
	require.Len(t, panics, 2)
	for _, rec := range panics {
		require.Contains(t, rec.attrs["stack"], "TestTaskToolFailsBeforeDetach", "the stack is the handler's")
	}
}

func TestDetachMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		srv := newTaskServer(t, server.WithLogger(slog.New(logs)))
		server.AddTool(srv, server.Tool{Name: "plain"}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
			got, err := c.Detach(ctx, server.TaskOptions{})
			require.Equal(t, ctx, got)
			return "", err
		})
		kept := make(chan *server.Call, 1)
		server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional},
			func(ctx context.Context, c *server.Call, _ none) (string, error) {
				for _, bad := range []server.TaskOptions{{TTL: -1}, {PollInterval: -1}} {
					got, err := c.Detach(ctx, bad)
					require.ErrorContains(t, err, "may be negative")
					require.Equal(t, ctx, got)
				}
				_, err := c.Detach(ctx, server.TaskOptions{})
				require.NoError(t, err)
				_, err = c.Detach(ctx, server.TaskOptions{})
				require.ErrorContains(t, err, "a task already")
				return "done", nil
			})
		server.AddTool(srv, server.Tool{Name: "late", Task: server.TaskOptional},
			func(_ context.Context, c *server.Call, _ none) (string, error) { kept <- c; return "done", nil })
		client := connectTasks(t, srv)
		result, err := client.CallTool(t.Context(), "plain", nil)
		require.NoError(t, err)
		require.Equal(t, "the tool failed", result.Text())
		require.Contains(t, logs.find("handler.error")[0].attrs["error"], "Detach needs a tool with Tool.Task set")
		result, err = client.CallTool(t.Context(), "work", nil)
		require.NoError(t, err)
		require.Equal(t, "done", result.Text())
		_, err = client.CallTool(t.Context(), "late", nil)
		require.NoError(t, err)
		_, err = (<-kept).Detach(t.Context(), server.TaskOptions{})
		require.ErrorIs(t, err, mcp.ErrRequestDone)
		_, err = client.StartTask(t.Context(), "late", nil)
		require.ErrorIs(t, err, servertest.ErrNoTask)
	})
}

// The handler's context has the values of the call, but not its end and its deadline.
func TestTaskContext(t *testing.T) {
	type ctxKey struct{}
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t, server.WithLimits(server.Limits{RequestTimeout: time.Second}),
			server.WithMiddleware(func(next middleware.Handler) middleware.Handler {
				return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
					ctx, cancel := context.WithTimeout(context.WithValue(ctx, ctxKey{}, "tenant"), time.Millisecond)
					defer cancel()
					return next(ctx, req)
				}
			}))
		jobs := addJob(srv, "work", false, server.TaskOptions{TTL: time.Minute})
		task, err := connectTasks(t, srv).StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		j := <-jobs
		time.Sleep(30 * time.Second)
		require.NoError(t, j.ctx.Err())
		require.Equal(t, "tenant", j.ctx.Value(ctxKey{}))
		deadline, _ := j.ctx.Deadline()
		require.Equal(t, 30*time.Second, time.Until(deadline))
		require.ErrorIs(t, j.call.Notify("x/y", nil), mcp.ErrRequestDone, "the call itself is over")
		j.finish("done")
		result, err := task.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "done", result.Text())
		require.ErrorIs(t, context.Cause(j.ctx), mcp.ErrRequestDone, "for goroutines that are left behind")
	})
}

// A task whose client has cancelled the call before it got the answer is cancelled.
func TestOrphanedTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		srv := newTaskServer(t, server.WithMiddleware(func(next middleware.Handler) middleware.Handler {
			return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
				result, err := next(ctx, req)
				if req.Route.Target == "work" {
					<-hold
				}
				return result, err
			}
		}))
		jobs := addJob(srv, "work", false, server.TaskOptions{})
		p := dial(t, srv)
		p.send(withCaps(1, "tools/call", withTasks, call("work", `{}`)))
		j := <-jobs
		synctest.Wait()
		require.NoError(t, j.ctx.Err())
		p.send(cancelled(1))
		<-j.ctx.Done()
		require.ErrorIs(t, context.Cause(j.ctx), mcp.ErrClientCancelled)
		close(hold)
		p.silent()
	})
}

// A cancelled call cannot become a task.
func TestDetachAfterCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t)
		errs := make(chan error, 1)
		server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional},
			func(ctx context.Context, c *server.Call, _ none) (string, error) {
				<-ctx.Done()
				_, err := c.Detach(ctx, server.TaskOptions{})
				_, again := c.Detach(context.WithoutCancel(ctx), server.TaskOptions{})
				errs <- errors.Join(err, again)
				return "", err
			})
		p := dial(t, srv)
		p.send(withCaps(1, "tools/call", withTasks, call("work", `{}`)))
		synctest.Wait()
		p.send(cancelled(1))
		err := <-errs
		require.ErrorIs(t, err, mcp.ErrClientCancelled)
		require.ErrorIs(t, err, mcp.ErrRequestDone)
		p.silent()
	})
}

package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

func TestHooks(t *testing.T) {
	j := &journal{}
	hook := func(name string, err error) func(context.Context) error {
		return func(context.Context) error { j.add(name); return err }
	}
	first, second := errors.New("first"), errors.New("second")
	srv := newServer(t)
	srv.AddHook("one", hook("start 1", nil), hook("stop 1", first))
	srv.AddHook("two", hook("start 2", nil), func(context.Context) error { j.add("stop 2"); panic("ouch") })
	srv.AddHook("three", nil, hook("stop 3", second))
	srv.AddHook("four", hook("start 4", nil), nil)

	require.NoError(t, srv.Start(t.Context()))
	require.Equal(t, []string{"start 1", "start 2", "start 4"}, j.take())
	err := srv.Shutdown(t.Context())
	require.Equal(t, []string{"stop 3", "stop 2", "stop 1"}, j.take(), "in reverse, and all of them")
	require.ErrorIs(t, err, first)
	require.ErrorIs(t, err, second)
	require.EqualError(t, err, "server: stop hook \"three\": second\nserver: stop hook \"two\": it panicked: ouch\nserver: stop hook \"one\": first")
	require.NoError(t, srv.Shutdown(t.Context()))
	require.Empty(t, j.take(), "once")
}

func TestStartStopsAtTheFirstError(t *testing.T) {
	for name, hook := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return errors.New("no database") },
		"panic": func(context.Context) error { panic("no database") },
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.AddHook("database", hook, func(context.Context) error { t.Error("stopped"); return nil })
			srv.AddHook("queue", func(context.Context) error { t.Error("called"); return nil },
				func(context.Context) error { t.Error("stopped"); return nil })
			err := srv.Start(t.Context())
			require.ErrorContains(t, err, `start hook "database": `)
			require.ErrorContains(t, err, "no database")
			require.NoError(t, srv.Shutdown(t.Context()), "what was not started is not stopped")
		})
	}
}

func TestReady(t *testing.T) {
	srv := newServer(t)
	require.NoError(t, srv.Ready(t.Context()))
	var down error
	srv.AddReadiness("db", func(context.Context) error { return down })
	srv.AddReadiness("queue", func(ctx context.Context) error { return ctx.Err() })
	require.NoError(t, srv.Ready(t.Context()))
	down = errors.New("connection refused")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := srv.Ready(ctx)
	require.ErrorIs(t, err, down)
	require.EqualError(t, err, "db: connection refused\nqueue: context canceled", "all of them, by name")
	srv.AddReadiness("bad", func(context.Context) error { panic("ouch") })
	require.ErrorContains(t, srv.Ready(t.Context()), "bad: it panicked: ouch")
	require.NoError(t, srv.Shutdown(t.Context()))
	require.ErrorIs(t, srv.Ready(t.Context()), server.ErrDraining)
}

// Running calls finish, queued and new ones are rejected at once, and then the connection is
// closed.
func TestShutdownDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		srv := newServer(t, server.WithLimits(server.Limits{MaxInFlightTotal: 1}))
		srv.AddHook("cache", nil, func(context.Context) error { j.add("stop hook"); return nil })
		server.AddTool(srv, server.Tool{Name: "work"}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
			time.Sleep(time.Second)
			j.add(fmt.Sprint("worked ", c.Progress(1, 0, ""), ctx.Err()))
			return "done", nil
		})
		p := dial(t, srv)
		p.send(modern("running", "tools/call", call("work", `{}`), `"progressToken":1`))
		synctest.Wait()
		p.send(modern("queued", "tools/call", call("work", `{}`)))
		synctest.Wait()

		begin := time.Now()
		result := make(chan error, 2)
		for range 2 { // a second Shutdown waits for the first
			go func() { result <- srv.Shutdown(context.Background()) }()
		}
		refused := func(id, extra string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"the server is shutting down","data":{"reason":"shutting_down"` + extra + `}}}`
		}
		require.JSONEq(t, refused(`"queued"`, `,"phase":"queued"`), p.recv())
		require.ErrorIs(t, srv.Ready(t.Context()), server.ErrDraining)
		require.JSONEq(t, refused(`"new"`, ""), p.ask(modern("new", "tools/list", "")))
		require.Zero(t, time.Since(begin))
		require.Contains(t, p.recv(), "notifications/progress", "progress goes on while draining")
		require.Contains(t, p.recv(), `"id":"running","result"`)
		require.NoError(t, <-result)
		require.NoError(t, <-result)
		require.Equal(t, time.Second, time.Since(begin))
		require.Equal(t, []string{"worked <nil> <nil>", "stop hook"}, j.take())
		_, open := <-p.lines
		require.False(t, open, "the server has hung up")
		require.NoError(t, p.hangUp())

		late := dial(t, srv)
		_, open = <-late.lines
		require.False(t, open, "a new connection is not served")
	})
}

// At the deadline of the drain the calls are cancelled and answered.
func TestShutdownDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		causes := make(chan error, 1)
		server.AddTool(srv, server.Tool{Name: "polite"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "just in time", nil
		})
		release := make(chan struct{})
		defer close(release)
		server.AddTool(srv, server.Tool{Name: "stubborn"},
			func(context.Context, *server.Call, none) (string, error) { <-release; return "late", nil })
		p := dial(t, srv)
		p.send(modern(1, "tools/call", call("polite", `{}`)), modern(2, "tools/call", call("stubborn", `{}`)))
		synctest.Wait()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		err := srv.Shutdown(ctx)
		require.Equal(t, 3*time.Second+srv.Limits().CleanupGrace, time.Since(begin))
		require.ErrorIs(t, err, session.ErrAbandoned)
		require.ErrorContains(t, err, "tools/call stubborn (id 2")
		require.NotContains(t, err.Error(), "polite")
		require.ErrorIs(t, <-causes, mcp.ErrServerShutdown)
		require.Contains(t, p.recv(), "just in time")
		require.JSONEq(t, `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"the request was cancelled: server_shutdown",
			"data":{"reason":"server_shutdown"}}}`, p.recv())
	})
}

// Close ends the wait of Shutdown.
func TestCloseDuringShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		causes := addWait(srv, "wait")
		p := dial(t, srv)
		p.send(modern(1, "tools/call", call("wait", `{}`)))
		synctest.Wait()
		done := make(chan error, 1)
		go func() { done <- srv.Shutdown(context.Background()) }()
		synctest.Wait()
		require.Empty(t, causes)
		begin := time.Now()
		srv.Close()
		srv.Close()
		<-done
		require.ErrorIs(t, <-causes, mcp.ErrServerShutdown)
		require.LessOrEqual(t, time.Since(begin), 2*srv.Limits().CleanupGrace)
	})
}

// A handler may call Shutdown. It does not wait for itself.
func TestShutdownFromAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		done := make(chan error, 1)
		server.AddTool(srv, server.Tool{Name: "quit"}, func(context.Context, *server.Call, none) (string, error) {
			go func() { done <- srv.Shutdown(context.Background()) }()
			return "bye", nil
		})
		require.Contains(t, dial(t, srv).ask(modern(1, "tools/call", call("quit", `{}`))), "bye")
		require.NoError(t, <-done)
	})
}

// A call that was taken becomes a task also while its server drains, which waits for it, if its client can ask for it elsewhere.
func TestDetachWhileDraining(t *testing.T) {
	for name, store := range map[string]*sharedStore{"tasks in a store": newSharedStore(), "tasks in memory": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tasks server.Tasks
				if store != nil {
					tasks.Store = store
				}
				srv, hold := newServer(t, server.WithTasks(tasks)), make(chan struct{})
				server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional},
					func(ctx context.Context, c *server.Call, _ none) (string, error) {
						<-hold
						_, err := c.Detach(ctx, server.TaskOptions{})
						<-hold
						return "done", err
					})
				client, done := connectTasks(t, srv), make(chan error, 1)
				time.AfterFunc(time.Second, func() { done <- srv.Shutdown(context.Background()) })
				time.AfterFunc(2*time.Second, func() { hold <- struct{}{} })
				if store == nil {
					time.AfterFunc(3*time.Second, func() { hold <- struct{}{} })
				}
				task, err := client.StartTask(t.Context(), "work", nil)
				if store == nil {
					rpc, _ := mcp.AsError(err)
					require.Equal(t, "the server is shutting down", rpc.Message)
					require.NoError(t, <-done)
					return
				}
				require.NoError(t, err)
				require.Equal(t, mcp.TaskWorking, store.status(task.Created.TaskID))
				hold <- struct{}{}
				require.NoError(t, <-done)
				require.Equal(t, mcp.TaskCompleted, store.status(task.Created.TaskID))
			})
		})
	}
}

// The end of the context of ServePipe ends its connection, and no other.
func TestServePipeContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		causes := addWait(srv, "wait")
		ctx, cancel := context.WithCancel(t.Context())
		p, other := dialContext(t, ctx, srv), dial(t, srv)
		p.send(modern(1, "tools/call", call("wait", `{}`)))
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-causes, mcp.ErrServerShutdown)
		require.Contains(t, p.recv(), `"late"`, "an answer that is returned at once is still sent")
		_, open := <-p.lines
		require.False(t, open)
		require.NoError(t, p.hangUp())
		require.Contains(t, other.ask(modern(1, "tools/list", "")), `"result"`)
	})
}

// Two servers share a process and its telemetry, and nothing else.
func TestTwoServersOneTelemetry(t *testing.T) {
	tel, err := telemetry.New()
	require.NoError(t, err)
	defer func() { require.NoError(t, tel.Shutdown(context.Background())) }()
	servers := map[string]*server.Server{}
	for _, name := range []string{"one", "two"} {
		srv := newServer(t, server.WithTelemetry(tel))
		require.Same(t, tel, srv.Telemetry())
		server.AddTool(srv, server.Tool{Name: "same"}, text(name))
		server.AddTool(srv, server.Tool{Name: "only-" + name}, text(name))
		servers[name] = srv
	}
	var wg sync.WaitGroup
	for name, srv := range servers {
		client := servertest.Connect(t, srv)
		wg.Go(func() {
			for range 50 {
				result, err := client.CallTool(t.Context(), "same", nil)
				if err != nil || result.Text() != name {
					t.Errorf("%s: %v %v", name, result, err)
				}
			}
		})
	}
	wg.Wait()
	client := servertest.Connect(t, servers["two"])
	require.NoError(t, servers["one"].Shutdown(t.Context()))
	result, err := client.CallTool(t.Context(), "only-two", nil)
	require.NoError(t, err)
	require.Equal(t, "two", result.Text())
	require.NoError(t, servers["two"].Ready(t.Context()))
}

package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

var errNoSuchTask = mcp.NewError(mcp.CodeInvalidParams, "there is no such task")

func TestTaskCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t)
		jobs, deaf := addJob(srv, "work", false, server.TaskOptions{}), addJob(srv, "deaf", true, server.TaskOptions{})
		client := connectTasks(t, srv)
		task, err := client.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		j := <-jobs
		require.NoError(t, task.Cancel(t.Context()))
		<-j.ctx.Done()
		require.ErrorIs(t, context.Cause(j.ctx), mcp.ErrClientCancelled)
		require.ErrorIs(t, j.call.Progress(1, 2, "on and on"), mcp.ErrClientCancelled)
		state, err := task.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.TaskCancelled, state.Status)
		require.Equal(t, "cancelled by the client", state.StatusMessage)
		require.NoError(t, task.Cancel(t.Context()), "idempotent")
		_, err = task.Result(t.Context())
		require.ErrorIs(t, err, servertest.ErrTaskCancelled)

		// The end is decided at once, whatever the handler makes of it.
		late, err := client.StartTask(t.Context(), "deaf", nil)
		require.NoError(t, err)
		j = <-deaf
		require.NoError(t, late.Cancel(t.Context()))
		j.finish("all the same")
		synctest.Wait()
		state, err = late.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.TaskCancelled, state.Status)
		require.Nil(t, state.Result)
		require.ErrorIs(t, j.call.Progress(1, 2, ""), mcp.ErrClientCancelled)
	})
}

// notifications/cancelled does not cancel a task, because its request is over.
func TestTaskIgnoresNotificationCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t)
		jobs := addJob(srv, "work", false, server.TaskOptions{})
		p := dial(t, srv)
		p.ask(withCaps(1, "tools/call", withTasks, call("work", `{}`)))
		p.send(cancelled(1))
		p.silent()
		j := <-jobs
		require.NoError(t, j.ctx.Err())
		require.NoError(t, p.hangUp())
		require.NoError(t, j.ctx.Err(), "nor does the end of the connection")
		j.finish("done")
		synctest.Wait()
	})
}

// The first end of a task counts: that of the handler, of the client or of the TTL.
func TestTaskEndsOnce(t *testing.T) {
	srv := newTaskServer(t)
	jobs := addJob(srv, "work", false, server.TaskOptions{TTL: 40 * time.Millisecond})
	client := connectTasks(t, srv)
	seen := map[mcp.TaskStatus]int{}
	for range 300 {
		task, err := client.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		j := <-jobs
		var wg sync.WaitGroup
		wg.Go(func() { j.finish("done") })
		wg.Go(func() {
			if err := task.Cancel(t.Context()); err != nil {
				t.Error(err)
			}
		})
		states := make(chan *servertest.TaskState, 100)
		for range 2 {
			wg.Go(func() {
				for range 10 {
					state, err := task.Get(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					states <- state
				}
			})
		}
		wg.Wait()
		end, err := task.Await(t.Context())
		require.NoError(t, err)
		seen[end.Status]++
		close(states)
		for state := range states {
			if state.Status.Terminal() {
				require.Equal(t, end, state, "terminal is final")
			}
		}
		require.Equal(t, end.Status == mcp.TaskCompleted, end.Result != nil)
	}
	require.NotContains(t, seen, mcp.TaskWorking)
	t.Log(seen)
	require.NoError(t, srv.Shutdown(t.Context()))
}

// A task that still runs at the end of its TTL is cancelled. Its end can be read for the grace;
// then there is no such task.
func TestTaskDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t, server.WithLimits(server.Limits{TaskTTL: time.Hour, MaxTaskTTL: 2 * time.Hour, TaskGrace: time.Minute}))
		for name, tt := range map[string]struct {
			ttl, want time.Duration
			limit     string
		}{
			"own":  {time.Minute, time.Minute, ""},
			"none": {0, time.Hour, "task_ttl"},
			"long": {24 * time.Hour, 2 * time.Hour, "max_task_ttl"},
			"tiny": {1, time.Millisecond, ""},
		} {
			jobs := addJob(srv, name, false, server.TaskOptions{TTL: tt.ttl})
			client := connectTasks(t, srv)
			task, err := client.StartTask(t.Context(), name, nil)
			require.NoError(t, err)
			begin := time.Now()
			require.Equal(t, tt.want.Milliseconds(), *task.Created.TTL)
			j := <-jobs
			<-j.ctx.Done()
			require.Equal(t, tt.want, time.Since(begin))
			require.ErrorIs(t, context.Cause(j.ctx), mcp.ErrDeadline)
			require.ErrorIs(t, j.ctx.Err(), context.DeadlineExceeded)
			state, err := task.Get(t.Context())
			require.NoError(t, err)
			require.Equal(t, mcp.TaskFailed, state.Status)
			require.Equal(t, mcp.CodeInternalError, state.Error.Code)
			data := map[string]any{"reason": "deadline"}
			if tt.limit != "" {
				data["limit"] = tt.limit
			}
			require.Equal(t, data, state.Error.Data)

			time.Sleep(time.Minute - time.Nanosecond)
			_, err = task.Get(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Nanosecond)
			_, err = task.Get(t.Context())
			require.Equal(t, errNoSuchTask, err)
			require.Equal(t, errNoSuchTask, task.Cancel(t.Context()))
			require.Equal(t, errNoSuchTask, task.Answer(t.Context(), map[string]any{}))
		}
	})
}

// A result can be read until the TTL is over, and at least for the grace.
func TestTaskResultIsReadableForTTLAndGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t, server.WithLimits(server.Limits{TaskGrace: time.Minute}))
		jobs := addJob(srv, "work", false, server.TaskOptions{TTL: time.Hour})
		client := connectTasks(t, srv)
		for at, until := range map[time.Duration]time.Duration{
			time.Second:      time.Hour,
			59 * time.Minute: time.Hour,
			time.Hour - 1:    time.Hour + time.Minute - 1,
		} {
			task, err := client.StartTask(t.Context(), "work", nil)
			require.NoError(t, err)
			begin := time.Now()
			j := <-jobs
			time.Sleep(at)
			j.finish("done")
			synctest.Wait()
			time.Sleep(until - time.Since(begin) - time.Millisecond)
			_, err = task.Get(t.Context())
			require.NoError(t, err, at)
			time.Sleep(time.Millisecond)
			_, err = task.Get(t.Context())
			require.Equal(t, errNoSuchTask, err, at)
		}
	})
}

func TestTaskPrincipal(t *testing.T) {
	srv := newTaskServer(t, byContext)
	jobs := addJob(srv, "work", false, server.TaskOptions{})
	connect := func(name string) *servertest.Client { return connectTasks(t, srv, servertest.Context(as(name))) }
	task, err := connect("ada").StartTask(t.Context(), "work", nil)
	require.NoError(t, err)
	j := <-jobs
	eve := connect("eve")
	stolen, unknown := eve.Task(task.Created), eve.Task(mcp.Task{TaskID: "nobody"})
	for _, try := range []func(*servertest.Task) error{
		func(t *servertest.Task) error { _, err := t.Get(context.Background()); return err },
		func(t *servertest.Task) error { return t.Cancel(context.Background()) },
		func(t *servertest.Task) error { return t.Answer(context.Background(), map[string]any{"k": 1}) },
	} {
		require.Equal(t, errNoSuchTask, try(stolen))
		require.Equal(t, try(unknown), try(stolen), "nobody learns which")
	}
	sub, err := eve.Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{task.Created.TaskID, "nobody"}})
	require.NoError(t, err)
	require.Empty(t, sub.Filter().TaskIDs)
	require.NoError(t, j.ctx.Err())
	_, err = connect("ada").Task(task.Created).Get(t.Context())
	require.NoError(t, err, "from another connection, but by the same principal")
	j.finish("done")
	require.NoError(t, srv.Shutdown(t.Context()))
}

// Progress becomes the message of the task, at most once a second, and the last one counts.
func TestTaskProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t)
		jobs := addJob(srv, "work", false, server.TaskOptions{Message: "begun"})
		var notified []string
		client := connectTasks(t, srv, servertest.OnProgress(func(servertest.Progress) { t.Error("there is no progress for tasks") }),
			servertest.OnNotification(func(method string, _ jsontext.Value) { notified = append(notified, method) }))
		task, err := client.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		j := <-jobs
		message := func() string {
			synctest.Wait()
			state, err := task.Get(t.Context())
			require.NoError(t, err)
			return state.StatusMessage
		}
		require.Equal(t, "begun", message())
		require.NoError(t, j.call.Progress(1, 4, "one"))
		require.Equal(t, "one", message(), "at once")
		for _, m := range []string{"two", "three", ""} {
			require.NoError(t, j.call.Progress(2, 4, m))
			require.NoError(t, j.call.Log(mcp.LogError, m), "is for the server's own log")
		}
		require.Equal(t, "one", message())
		time.Sleep(time.Second)
		require.Equal(t, "three", message())
		time.Sleep(time.Hour - time.Minute)
		require.NoError(t, j.call.Progress(3, 4, "four"))
		require.Equal(t, "four", message())
		require.NoError(t, j.call.Progress(3, 4, "five"))
		j.finish("done")
		synctest.Wait()
		time.Sleep(time.Second)
		require.Empty(t, message(), "the end is the end")
		require.Empty(t, notified)
	})
}

// A drain waits for tasks as for requests.
func TestTasksDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		store := newSharedStore()
		srv := newServer(t, server.WithLogger(slog.New(logs)), server.WithTasks(server.Tasks{Store: store}))
		jobs, deaf := addJob(srv, "work", false, server.TaskOptions{}), addJob(srv, "deaf", true, server.TaskOptions{})
		client := connectTasks(t, srv)
		ids := map[string]string{}
		start := func(name, tool string, jobs <-chan *job) *job {
			task, err := client.StartTask(t.Context(), tool, nil)
			require.NoError(t, err)
			ids[name] = task.Created.TaskID
			return <-jobs
		}
		quick, polite, stubborn := start("quick", "work", jobs), start("polite", "work", jobs), start("stubborn", "deaf", deaf)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		closed := make(chan mcp.TaskStatus, 1)
		srv.AddHook("store", nil, func(context.Context) error { closed <- store.status(ids["stubborn"]); return nil })
		done := make(chan error, 1)
		go func() { done <- srv.Shutdown(ctx) }()
		time.Sleep(time.Second)
		require.NoError(t, quick.ctx.Err())
		quick.finish("in time")
		<-polite.ctx.Done()
		require.ErrorIs(t, context.Cause(polite.ctx), mcp.ErrServerShutdown)
		err := <-done
		require.ErrorIs(t, err, server.ErrAbandoned)
		require.ErrorContains(t, err, "tools/call deaf (task "+ids["stubborn"][:8])
		require.NotContains(t, err.Error(), "work")
		require.Equal(t, mcp.TaskCompleted, store.status(ids["quick"]))
		require.Equal(t, mcp.TaskFailed, store.status(ids["polite"]))
		require.Equal(t, `{"code":-32603,"message":"the task was cancelled: server_shutdown","data":{"reason":"server_shutdown"}}`, store.failure(ids["polite"]))
		require.Equal(t, mcp.TaskFailed, <-closed, "others need not wait for what was left behind, and the store is still there")
		require.Len(t, logs.find("handlers.abandoned"), 1)
		stubborn.finish("late")
		synctest.Wait()
		require.Len(t, logs.find("handler.returned"), 1)
		require.Equal(t, mcp.TaskFailed, store.status(ids["stubborn"]), "and stays so")
	})
}

func TestTaskLimits(t *testing.T) {
	for _, tt := range []struct {
		limit  string
		limits server.Limits
	}{
		{"max_tasks", server.Limits{MaxTasks: 2}},
		{"max_tasks_per_principal", server.Limits{MaxTasksPerPrincipal: 2}},
		{"max_task_bytes", server.Limits{MaxTaskBytes: 2000}},
		{"max_running_tasks", server.Limits{MaxRunningTasks: 2}},
	} {
		t.Run(tt.limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tel, err := telemetry.New()
				require.NoError(t, err)
				srv := newTaskServer(t, server.WithLimits(tt.limits), server.WithTelemetry(tel))
				jobs := addJob(srv, "work", false, server.TaskOptions{})
				client := connectTasks(t, srv)
				start := func() *servertest.Task {
					task, err := client.StartTask(t.Context(), "work", nil)
					require.NoError(t, err)
					return task
				}
				count := func() string {
					synctest.Wait()
					return scrape(t, tel)
				}
				full := func() {
					t.Helper()
					go func() { (<-jobs).release <- func() (string, error) { return "", errors.New("unused") } }()
					_, err := client.StartTask(t.Context(), "work", nil)
					require.ErrorIs(t, err, servertest.ErrNoTask) // the handler went on without
				}
				first := start()
				one := <-jobs
				second := start()
				two := <-jobs
				require.Contains(t, count(), `vitrine_tasks{status="working"} 2`)
				full()
				require.Contains(t, count(), `vitrine_limit_reached_total{limit="`+tt.limit+`"} 1`)
				_, err = first.Get(t.Context())
				require.NoError(t, err, "what runs is not forgotten")

				two.finish("2")
				synctest.Wait()
				one.finish("1")
				synctest.Wait()
				start()
				<-jobs
				_, err = second.Get(t.Context())
				if tt.limit == "max_running_tasks" {
					require.NoError(t, err)
				} else {
					require.Equal(t, errNoSuchTask, err, "the end that is oldest makes room")
				}
				_, err = first.Get(t.Context())
				require.NoError(t, err)
				require.Contains(t, count(), `vitrine_tasks{status="working"} 1`)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.NoError(t, srv.Shutdown(ctx))
				require.NoError(t, tel.Shutdown(t.Context()))
			})
		})
	}
}

// Callers without a principal are told apart: over HTTP by their addresses, and here by their connections.
func TestCallersWithoutPrincipalDoNotShareTheirTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t, server.WithLimits(server.Limits{MaxTasksPerPrincipal: 1}))
		jobs := addJob(srv, "work", false, server.TaskOptions{})
		var tasks []*servertest.Task
		for range 2 {
			task, err := connectTasks(t, srv).StartTask(t.Context(), "work", nil)
			require.NoError(t, err)
			tasks = append(tasks, task)
			synctest.Wait() // the handlers are called in this order
		}
		for i, task := range tasks {
			(<-jobs).finish("done")
			_, err := task.Result(t.Context())
			require.NoError(t, err)
			_, err = tasks[1-i].Get(t.Context())
			require.NoError(t, err, "neither has pushed out the other")
		}
		require.NoError(t, srv.Shutdown(t.Context()))
	})
}

// A task whose result is too large for the store fails, and the error names the limit.
func TestTaskResultTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer(t, server.WithLimits(server.Limits{MaxTaskBytes: 4000}))
		jobs := addJob(srv, "work", false, server.TaskOptions{})
		client := connectTasks(t, srv)
		old, err := client.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		(<-jobs).finish(fmt.Sprintf("%02000d", 0))
		synctest.Wait()
		task, err := client.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		(<-jobs).finish(fmt.Sprintf("%05000d", 0))
		_, err = task.Result(t.Context())
		rpc, _ := mcp.AsError(err)
		require.NotNil(t, rpc)
		require.Equal(t, map[string]any{"reason": "overload", "limit": "max_task_bytes"}, rpc.Data)
		_, err = old.Get(t.Context())
		require.NoError(t, err, "nobody is forgotten for what fits nowhere")

		task, err = client.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		(<-jobs).finish(fmt.Sprintf("%02000d", 0))
		_, err = task.Result(t.Context())
		require.NoError(t, err)
		_, err = old.Get(t.Context())
		require.Equal(t, errNoSuchTask, err)
	})
}

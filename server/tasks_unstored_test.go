package server_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/store"
)

// A result that the store does not take because it has lost the task is counted, and the log says whose it was.
func TestResultOfATaskThatTheStoreHasLost(t *testing.T) {
	for name, away := range map[string]bool{"while it answers": false, "while it was away": true} {
		t.Run(name, func(t *testing.T) {
			inLosableReplicas(t, func(t *testing.T, r *losable) {
				require.Contains(t, scrape(t, r.tel[0]), "vitrine_tasks_unstored_total 0\n")
				r.links[0].cut.Store(away)
				lose := func() { r.links[0].Now = func() time.Time { return time.Now().Add(1000 * time.Hour) } }
				if !away {
					lose()
				}
				r.job.finish("done")
				time.Sleep(time.Minute)
				if away {
					lose()
				}
				r.links[0].cut.Store(false)
				time.Sleep(20 * time.Second)
				require.Contains(t, scrape(t, r.tel[0]), "vitrine_tasks_unstored_total 1\n")
				logged := r.logs[0].find("task.store")
				require.Len(t, logged, 1)
				require.Equal(t, []any{"work", "servertest", store.ErrNoTask.Error()},
					[]any{logged[0].attrs["target"], logged[0].attrs["client"], logged[0].attrs["error"]})
				_, err := r.tasks[1].Get(t.Context())
				require.ErrorContains(t, err, "there is no such task")
			})
		})
	}
}

// A handler that returns after its task has ended and was deleted has lost nothing.
func TestHandlerOfAForgottenTaskReturns(t *testing.T) {
	for name, stores := range map[string]func() server.Option{
		"memory": func() server.Option { return server.WithTasks(server.Tasks{}) },
		"shared": func() server.Option { return server.WithStore((&sharedMemory{}).store()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tel, logs := recording(t), &logRecorder{}
				srv := newReplica(t, withReplicaTasks, stores(), server.WithTelemetry(tel), server.WithLogger(slog.New(logs)))
				defer func() { require.NoError(t, srv.Shutdown(t.Context())) }()
				jobs := addJob(srv, "work", true, server.TaskOptions{TTL: time.Minute})
				client := connectTasks(t, srv)
				task, err := client.StartTask(t.Context(), "work", nil)
				require.NoError(t, err)
				j := <-jobs
				time.Sleep(24 * time.Hour)
				_, err = task.Get(t.Context())
				require.ErrorContains(t, err, "there is no such task")
				j.finish("late")
				synctest.Wait()
				require.Contains(t, scrape(t, tel), "vitrine_tasks_unstored_total 0\n")
				require.Empty(t, logs.find("task.store"))
				require.Len(t, logs.find("task.late"), 1)
			})
		})
	}
}

// A task that the store has lost does not count any more when its replica has learned that, and its handler has returned.
func TestTaskThatTheStoreHasLostDoesNotCount(t *testing.T) {
	for name, tt := range map[string]struct {
		learn     func(ctx context.Context, task *servertest.Task)
		completed string // how many tasks that have ended count then
	}{
		"its client asks":       {func(ctx context.Context, task *servertest.Task) { _, _ = task.Get(ctx) }, "0"},
		"its client cancels":    {func(ctx context.Context, task *servertest.Task) { _ = task.Cancel(ctx) }, "0"},
		"its handler has ended": {func(context.Context, *servertest.Task) {}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			inLosableReplicas(t, func(t *testing.T, r *losable) {
				counts := func(working, completed string) {
					t.Helper()
					synctest.Wait()
					text := scrape(t, r.tel[0])
					require.Contains(t, text, `vitrine_tasks{status="working"} `+working+"\n")
					require.Contains(t, text, `vitrine_tasks{status="completed"} `+completed+"\n")
				}
				running, more := r.start()
				r.job.finish("done")
				counts("1", "1")
				r.ahead.Store(int64(1000 * time.Hour)) // the store loses all values
				for _, task := range []*servertest.Task{r.tasks[0], more[0]} {
					tt.learn(t.Context(), task)
				}
				counts("1", tt.completed)
				running.finish("done")
				counts("0", tt.completed)
			})
		})
	}
}

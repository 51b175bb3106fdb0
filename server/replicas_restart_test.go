package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A restarting is three replicas with a link each. All have the restartable tool work, whose handlers are jobs that
// ignore their context.
type restarting struct {
	all     [3]*server.Server
	links   [3]*link
	tel     [3]*telemetry.Telemetry
	logs    [3]*logRecorder
	jobs    [3]<-chan *job
	clients [3]*servertest.Client
	leaves  bool // a replica leaves a handler behind when it shuts down
}

func inRestartingReplicas(t *testing.T, test func(t *testing.T, r *restarting), opts ...server.Option) {
	synctest.Test(t, func(t *testing.T) { test(t, newRestarting(t, opts...)) })
}

func newRestarting(t *testing.T, opts ...server.Option) *restarting {
	t.Helper()
	r, shared := &restarting{}, new(store.Memory)
	as := servertest.Context(context.WithValue(t.Context(), whoKey{}, annsToken+" read write"))
	for i := range r.all {
		r.links[i], r.tel[i], r.logs[i] = &link{Memory: shared}, recording(t), &logRecorder{}
		r.all[i] = newReplica(t, append([]server.Option{
			server.WithStore(store.Store{Values: r.links[i], Signals: r.links[i]}), withReplicaTasks,
			server.WithTelemetry(r.tel[i]), server.WithLogger(slog.New(r.logs[i])),
		}, opts...)...)
		r.add(i, server.Tool{Restartable: true})
		r.clients[i] = connectTasks(t, r.all[i], as)
		t.Cleanup(func() {
			r.links[i].cut.Store(false)
			drained, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := r.all[i].Shutdown(drained); !r.leaves {
				require.NoError(t, err)
			}
		})
	}
	synctest.Wait()
	return r
}

// add adds the tool work to a replica.
func (r *restarting) add(i int, tool server.Tool) {
	tool.Name = "work"
	r.jobs[i] = addJobAs(r.all[i], tool, true, server.TaskOptions{TTL: 10 * time.Minute, Message: "at it"})
}

// start begins a task at the first replica.
func (r *restarting) start(t *testing.T) (*job, mcp.Task) {
	t.Helper()
	task, err := r.clients[0].StartTask(t.Context(), "work", nil)
	require.NoError(t, err)
	return r.begun(t, 0), task.Created
}

// state returns what a replica says of a task.
func (r *restarting) state(t *testing.T, i int, task mcp.Task) *servertest.TaskState {
	t.Helper()
	state, err := r.clients[i].Task(task).Get(t.Context())
	require.NoError(t, err)
	return state
}

// nobody reports that no handler has begun that a test does not know.
func (r *restarting) nobody(t *testing.T) {
	t.Helper()
	synctest.Wait()
	for i, jobs := range r.jobs {
		require.Empty(t, jobs, "at replica %d", i)
	}
}

// begun returns the handler that has begun at a replica. A test that waited for one that never begins would not end,
// because the replicas renew their leases all the time.
func (r *restarting) begun(t *testing.T, i int) *job {
	t.Helper()
	synctest.Wait()
	require.Len(t, r.jobs[i], 1, "at replica %d", i)
	return <-r.jobs[i]
}

// next asks some replicas for a task until its handler begins again at one of them.
func (r *restarting) next(t *testing.T, task mcp.Task, at ...int) (j *job, where int) {
	t.Helper()
	for began := time.Now(); time.Since(began) < lostAfter; time.Sleep(100 * time.Millisecond) {
		for _, i := range at {
			require.Equal(t, mcp.TaskWorking, r.state(t, i, task).Status)
		}
		synctest.Wait()
		for _, i := range at {
			if len(r.jobs[i]) > 0 {
				return <-r.jobs[i], i
			}
		}
	}
	t.Fatal("the task has not begun again")
	return nil, 0
}

// fails asks a replica for a task until it has failed because its replica is lost.
func (r *restarting) fails(t *testing.T, task mcp.Task, at int) (data map[string]any) {
	t.Helper()
	for began := time.Now(); time.Since(began) < lostAfter; time.Sleep(100 * time.Millisecond) {
		if state := r.state(t, at, task); state.Status != mcp.TaskWorking {
			require.Equal(t, mcp.TaskFailed, state.Status)
			require.Equal(t, "the replica that ran the task is lost", state.Error.Message)
			r.nobody(t)
			return state.Error.Data.(map[string]any)
		}
	}
	t.Fatal("the task has not failed")
	return nil
}

// total adds up a metric of all replicas.
func (r *restarting) total(t *testing.T, metric string) (sum int) {
	t.Helper()
	synctest.Wait()
	for _, tel := range r.tel {
		_, rest, found := strings.Cut(scrape(t, tel), metric+" ")
		require.True(t, found, metric)
		value, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.Atoi(value)
		require.NoError(t, err)
		sum += n
	}
	return sum
}

// logged returns the records of a message at all replicas.
func (r *restarting) logged(message string) (all []logRecord) {
	for _, logs := range r.logs {
		all = append(all, logs.find(message)...)
	}
	return all
}

// A task whose replica is lost begins again at one other replica, with the call as it was.
func TestTaskBeginsAgain(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		require.NoError(t, first.detach)
		time.Sleep(time.Minute)
		r.nobody(t) // the lease is renewed
		r.links[0].cut.Store(true)
		// So both replicas read the record before one of them changes it: the second one is asked 100 ms later.
		r.links[1].lag.Store(int64(200 * time.Millisecond))
		r.links[2].lag.Store(int64(100 * time.Millisecond))
		again, at := r.next(t, task, 1, 2)
		require.NoError(t, again.detach)
		r.links[1].lag.Store(0)
		r.links[2].lag.Store(0)
		for range 600 {
			for i := 1; i < 3; i++ {
				require.Equal(t, mcp.TaskWorking, r.state(t, i, task).Status)
			}
			time.Sleep(100 * time.Millisecond)
		}
		r.nobody(t)
		require.Equal(t, 1, r.total(t, "vitrine_tasks_taken_over_total"))

		require.Equal(t, first.call.Principal, again.call.Principal)
		require.Equal(t, first.call.Params, again.call.Params)
		require.Equal(t, first.call.ID, again.call.ID)
		require.Equal(t, first.call.Peer, again.call.Peer)
		require.Equal(t, first.call.Client(), again.call.Client())
		require.Equal(t, first.call.Capabilities(), again.call.Capabilities())
		ends, _ := first.ctx.Deadline()
		deadline, _ := again.ctx.Deadline()
		require.Equal(t, ends, deadline, "the task does not live longer")
		require.Equal(t, mcp.ErrRequestDone, again.call.Notify("notifications/x/y", nil), "its request is over")

		require.Empty(t, r.logged("task.cancelled"), "the replica that was slower has begun nothing")
		logged := r.logged("task.taken_over")
		require.Len(t, logged, 1)
		require.Equal(t, "work servertest 1 2", fmt.Sprint(logged[0].attrs["tool"], " ", logged[0].attrs["client"], " ",
			logged[0].attrs["client_version"], " ", logged[0].attrs["run"]))
		require.Equal(t, "ann (i) of acme", logged[0].attrs["principal"])
		require.Equal(t, 2, requestsPage(t, r.all[at]).Tasks[0].Run)
		require.Contains(t, textOf(r.tel[at].RequestsHandler()), task.TaskID[:8]+" (run 2)")
		require.Zero(t, requestsPage(t, r.all[0]).Tasks[0].Run)

		again.finish("done")
		for i := 1; i < 3; i++ {
			result, err := r.clients[i].Task(task).Result(t.Context())
			require.NoError(t, err)
			require.Equal(t, "done", result.Text())
		}
		first.finish("late")
		synctest.Wait()
	})
}

// The runs of a task are bounded.
func TestRunsOfATaskAreBounded(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		r.links[0].cut.Store(true)
		again, _ := r.next(t, task, 1)
		r.links[1].cut.Store(true)
		require.Equal(t, map[string]any{"reason": "replica_lost", "limit": "max_task_runs"}, r.fails(t, task, 2))
		require.Equal(t, 1, r.total(t, `vitrine_limit_reached_total{limit="max_task_runs"}`))
		require.Equal(t, 1, r.total(t, "vitrine_tasks_lost_total"))
		require.Contains(t, r.logged("task.lost")[0].attrs["why"], "max_task_runs")
		first.finish("late")
		again.finish("late, too")
	}, server.WithLimits(server.Limits{MaxTaskRuns: 2}))
}

// A replica without the tool, or whose tool is not restartable, ends the task.
func TestTaskOfAToolThatIsNotRestartable(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(r *restarting)
		why    string
	}{
		"never was":    {func(r *restarting) { r.add(0, server.Tool{}) }, "does not have what another run needs"},
		"is gone":      {func(r *restarting) { r.all[1].RemoveTools("work") }, "may not begin again"},
		"not any more": {func(r *restarting) { r.add(1, server.Tool{}) }, "may not begin again"},
	} {
		t.Run(name, func(t *testing.T) {
			inRestartingReplicas(t, func(t *testing.T, r *restarting) {
				tt.change(r)
				first, task := r.start(t)
				r.links[0].cut.Store(true)
				require.Equal(t, map[string]any{"reason": "replica_lost"}, r.fails(t, task, 1))
				require.Contains(t, r.logged("task.lost")[0].attrs["why"], tt.why)
				first.finish("late")
			})
		})
	}
}

// A call that there is no room for becomes a task that cannot begin again, and the log says so.
func TestTaskThatIsTooLargeToBeginAgain(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		type note struct{ Text string }
		server.AddTool(r.all[0], server.Tool{Name: "note", Task: server.TaskRequired, Restartable: true},
			func(ctx context.Context, call *server.Call, _ note) (string, error) {
				ctx, err := call.Detach(ctx, server.TaskOptions{})
				if err != nil {
					return "", err
				}
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
		short, err := r.clients[0].StartTask(t.Context(), "note", note{"x"})
		require.NoError(t, err)
		require.NoError(t, short.Cancel(t.Context()))
		require.Empty(t, r.logged("task.not_restartable"))
		task, err := r.clients[0].StartTask(t.Context(), "note", note{strings.Repeat("x", 2000)})
		require.NoError(t, err)
		logged := r.logged("task.not_restartable")
		require.Len(t, logged, 1)
		require.Contains(t, logged[0].attrs["error"], "max_task_bytes")
		require.Equal(t, "note servertest 1", fmt.Sprint(logged[0].attrs["target"], " ", logged[0].attrs["client"], " ",
			logged[0].attrs["client_version"]))
		r.links[0].cut.Store(true)
		r.fails(t, task.Created, 1)
	}, server.WithLimits(server.Limits{MaxTaskBytes: 5000}))
}

// The client can cancel the further run.
func TestFurtherRunIsCancelled(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		r.links[0].cut.Store(true)
		again, _ := r.next(t, task, 1)
		require.NoError(t, r.clients[2].Task(task).Cancel(t.Context()))
		<-again.ctx.Done()
		require.ErrorIs(t, context.Cause(again.ctx), mcp.ErrClientCancelled)
		require.Equal(t, mcp.TaskCancelled, r.state(t, 1, task).Status)
		again.finish("late")
		first.finish("late, too")
	})
}

// It ends with the life of the task.
func TestFurtherRunReachesTheEndOfItsLife(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		r.links[0].cut.Store(true)
		again, _ := r.next(t, task, 1)
		time.Sleep(time.Until(task.CreatedAt.Add(10*time.Minute - time.Millisecond)))
		require.NoError(t, again.ctx.Err())
		time.Sleep(2 * time.Millisecond)
		require.ErrorIs(t, context.Cause(again.ctx), mcp.ErrDeadline)
		require.Contains(t, r.state(t, 2, task).Error.Message, "longer than it may live")
		again.finish("late")
		first.finish("late, too")
	})
}

// A task whose life is over does not begin again.
func TestLostTaskWhoseLifeIsOver(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		time.Sleep(time.Until(task.CreatedAt.Add(10*time.Minute - 10*time.Second)))
		r.links[0].cut.Store(true)
		for range 350 {
			r.state(t, 1, task)
			time.Sleep(100 * time.Millisecond)
		}
		r.nobody(t)
		require.Equal(t, map[string]any{"reason": "replica_lost"}, r.fails(t, task, 1))
		require.Contains(t, r.logged("task.lost")[0].attrs["why"], "life")
		require.Zero(t, r.total(t, "vitrine_tasks_taken_over_total"))
		first.finish("late")
	})
}

// Further runs ask their client anew, by other keys. What it was asked before is void.
func TestFurtherRunAsksItsClient(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		for _, srv := range r.all {
			addSurveyAs(srv, server.Tool{Restartable: true})
		}
		started, err := r.clients[0].StartTask(t.Context(), "survey", nil)
		require.NoError(t, err)
		task := started.Created
		synctest.Wait()
		require.NoError(t, r.clients[1].Task(task).Answer(t.Context(), map[string]any{"name": accept("name", "Eve")}))
		r.links[0].cut.Store(true)
		time.Sleep(lostAfter)
		r.state(t, 1, task)
		time.Sleep(lostAfter)
		state := r.state(t, 2, task)
		require.Equal(t, mcp.TaskInputRequired, state.Status)
		require.Len(t, state.Questions, 2)
		require.Contains(t, state.Questions, "name-run2")
		require.NoError(t, r.clients[2].Task(task).Answer(t.Context(),
			map[string]any{"name": accept("name", "Eve"), "name-run2": accept("name", "Ada"), "town-run2": accept("town", "Bern")}))
		result, err := r.clients[2].Task(task).Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Ada of Bern", result.Text())
	})
}

// A replica that is full leaves the task to another one, or to a later look.
func TestFullReplicaLeavesTheTask(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		_, err := r.clients[1].StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		busy := r.begun(t, 1)
		r.links[0].cut.Store(true)
		for range 900 {
			require.Equal(t, mcp.TaskWorking, r.state(t, 1, task).Status)
			time.Sleep(100 * time.Millisecond)
		}
		r.nobody(t)
		busy.finish("done")
		again, _ := r.next(t, task, 1)
		again.finish("done")
		first.finish("late")
	}, server.WithLimits(server.Limits{MaxRunningTasks: 1}))
}

type greetingKey struct{}

// The middlewares see a further run as they saw the first one: they are over when the task has begun, and their values
// are in its context. What they refuse ends the task.
func TestMiddlewaresOfAFurtherRun(t *testing.T) {
	refuses := false
	var answers []mcp.Result
	chain := func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			if req.Method != mcp.MethodToolsCall {
				return next(ctx, req)
			}
			if refuses {
				return nil, mcp.NewError(-32050, "not again")
			}
			ctx, cancel := context.WithCancel(context.WithValue(ctx, greetingKey{}, "hello"))
			defer cancel()
			result, err := next(ctx, req)
			answers = append(answers, result)
			return result, err
		}
	}
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		r.links[0].cut.Store(true)
		again, _ := r.next(t, task, 1)
		require.Equal(t, "hello", again.ctx.Value(greetingKey{}))
		require.NoError(t, again.ctx.Err())
		require.NoError(t, again.given.Err(), "the handler is no part of the chain")
		_, err := again.call.Detach(again.ctx, server.TaskOptions{})
		require.ErrorContains(t, err, "a task already")
		require.Len(t, answers, 2)
		require.Equal(t, task.TaskID, answers[1].(*mcp.CreateTaskResult).TaskID)
		refuses = true
		r.links[1].cut.Store(true)
		state, err := r.clients[2].Task(task).Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.NewError(-32050, "not again"), state.Error)
		first.finish("late")
		again.finish("late, too")
	}, server.WithMiddleware(chain))
}

// A panic of the further run ends the task.
func TestFurtherRunPanics(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		r.links[0].cut.Store(true)
		again, _ := r.next(t, task, 1)
		again.release <- func() (string, error) { panic("ouch") }
		synctest.Wait()
		require.Equal(t, "internal error", r.state(t, 2, task).Error.Message)
		require.Len(t, r.logged("handler.panic"), 1)
		first.release <- func() (string, error) { return "", errors.New("late") }
	})
}

// A restartable tool has tasks.
func TestRestartableToolWithoutTasks(t *testing.T) {
	err := server.TryAddTool(newServer(t), server.Tool{Name: "work", Restartable: true},
		func(context.Context, *server.Call, none) (string, error) { return "", nil })
	require.ErrorContains(t, err, "set Task")
}

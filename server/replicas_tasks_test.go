package server_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// withReplicaTasks turns tasks on, without a store of their own.
var withReplicaTasks = server.WithTasks(server.Tasks{PollInterval: 100 * time.Millisecond})

// inTaskReplicas runs a test with two servers in a bubble. Both have the tools work, whose handlers at a are
// jobs, and survey.
func inTaskReplicas(t *testing.T, test func(t *testing.T, r *taskReplicas), opts ...server.Option) {
	synctest.Test(t, func(t *testing.T) {
		r := &taskReplicas{}
		r.a, r.b, r.shared = replicas(t, append([]server.Option{withReplicaTasks}, opts...)...)
		r.jobs = addJob(r.a, "work", false, server.TaskOptions{TTL: 10 * time.Minute})
		addJob(r.b, "work", false, server.TaskOptions{})
		addSurvey(r.a)
		addSurvey(r.b)
		r.here, r.there = connectTasks(t, r.a), connectTasks(t, r.b)
		synctest.Wait()
		test(t, r)
	})
}

type taskReplicas struct {
	a, b        *server.Server
	here, there *servertest.Client // of a and b
	shared      *sharedMemory
	jobs        <-chan *job
}

// start begins a task at a. It returns the handler, and the task as clients of both servers have it.
func (r *taskReplicas) start(t *testing.T) (j *job, here, there *servertest.Task) {
	t.Helper()
	here, err := r.here.StartTask(t.Context(), "work", nil)
	require.NoError(t, err)
	return <-r.jobs, here, r.there.Task(here.Created)
}

// status returns the status of a task.
func status(t *testing.T, task *servertest.Task) mcp.TaskStatus {
	t.Helper()
	state, err := task.Get(t.Context())
	require.NoError(t, err)
	return state.Status
}

// Any replica has the status and the result of a task.
func TestTaskResultAtAnotherReplica(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		j, _, there := r.start(t)
		require.Equal(t, mcp.TaskWorking, status(t, there))
		j.finish("done")
		result, err := there.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "done", result.Text())
	})
}

// The data of an error is the same at any replica, to the last digit.
func TestTaskErrorAtAnotherReplica(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		j, _, there := r.start(t)
		j.release <- func() (string, error) {
			return "", mcp.NewError(-32050, "no").WithData(map[string]uint64{"n": 12345678901234567890})
		}
		synctest.Wait()
		for _, client := range []*servertest.Client{r.here, r.there} {
			raw, err := client.Call(t.Context(), mcp.MethodTasksGet, mcp.TaskParams{TaskID: there.Created.TaskID})
			require.NoError(t, err)
			require.Contains(t, string(raw), `"data":{"n":12345678901234567890}`)
		}
	})
}

// The span of a request about a task is linked to that of the call, at any replica.
func TestTaskSpansAreLinkedAcrossReplicas(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tel, err := telemetry.New(telemetry.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
	require.NoError(t, err)
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		j, _, there := r.start(t)
		j.finish("done")
		synctest.Wait()
		require.Equal(t, mcp.TaskCompleted, status(t, there))
		synctest.Wait()
		named := func(name string) sdktrace.ReadOnlySpan {
			all := spans.Ended()
			i := slices.IndexFunc(all, func(s sdktrace.ReadOnlySpan) bool { return strings.HasPrefix(s.Name(), name) })
			require.GreaterOrEqual(t, i, 0, name)
			return all[i]
		}
		links := named("tasks/get").Links()
		require.Len(t, links, 1)
		require.Equal(t, named("tools/call").SpanContext().SpanID(), links[0].SpanContext.SpanID())
	}, server.WithTelemetry(tel))
}

// A cancel at any replica reaches the handler.
func TestTaskCancelAtAnotherReplica(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		j, here, there := r.start(t)
		require.NoError(t, there.Cancel(t.Context()))
		<-j.ctx.Done()
		require.ErrorIs(t, context.Cause(j.ctx), mcp.ErrClientCancelled)
		require.Equal(t, mcp.TaskCancelled, status(t, here))
	})
}

// An answer at any replica reaches the handler, which judges it.
func TestTaskAnswerAtAnotherReplica(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		task, err := r.here.StartTask(t.Context(), "survey", nil)
		require.NoError(t, err)
		synctest.Wait()
		there := r.there.Task(task.Created)
		require.NoError(t, there.Answer(t.Context(), map[string]any{"name": accept("name", 5), "town": accept("town", "Bern")}))
		synctest.Wait()
		state, err := there.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.TaskInputRequired, state.Status)
		require.Len(t, state.Questions, 1, "a number is no name")
		require.NoError(t, there.Answer(t.Context(), map[string]any{"name": accept("name", "Ada")}))
		result, err := there.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Ada of Bern", result.Text())
	})
}

// Subscribers at any replica are told of each end.
func TestTaskSubscriptionAtAnotherReplica(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		j, _, there := r.start(t)
		sub, err := r.there.Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{there.Created.TaskID}})
		require.NoError(t, err)
		require.NoError(t, j.call.Progress(1, 2, "half of it"))
		change, err := sub.Next(t.Context())
		require.NoError(t, err)
		state, err := change.TaskChange()
		require.NoError(t, err)
		require.Equal(t, "half of it", state.StatusMessage)
		j.finish("done")
		change, err = sub.Next(t.Context())
		require.NoError(t, err)
		state, err = change.TaskChange()
		require.NoError(t, err)
		require.Equal(t, "done", state.Result.Text())
	})
}

// They are told of the end, too, that a shutdown is for a task.
func TestSubscriberOfATaskThatAShutdownEnds(t *testing.T) {
	inLosableReplicas(t, func(t *testing.T, r *losable) {
		sub, err := connectTasks(t, r.all[2]).Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{r.tasks[0].Created.TaskID}})
		require.NoError(t, err)
		synctest.Wait()
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = r.all[0].Shutdown(over) // says that a handler was abandoned
		change, err := sub.Next(t.Context())
		require.NoError(t, err)
		state, err := change.TaskChange()
		require.NoError(t, err)
		require.Equal(t, mcp.TaskFailed, state.Status)
		require.NotContains(t, state.Error.Message, "replica")
	})
}

// A subscriber hears of an end of which no signal has come, when it is looked for.
func TestSubscriberOfAnEndWithoutASignal(t *testing.T) {
	inLosableReplicas(t, func(t *testing.T, r *losable) {
		sub, err := connectTasks(t, r.all[2]).Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{r.tasks[0].Created.TaskID}})
		require.NoError(t, err)
		synctest.Wait()
		r.links[0].silent.Store(true)
		r.job.finish("done")
		synctest.Wait()
		r.links[0].cut.Store(true)
		change, err := sub.Next(t.Context())
		require.NoError(t, err)
		state, err := change.TaskChange()
		require.NoError(t, err)
		require.Equal(t, mcp.TaskCompleted, state.Status)
	})
}

// A replica without a part in a task reads nothing of it, and one without tasks sends nothing.
func TestReplicaReadsTheTasksThatMatter(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		r.shared.used()
		time.Sleep(time.Hour)
		require.Zero(t, r.shared.used())
		j, _, _ := r.start(t)
		require.NoError(t, j.call.Progress(1, 2, "half of it"))
		synctest.Wait()
		r.shared.used()
		j.finish("done")
		synctest.Wait()
		require.Equal(t, 2, r.shared.used(), "the end is stored and published")
		time.Sleep(time.Hour)
		require.Zero(t, r.shared.used())
	})
}

// A task belongs to its principal at any replica.
func TestTasksOfOthersAtAnotherReplica(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		const ben = "https://id.example ben acme 0"
		ann, as := context.WithValue(t.Context(), whoKey{}, annsToken), context.WithValue(t.Context(), whoKey{}, ben)
		task, err := connectTasks(t, r.a, servertest.Context(ann)).StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		require.Equal(t, mcp.TaskWorking, status(t, connectTasks(t, r.b, servertest.Context(ann)).Task(task.Created)))
		for _, srv := range []*server.Server{r.a, r.b} {
			for _, ctx := range []context.Context{as, t.Context()} {
				client := connectTasks(t, srv, servertest.Context(ctx))
				theirs := client.Task(task.Created)
				_, err := theirs.Get(t.Context())
				require.Equal(t, errNoSuchTask, err)
				require.Equal(t, errNoSuchTask, theirs.Cancel(t.Context()))
				require.Equal(t, errNoSuchTask, theirs.Answer(t.Context(), map[string]any{"name": accept("name", "Ada")}))
				sub, err := client.Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{task.Created.TaskID}})
				require.NoError(t, err)
				require.Empty(t, sub.Filter().TaskIDs)
			}
		}
		require.NoError(t, (<-r.jobs).ctx.Err())
	})
}

// Of a cancel and an end at the same time one counts, everywhere.
func TestTaskCancelAndEndAtTheSameTime(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		for range 20 {
			j, here, there := r.start(t)
			j.finish("done")
			require.NoError(t, there.Cancel(t.Context()))
			synctest.Wait()
			state, err := here.Get(t.Context())
			require.NoError(t, err)
			elsewhere, err := there.Get(t.Context())
			require.NoError(t, err)
			require.Equal(t, state, elsewhere)
			require.Equal(t, state.Status == mcp.TaskCompleted, state.Result != nil)
			require.True(t, state.Status.Terminal())
		}
	})
}

// A change whose signal was lost is read when the connection has recovered: that of the sender, who knows,
// or that of the listener.
func TestTaskCancelWithALostSignal(t *testing.T) {
	for name, lose := range map[string]func(*sharedMemory, bool){"not sent": (*sharedMemory).publishNothing, "not received": (*sharedMemory).drop} {
		t.Run(name, func(t *testing.T) {
			inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
				j, _, there := r.start(t)
				sub, err := r.here.Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{there.Created.TaskID}})
				require.NoError(t, err)
				lose(r.shared, true)
				require.NoError(t, there.Cancel(t.Context()))
				synctest.Wait()
				require.NoError(t, j.ctx.Err())
				lose(r.shared, false)
				<-j.ctx.Done()
				require.ErrorIs(t, context.Cause(j.ctx), mcp.ErrClientCancelled)
				change, err := sub.Next(t.Context())
				require.NoError(t, err)
				state, err := change.TaskChange()
				require.NoError(t, err)
				require.Equal(t, mcp.TaskCancelled, state.Status)
			})
		})
	}
}

// A task that a later release has stored is left alone.
func TestTaskOfALaterRelease(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		_, _, there := r.start(t)
		key := "task/{" + there.Created.TaskID + "}"
		later := []byte(`{"v":2,"something":"else"}`)
		require.NoError(t, r.shared.Update(t.Context(), key, func([]byte) ([]byte, time.Duration, error) { return later, time.Hour, nil }))
		_, err := there.Get(t.Context())
		require.ErrorContains(t, err, "another release")
		require.ErrorContains(t, there.Cancel(t.Context()), "another release")
		raw, err := r.shared.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, later, raw)
	})
}

// Each replica bounds the tasks that it has created. It gives up those that have ended, at all replicas.
func TestTasksOfAReplicaAreBounded(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		j, _, first := r.start(t)
		j.finish("done")
		synctest.Wait()
		running, _, second := r.start(t)
		require.Equal(t, mcp.TaskCompleted, status(t, first))
		_, _, third := r.start(t)
		_, err := first.Get(t.Context())
		require.Equal(t, errNoSuchTask, err, "it has made room")
		refused := make(chan error, 1)
		go func() {
			j := <-r.jobs
			refused <- j.detach
			j.finish("without a task")
		}()
		_, err = r.here.CallTool(t.Context(), "work", nil)
		require.NoError(t, err)
		require.ErrorContains(t, <-refused, "max_tasks_per_principal")
		require.Equal(t, mcp.TaskWorking, status(t, second))
		require.NoError(t, third.Cancel(t.Context()))
		synctest.Wait()
		_, _, fourth := r.start(t)
		require.Equal(t, mcp.TaskWorking, status(t, fourth), "the end at another replica counts")

		r.shared.drop(true)
		require.NoError(t, second.Cancel(t.Context()))
		running.finish("too late")
		synctest.Wait()
		_, _, fifth := r.start(t)
		require.Equal(t, mcp.TaskWorking, status(t, fifth), "also if its signal was lost")
	}, server.WithLimits(server.Limits{MaxTasksPerPrincipal: 2}))
}

// A result that the store does not take fails the task.
func TestTaskResultThatIsTooLarge(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		j, _, there := r.start(t)
		j.finish(strings.Repeat("x", 9<<20))
		synctest.Wait()
		state, err := there.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.TaskFailed, state.Status)
		require.Contains(t, state.Error.Message, "too large")
	})
}

// A program's own store of tasks stays in use.
func TestOwnTaskStoreOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := newSharedStore()
		a, _, shared := replicas(t, server.WithTasks(server.Tasks{Store: own}))
		jobs := addJob(a, "work", false, server.TaskOptions{})
		task, err := connectTasks(t, a).StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		require.Equal(t, mcp.TaskWorking, own.status(task.Created.TaskID))
		_, err = shared.Get(t.Context(), "task/{"+task.Created.TaskID+"}")
		require.ErrorIs(t, err, store.ErrNoValue)
		(<-jobs).finish("done")
		synctest.Wait()
	})
}

// While the store is away tasks are out of reach, and plain calls and handlers go on.
func TestTasksWhileTheStoreIsAway(t *testing.T) {
	inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
		j, here, there := r.start(t)
		r.shared.fail(errors.New("down"))
		away := mcp.NewError(mcp.CodeInternalError, "the store that has the tasks is away: try again")
		for _, task := range []*servertest.Task{here, there} {
			_, err := task.Get(t.Context())
			require.Equal(t, away, err)
			require.Equal(t, away, task.Cancel(t.Context()))
			require.Equal(t, away, task.Answer(t.Context(), map[string]any{"name": accept("name", "Ada")}))
		}
		_, err := r.there.Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{here.Created.TaskID}})
		require.Equal(t, away, err)
		require.NoError(t, j.call.Progress(1, 2, "goes on"))
		_, err = j.call.Elicit("name", textForm("name"))
		require.Equal(t, away, err)
		detached := make(chan error, 1)
		go func() {
			j := <-r.jobs
			detached <- j.detach
			j.finish("without a task")
		}()
		result, err := r.here.CallTool(t.Context(), "work", nil)
		require.NoError(t, err)
		require.Equal(t, "without a task", result.Text())
		require.Equal(t, away, <-detached)
		require.NoError(t, j.ctx.Err())

		r.shared.fail(nil)
		time.Sleep(time.Minute)
		state, err := there.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.TaskWorking, state.Status)
		require.Empty(t, state.StatusMessage, "no message of the outage is stored")
		require.NoError(t, j.call.Progress(2, 2, "is stored"))
		time.Sleep(time.Minute)
		state, err = there.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, "is stored", state.StatusMessage)
		j.finish("done")
		result, err = there.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "done", result.Text())
	})
}

// publishNothing has signals fail, and nothing else.
func (m *sharedMemory) publishNothing(on bool) {
	if on {
		m.refusePublish(errors.New("no signals"))
	} else {
		m.refusePublish(nil)
	}
}

// refusePublish has signals fail with an error, and nothing else.
func (m *sharedMemory) refusePublish(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deaf = err
}

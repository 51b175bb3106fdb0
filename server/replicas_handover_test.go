package server_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// shutDown shuts the first replica down, with a second to drain. The handler of a job returns what it is told to when it
// is stopped; if that is nil it does not return.
func (r *restarting) shutDown(t *testing.T, j *job, returns func(stopped error) (string, error)) error {
	t.Helper()
	drained, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	down := make(chan error, 1)
	go func() { down <- r.all[0].Shutdown(drained) }()
	<-j.ctx.Done()
	if returns != nil {
		j.release <- func() (string, error) { return returns(context.Cause(j.ctx)) }
	}
	return <-down
}

func stops(stopped error) (string, error) { return "", stopped }

// A replica that shuts down hands over the task whose handler it has stopped. The next one that is asked begins it at
// once.
func TestTaskIsHandedOver(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		require.NoError(t, r.shutDown(t, first, stops))
		require.ErrorIs(t, context.Cause(first.ctx), mcp.ErrServerShutdown)
		r.nobody(t)
		require.Equal(t, mcp.TaskWorking, r.state(t, 1, task).Status)
		again := r.begun(t, 1)
		require.Less(t, time.Since(task.CreatedAt), 3*time.Second)
		require.Equal(t, first.call.Params, again.call.Params)
		time.Sleep(2 * time.Minute)
		require.Equal(t, mcp.TaskWorking, r.state(t, 2, task).Status)
		r.nobody(t)
		again.finish("done")
		synctest.Wait()
		require.Equal(t, "done", r.state(t, 2, task).Result.Text())
		require.Equal(t, 1, r.total(t, "vitrine_tasks_taken_over_total"))
		require.Zero(t, r.total(t, "vitrine_tasks_lost_total"))
		require.Zero(t, r.total(t, "vitrine_tasks_fenced_total"))
		const duration = `vitrine_task_duration_seconds{status="%s",tool="work"}`
		require.NotContains(t, scrape(t, r.tel[0]), fmt.Sprintf(duration, mcp.TaskFailed), "it goes on")
		require.Contains(t, scrape(t, r.tel[1]), fmt.Sprintf(duration, mcp.TaskCompleted))
		handed := r.logged("task.handed_over")
		require.Len(t, handed, 1)
		require.Equal(t, "servertest", handed[0].attrs["client"])
	})
}

// Of two replicas that are asked at the same time one begins the task.
func TestTaskIsHandedOverToOneOfTwo(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		require.NoError(t, r.shutDown(t, first, stops))
		require.Equal(t, mcp.TaskWorking, r.state(t, 1, task).Status)
		require.Equal(t, mcp.TaskWorking, r.state(t, 2, task).Status)
		synctest.Wait()
		require.Equal(t, 1, len(r.jobs[1])+len(r.jobs[2]))
		for i := 1; i <= 2; i++ {
			if len(r.jobs[i]) > 0 {
				r.begun(t, i).finish("done")
			}
		}
		synctest.Wait()
		require.Equal(t, "done", r.state(t, 2, task).Result.Text())
		require.Equal(t, 1, r.total(t, "vitrine_tasks_taken_over_total"))
	})
}

// A replica with a subscriber begins the task without being asked.
func TestTaskIsHandedOverToItsSubscriber(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		_, err := r.clients[2].Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{task.TaskID}})
		require.NoError(t, err)
		require.NoError(t, r.shutDown(t, first, stops))
		again := r.begun(t, 2)
		again.finish("done")
		synctest.Wait()
		require.Equal(t, "done", r.state(t, 1, task).Result.Text())
	})
}

// So does one where somebody subscribes to it later.
func TestSubscriberOfATaskThatWasHandedOver(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		require.NoError(t, r.shutDown(t, first, stops))
		_, err := r.clients[2].Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{task.TaskID}})
		require.NoError(t, err)
		again := r.begun(t, 2)
		again.finish("done")
		synctest.Wait()
		require.Equal(t, "done", r.state(t, 1, task).Result.Text())
	})
}

// What a handler returns when it is stopped is the result. A task that has begun as often as it may is not handed over.
func TestTaskThatIsNotHandedOver(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		require.NoError(t, r.shutDown(t, first, func(error) (string, error) { return "half of it", nil }))
		require.Equal(t, "half of it", r.state(t, 1, task).Result.Text())
		r.nobody(t)
	})
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		require.NoError(t, r.shutDown(t, first, stops))
		state := r.state(t, 1, task)
		require.Equal(t, mcp.TaskFailed, state.Status)
		require.Equal(t, map[string]any{"reason": "server_shutdown"}, state.Error.Data)
		r.nobody(t)
	}, server.WithLimits(server.Limits{MaxTaskRuns: 1}))
}

// A handler that ignores its context begins again when its replica is lost, and so has ended.
func TestTaskOfAnAbandonedHandlerBeginsAgain(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		r.leaves = true
		require.ErrorIs(t, r.shutDown(t, first, nil), server.ErrAbandoned)
		require.Equal(t, mcp.TaskWorking, r.state(t, 1, task).Status)
		r.nobody(t)
		again, _ := r.next(t, task, 1)
		again.finish("done")
		synctest.Wait()
		first.finish("late")
		synctest.Wait()
		require.Equal(t, "done", r.state(t, 2, task).Result.Text())
	})
}

// A replica that cannot reach the store hands nothing over. Its task begins again when it is lost.
func TestHandoverWhileTheStoreIsAway(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		r.links[0].refusal.Store(1)
		require.NoError(t, r.shutDown(t, first, stops))
		require.Negative(t, r.links[0].refusal.Load()-1)
		require.Empty(t, r.logged("task.handed_over"))
		again, _ := r.next(t, task, 1)
		again.finish("done")
		synctest.Wait()
		require.Equal(t, "done", r.state(t, 2, task).Result.Text())
	})
}

// The questions of a task that is handed over are void.
func TestTaskThatAsksIsHandedOver(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		for _, srv := range r.all {
			addSurveyAs(srv, server.Tool{Restartable: true})
		}
		started, err := r.clients[0].StartTask(t.Context(), "survey", nil)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, mcp.TaskInputRequired, r.state(t, 1, started.Created).Status)
		drained, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, r.all[0].Shutdown(drained))
		state := r.state(t, 1, started.Created)
		require.Equal(t, mcp.TaskWorking, state.Status)
		require.Empty(t, state.Questions)
		synctest.Wait()
		require.Contains(t, r.state(t, 2, started.Created).Questions, "name-run2")
		require.NoError(t, r.clients[2].Task(started.Created).Cancel(t.Context()))
		synctest.Wait()
	})
}

package server_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// The replica of an earlier run may change nothing, whether its store was away, it was stopped, or the further run
// has ended.
func TestEarlierRunIsFenced(t *testing.T) {
	for name, lose := range map[string]func(l *link, lost bool){
		"cut off": func(l *link, lost bool) { l.cut.Store(lost) },
		"stopped": func(l *link, lost bool) { l.stopped.Store(lost) },
	} {
		for _, over := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/over=%t", name, over), func(t *testing.T) {
				inRestartingReplicas(t, func(t *testing.T, r *restarting) {
					first, task := r.start(t)
					lose(r.links[0], true)
					again, _ := r.next(t, task, 1)
					require.NoError(t, first.ctx.Err(), "it does not know")
					if over {
						again.finish("done")
						synctest.Wait()
					}
					lose(r.links[0], false)
					time.Sleep(15 * time.Second)
					require.ErrorIs(t, context.Cause(first.ctx), mcp.ErrReplicaLost)
					require.Error(t, first.call.Progress(1, 2, "on and on"))
					first.finish("late")
					require.Equal(t, 1, r.total(t, "vitrine_tasks_fenced_total"))
					fenced := r.logged("task.fenced")
					require.Len(t, fenced, 1)
					require.Equal(t, "servertest 1", fmt.Sprint(fenced[0].attrs["client"], " ", fenced[0].attrs["client_version"]))
					if !over {
						state := r.state(t, 2, task)
						require.Equal(t, mcp.TaskWorking, state.Status)
						again.finish("done")
					}
					for i := range 3 {
						result, err := r.clients[i].Task(task).Result(t.Context())
						require.NoError(t, err)
						require.Equal(t, "done", result.Text())
					}
					require.Contains(t, scrape(t, r.tel[0]), `vitrine_tasks{status="working"} 0`, "it is of the other replica")
				})
			})
		}
	}
}

// So is an end that has waited for the store, and that of a handler which nobody has told.
func TestLateEndIsFenced(t *testing.T) {
	for _, away := range []bool{true, false} {
		inRestartingReplicas(t, func(t *testing.T, r *restarting) {
			first, task := r.start(t)
			r.links[0].cut.Store(true)
			again, _ := r.next(t, task, 1)
			if away {
				first.finish("late")
				synctest.Wait()
			}
			r.links[0].cut.Store(false)
			if !away {
				first.finish("late")
			}
			time.Sleep(20 * time.Second)
			require.Equal(t, 1, r.total(t, "vitrine_tasks_fenced_total"))
			require.Equal(t, mcp.TaskWorking, r.state(t, 2, task).Status)
			again.finish("done")
			synctest.Wait()
			require.Equal(t, "done", r.state(t, 0, task).Result.Text())
		})
	}
}

// A task reaches the end of its life while the store is away, and then its handler returns. Its client and the log are told of
// the same end.
func TestHandlerReturnsAfterAnEndThatWaits(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		r.links[0].cut.Store(true)
		time.Sleep(10*time.Minute + time.Second)
		first.finish("late")
		synctest.Wait()
		late := r.logs[0].find("task.late")
		require.Len(t, late, 1)
		require.EqualValues(t, mcp.TaskFailed, late[0].attrs["status"])
		r.links[0].cut.Store(false)
		time.Sleep(20 * time.Second)
		state := r.state(t, 1, task)
		require.Equal(t, mcp.TaskFailed, state.Status)
		require.Contains(t, state.Error.Message, "longer than it may live")
	})
}

// A replica whose own task was taken over may take it back.
func TestTaskComesBack(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		r.links[0].cut.Store(true)
		second, _ := r.next(t, task, 1)
		r.links[0].cut.Store(false)
		time.Sleep(15 * time.Second)
		r.links[1].cut.Store(true)
		for range 600 {
			require.Equal(t, mcp.TaskWorking, r.state(t, 0, task).Status)
			time.Sleep(100 * time.Millisecond)
		}
		r.nobody(t) // the handler of the first run has not returned
		first.finish("late")
		third, _ := r.next(t, task, 0)
		second.finish("late, too")
		third.finish("done")
		result, err := r.clients[2].Task(task).Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "done", result.Text())
	})
}

// A subscriber of a task that this replica has run hears of it also when another replica has taken it over and is lost.
func TestSubscriberWhereATaskHasRun(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		sub, err := r.clients[0].Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{task.TaskID}})
		require.NoError(t, err)
		r.links[0].cut.Store(true)
		second, _ := r.next(t, task, 1)
		r.links[0].cut.Store(false)
		time.Sleep(15 * time.Second)
		first.finish("late")
		synctest.Wait()
		r.links[1].cut.Store(true)
		time.Sleep(lostAfter + 5*time.Second) // nobody asks for the task
		third := r.begun(t, 0)
		third.finish("done")
		second.finish("late, too")
		for {
			change, err := sub.Next(t.Context())
			require.NoError(t, err)
			state, err := change.TaskChange()
			require.NoError(t, err)
			if state.Status.Terminal() {
				require.Equal(t, "done", state.Result.Text())
				return
			}
		}
	})
}

// A store that takes the change of hands and does not say so has not lost the task.
func TestTakeoverWhoseAnswerIsLost(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		first, task := r.start(t)
		r.links[0].cut.Store(true)
		r.links[1].unsure.Store(1)
		again, _ := r.next(t, task, 1)
		require.Less(t, r.links[1].unsure.Load(), int32(1))
		again.finish("done")
		first.finish("late")
		synctest.Wait()
		require.Equal(t, "done", r.state(t, 2, task).Result.Text())
	})
}

// A replica whose store went away when it was about to take tasks over asks anew whether their replica is lost: that one
// may have come back meanwhile.
func TestTakeoverWhileTheStoreIsAway(t *testing.T) {
	inRestartingReplicas(t, func(t *testing.T, r *restarting) {
		one, task := r.start(t)
		two, other := r.start(t)
		r.links[0].cut.Store(true)
		r.links[1].refusal.Store(30)
		for began := time.Now(); r.links[1].refusal.Load() == 30; time.Sleep(100 * time.Millisecond) {
			require.Less(t, time.Since(began), lostAfter)
			r.state(t, 1, task)
			r.state(t, 1, other)
		}
		r.links[0].cut.Store(false)
		time.Sleep(2 * time.Minute)
		require.Negative(t, r.links[1].refusal.Load())
		r.nobody(t)
		for _, j := range []*job{one, two} {
			require.NoError(t, j.ctx.Err())
			j.finish("done")
		}
		synctest.Wait()
		for _, created := range []mcp.Task{task, other} {
			require.Equal(t, "done", r.state(t, 1, created).Result.Text())
		}
	})
}

// An outage that comes while a replica waits for the lease of another one says nothing about that: when the store is back, the
// lease is looked for anew, twice. So a replica that comes back late is not lost, and one that does not come back is.
//
// If the outage is over before the second look, only the link knows of it, which says that signals may have been missed. If it
// is not over, two things more have the wait begin anew: the mark cannot be written, and the one from before has expired. Any
// of the three is enough then.
func TestOutageBetweenTheTwoLooksForALease(t *testing.T) {
	const longestPause = 10 * time.Second // for which a replica does not ask a store that is away
	for name, tt := range map[string]struct {
		from, to time.Duration // of the outage, since the first look; the second one is after 15 s
		back     time.Duration // when the other replica goes on, also since the first look; 0 is never
	}{
		"over before the second look":  {time.Second, 4 * time.Second, 16 * time.Second},
		"not over at the second look":  {10 * time.Second, 20 * time.Second, 32 * time.Second},
		"the other replica stays away": {10 * time.Second, 20 * time.Second, 0},
		"over, and it stays away, too": {time.Second, 4 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inRestartingReplicas(t, func(t *testing.T, r *restarting) {
				first, task := r.start(t)
				time.Sleep(2 * time.Second) // its lease is renewed every five seconds, and lives for fifteen
				r.links[0].stopped.Store(true)
				time.Sleep(14 * time.Second)
				for looked := time.Now(); time.Since(looked) < time.Minute; time.Sleep(time.Second) {
					since := time.Since(looked)
					away := since >= tt.from && since < tt.to
					for _, l := range r.links {
						l.cut.Store(away)
					}
					r.links[0].stopped.Store(tt.back == 0 || since < tt.back)
					state, err := r.clients[1].Task(task).Get(t.Context())
					if away {
						require.ErrorContains(t, err, "away")
					} else if err == nil || since > tt.to+longestPause {
						require.NoError(t, err)
						require.Equal(t, mcp.TaskWorking, state.Status)
					}
					synctest.Wait()
					require.True(t, len(r.jobs[1]) == 0 || tt.back == 0 && since >= tt.to+15*time.Second, "after %v", since)
				}
				if tt.back == 0 {
					again := r.begun(t, 1)
					first.finish("late")
					again.finish("done")
				} else {
					r.nobody(t)
					require.NoError(t, first.ctx.Err())
					first.finish("done")
				}
				synctest.Wait()
				require.Equal(t, "done", r.state(t, 2, task).Result.Text())
			})
		})
	}
}

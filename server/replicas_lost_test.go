package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A link is one replica's way to the store, which can be cut.
type link struct {
	*store.Memory
	cut atomic.Bool
	// stopped is as for a process that is stopped: nothing fails, and nothing has an effect.
	stopped atomic.Bool
	full    atomic.Bool  // what would write fails
	silent  atomic.Bool  // what is published reaches nobody
	unsure  atomic.Int32 // so many updates of tasks take effect, and their answers are lost
	refusal atomic.Int32 // so many updates of tasks fail
	lag     atomic.Int64 // how long records of tasks are on their way
}

func (l *link) err() error {
	if l.cut.Load() {
		return errors.New("cut off")
	}
	return nil
}

// writeErr is err, and the error of an operation that would write.
func (l *link) writeErr() error {
	if l.full.Load() {
		return fmt.Errorf("%w: out of memory", store.ErrRefused)
	}
	return l.err()
}

func (l *link) Get(ctx context.Context, key string) ([]byte, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	value, err := l.Memory.Get(ctx, key)
	if strings.HasPrefix(key, "task/") {
		time.Sleep(time.Duration(l.lag.Load()))
	}
	return value, err
}

func (l *link) Claim(ctx context.Context, key string, value []byte, life time.Duration) (bool, error) {
	if err := l.writeErr(); err != nil {
		return false, err
	}
	return l.Memory.Claim(ctx, key, value, life)
}

func (l *link) Update(ctx context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	if err := l.writeErr(); err != nil {
		return err
	}
	if l.stopped.Load() {
		return nil
	}
	if strings.HasPrefix(key, "task/") && l.refusal.Add(-1) >= 0 {
		return errors.New("refused")
	}
	if err := l.Memory.Update(ctx, key, change); err != nil || !strings.HasPrefix(key, "task/") || l.unsure.Add(-1) < 0 {
		return err
	}
	return errors.New("the answer was lost")
}

func (l *link) Publish(ctx context.Context, channel string, message []byte) error {
	if err := l.err(); err != nil {
		return err
	}
	if l.silent.Load() {
		return nil
	}
	return l.Memory.Publish(ctx, channel, message)
}

func (l *link) Listen(ctx context.Context, channels []string, receive func(string, []byte), missed func()) error {
	return l.Memory.Listen(ctx, channels, func(channel string, message []byte) {
		if l.err() == nil && !l.stopped.Load() {
			receive(channel, message)
		}
	}, missed)
}

// A losable is three replicas with a link each, of which the first runs a task.
type losable struct {
	all   [3]*server.Server
	links [3]*link
	tel   [3]*telemetry.Telemetry
	logs  [3]*logRecorder
	job   *job
	tasks [3]*servertest.Task // as a client of each replica has it
	// start has the first replica run one more task, and returns it as a client of each replica has it.
	start func() (*job, [3]*servertest.Task)
	ahead atomic.Int64 // how far the store's clock is ahead: the store has nothing that would have ended by then
}

func inLosableReplicas(t *testing.T, test func(t *testing.T, r *losable)) {
	synctest.Test(t, func(t *testing.T) {
		r, shared := &losable{}, new(store.Memory)
		shared.Now = func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
		var clients [3]*servertest.Client
		var jobs [3]<-chan *job
		for i := range r.all {
			r.links[i], r.tel[i], r.logs[i] = &link{Memory: shared}, recording(t), &logRecorder{}
			r.all[i] = newReplica(t, server.WithStore(store.Store{Values: r.links[i], Signals: r.links[i]}), withReplicaTasks,
				server.WithTelemetry(r.tel[i]), server.WithLogger(slog.New(r.logs[i])))
			synctest.Wait() // it hears the others
			jobs[i] = addJob(r.all[i], "work", false, server.TaskOptions{TTL: 10 * time.Minute})
			clients[i] = connectTasks(t, r.all[i])
			t.Cleanup(func() {
				r.links[i].cut.Store(false)
				require.NoError(t, r.all[i].Shutdown(context.Background()))
			})
		}
		r.start = func() (j *job, tasks [3]*servertest.Task) {
			task, err := clients[0].StartTask(t.Context(), "work", nil)
			require.NoError(t, err)
			j = <-jobs[0]
			for i, c := range clients {
				tasks[i] = c.Task(task.Created)
			}
			return j, tasks
		}
		r.job, r.tasks = r.start()
		synctest.Wait()
		test(t, r)
	})
}

// lost returns how many tasks of other replicas a replica has ended.
func (r *losable) lost(t *testing.T, i int) (n int) {
	t.Helper()
	synctest.Wait()
	text := scrape(t, r.tel[i])
	_, rest, _ := strings.Cut(text, "vitrine_tasks_lost_total ")
	require.NotEmpty(t, rest)
	return int(rest[0] - '0')
}

// lostAfter is the longest time after which a task of a lost replica has failed, if a client asks for it.
const lostAfter = 35 * time.Second

// A task whose replica is lost fails, for all replicas, and it is counted once. The replica learns that when
// it comes back.
func TestTaskOfALostReplica(t *testing.T) {
	inLosableReplicas(t, func(t *testing.T, r *losable) {
		time.Sleep(time.Minute + time.Second) // a renewal is every five seconds, and not at this moment
		require.Equal(t, mcp.TaskWorking, status(t, r.tasks[1]), "the lease is renewed")
		r.links[0].cut.Store(true)
		for began := time.Now(); time.Since(began) < lostAfter; time.Sleep(100 * time.Millisecond) {
			for i := 1; i < 3; i++ {
				state := status(t, r.tasks[i])
				require.True(t, state == mcp.TaskWorking || time.Since(began) > 25*time.Second, "it may come back")
			}
		}
		for i := 1; i < 3; i++ {
			state, err := r.tasks[i].Get(t.Context())
			require.NoError(t, err)
			require.Equal(t, mcp.TaskFailed, state.Status)
			require.Equal(t, "the replica that ran the task is lost", state.Error.Message)
			require.Equal(t, map[string]any{"reason": "replica_lost"}, state.Error.Data)
		}
		require.Equal(t, 1, r.lost(t, 1)+r.lost(t, 2))
		var logged []logRecord
		for _, logs := range r.logs[1:] {
			logged = append(logged, logs.find("task.lost")...)
		}
		require.Len(t, logged, 1)
		require.Equal(t, "work", logged[0].attrs["tool"])
		require.Equal(t, []string{"servertest", "1"}, []string{logged[0].attrs["client"], logged[0].attrs["client_version"]})

		require.NoError(t, r.job.ctx.Err(), "the replica does not know")
		r.links[0].cut.Store(false)
		<-r.job.ctx.Done()
		require.ErrorIs(t, context.Cause(r.job.ctx), mcp.ErrReplicaLost)
		synctest.Wait()
		require.Equal(t, mcp.TaskFailed, status(t, r.tasks[0]))
		require.Contains(t, scrape(t, r.tel[0]), `vitrine_tasks_cancelled_total{cause="replica_lost",tool="work"} 1`)
		require.NotEmpty(t, r.logs[0].find("task.late"))
	})
}

// A replica that was stopped, and has missed what was said, finds that its lease was gone.
func TestReplicaThatWasStopped(t *testing.T) {
	inLosableReplicas(t, func(t *testing.T, r *losable) {
		r.links[0].stopped.Store(true)
		state, err := r.tasks[1].Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.TaskFailed, state.Status)
		require.NoError(t, r.job.ctx.Err())
		r.links[0].stopped.Store(false)
		time.Sleep(6 * time.Second)
		require.ErrorIs(t, context.Cause(r.job.ctx), mcp.ErrReplicaLost)
	})
}

// The end of a lost task is counted, also if the store does not say that it has taken it.
func TestLostTaskWhoseAnswerIsLost(t *testing.T) {
	inLosableReplicas(t, func(t *testing.T, r *losable) {
		r.links[0].cut.Store(true)
		r.links[1].unsure.Store(1)
		state, err := r.tasks[1].Await(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.TaskFailed, state.Status)
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, r.lost(t, 1))
		require.Len(t, r.logs[1].find("task.lost"), 1)
	})
}

// A subscriber is told that the replica of its task is lost, although nobody asks for the task.
func TestSubscriberOfALostReplica(t *testing.T) {
	inLosableReplicas(t, func(t *testing.T, r *losable) {
		sub, err := connectTasks(t, r.all[2]).Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{r.tasks[0].Created.TaskID}})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		r.links[0].cut.Store(true)
		began := time.Now()
		change, err := sub.Next(t.Context())
		require.NoError(t, err)
		state, err := change.TaskChange()
		require.NoError(t, err)
		require.Equal(t, mcp.TaskFailed, state.Status)
		require.LessOrEqual(t, time.Since(began), lostAfter+5*time.Second)
	})
}

// A replica that was away for a short time is not lost.
func TestReplicaThatComesBack(t *testing.T) {
	inLosableReplicas(t, func(t *testing.T, r *losable) {
		r.links[0].cut.Store(true)
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
			if time.Since(began) > 17*time.Second {
				r.links[0].cut.Store(false)
			}
			require.Equal(t, mcp.TaskWorking, status(t, r.tasks[1]))
		}
		r.job.finish("done")
		result, err := r.tasks[1].Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "done", result.Text())
	})
}

// After an outage of the store all leases are gone. No replica that still runs is lost, whether or not
// others have asked for its task meanwhile.
func TestOutageLosesNoReplica(t *testing.T) {
	for _, busy := range []bool{true, false} {
		for range 5 { // the pauses are random
			inLosableReplicas(t, func(t *testing.T, r *losable) {
				for _, l := range r.links {
					l.cut.Store(true)
				}
				for began := time.Now(); time.Since(began) < 3*time.Minute; time.Sleep(time.Second) {
					if busy {
						_, err := r.tasks[1].Get(t.Context())
						require.ErrorContains(t, err, "away")
					}
				}
				for _, l := range r.links {
					l.cut.Store(false)
				}
				for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Second) {
					for _, task := range r.tasks[1:] {
						state, err := task.Get(t.Context())
						if err == nil || time.Since(began) > 11*time.Second {
							require.NoError(t, err)
							require.Equal(t, mcp.TaskWorking, state.Status)
						}
					}
				}
				r.job.finish("done")
				result, err := r.tasks[2].Result(t.Context())
				require.NoError(t, err)
				require.Equal(t, "done", result.Text())
				require.Zero(t, r.lost(t, 1)+r.lost(t, 2))
			})
		}
	}
}

// While a store is full it is read, and leases cannot be renewed. No replica that still runs is lost, also if others ask
// for its task at the moment when the store has room again.
func TestFullStoreLosesNoReplica(t *testing.T) {
	for seconds := range 20 { // of the time in which a replica is given up
		inLosableReplicas(t, func(t *testing.T, r *losable) {
			for _, l := range r.links {
				l.full.Store(true)
			}
			full := time.Duration(time.Minute + time.Duration(seconds)*time.Second)
			for began := time.Now(); time.Since(began) < full+time.Minute; time.Sleep(time.Second) {
				for _, l := range r.links {
					l.full.Store(time.Since(began) < full)
				}
				require.Equal(t, mcp.TaskWorking, status(t, r.tasks[1]))
			}
			r.job.finish("done")
			result, err := r.tasks[2].Result(t.Context())
			require.NoError(t, err)
			require.Equal(t, "done", result.Text())
			require.Zero(t, r.lost(t, 1)+r.lost(t, 2))
		})
	}
}

// A replica that has come back to its lease is not lost because the store loses all that it has before others look for the
// lease again.
func TestEmptiedStoreLosesNoReplica(t *testing.T) {
	for tenths := range 60 { // of a second, before the second look
		inLosableReplicas(t, func(t *testing.T, r *losable) {
			raw, err := r.links[1].Get(t.Context(), "task/{"+r.tasks[0].Created.TaskID+"}")
			require.NoError(t, err)
			var record struct{ Replica string }
			require.NoError(t, json.Unmarshal(raw, &record))
			require.NoError(t, r.links[0].Memory.Update(t.Context(), "replica/{"+record.Replica+"}",
				func([]byte) ([]byte, time.Duration, error) { return nil, 0, nil }))
			require.Equal(t, mcp.TaskWorking, status(t, r.tasks[1]))
			time.Sleep(15*time.Second - time.Duration(tenths)*100*time.Millisecond)
			r.ahead.Store(int64(1000 * time.Hour))
			began, tasks := r.start()
			for range 60 {
				for _, task := range tasks[1:] { // the second replica begins to look now
					require.Equal(t, mcp.TaskWorking, status(t, task), "%d tenths", tenths)
				}
				time.Sleep(time.Second)
			}
			began.finish("done")
			result, err := tasks[1].Result(t.Context())
			require.NoError(t, err)
			require.Equal(t, "done", result.Text())
		})
	}
}

// A store that refuses what is written has lost nothing of others: no client is told that lists may have changed. What a
// task could not store is stored when there is room again.
func TestFullStoreTellsNoListener(t *testing.T) {
	inLosableReplicas(t, func(t *testing.T, r *losable) {
		var outs []*eventWriter
		for _, srv := range r.all[:2] {
			out, end := hear(srv, open(t, srv))
			defer end()
			outs = append(outs, out)
		}
		for _, l := range r.links {
			l.full.Store(true)
		}
		r.job.finish("done")
		time.Sleep(10 * time.Minute)
		for _, out := range outs {
			require.Empty(t, out.written)
		}
		for _, l := range r.links {
			l.full.Store(false)
		}
		time.Sleep(30 * time.Second)
		result, err := r.tasks[1].Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "done", result.Text())
	})
}

// The end of a task while the store is away is stored when it is back: its result, that this is too large, or
// the end of its life.
func TestTaskEndsWhileTheStoreIsAway(t *testing.T) {
	for name, tt := range map[string]struct {
		result string
		lasts  time.Duration
		want   string
	}{
		"result":      {"done", time.Minute, ""},
		"too large":   {strings.Repeat("x", 9<<20), time.Minute, "too large"},
		"end of life": {"", 11 * time.Minute, "longer than it may live"},
	} {
		t.Run(name, func(t *testing.T) {
			inLosableReplicas(t, func(t *testing.T, r *losable) {
				r.links[0].cut.Store(true)
				r.links[1].cut.Store(true)
				if tt.result != "" {
					r.job.finish(tt.result)
				}
				time.Sleep(tt.lasts)
				r.links[0].cut.Store(false)
				r.links[1].cut.Store(false)
				time.Sleep(20 * time.Second)
				state, err := r.tasks[2].Get(t.Context())
				require.NoError(t, err)
				if tt.want == "" {
					require.Equal(t, tt.result, state.Result.Text())
				} else {
					require.Contains(t, state.Error.Message, tt.want)
				}
				require.Contains(t, scrape(t, r.tel[0]), `vitrine_tasks{status="working"} 0`)
			})
		})
	}
}

// An answer for a replica that does not listen is lost, and counted. That is no failure of the store. It costs twenty
// operations, but only a quarter of the signals that may be on their way are published again: clients can make up names.
func TestAnswerForALostReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := recording(t)
		a, _, shared := replicas(t, server.WithTelemetry(tel), server.WithLimits(server.Limits{MaxPendingSignals: 8}))
		session := open(t, a)
		synctest.Wait()
		shared.used()
		for range 10 { // failures after which the store would be away
			require.Equal(t, 202, post(a, `{"jsonrpc":"2.0","id":"itisgone-session1-1","result":{}}`, session).Code)
			synctest.Wait()
		}
		time.Sleep(40 * time.Second)
		require.Equal(t, 10+2*19, shared.used())
		text := scrape(t, tel)
		require.Contains(t, text, `vitrine_signals_total{outcome="lost"} 10`)
		require.Contains(t, text, `vitrine_limit_reached_total{limit="max_pending_signals"} 8`)
		require.Contains(t, text, `vitrine_store_operations_total{operation="publish",outcome="failed"} 0`)
		require.Contains(t, text, "vitrine_store_away_seconds 0\n")
	})
}

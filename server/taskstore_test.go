package server_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A sharedStore keeps tasks as a store that replicas share does: as bytes, and it tells
// everybody of each change.
type sharedStore struct {
	mu      sync.Mutex
	records map[string][]byte
	watch   []func(*store.TaskRecord)
	down    error
	hold    chan struct{} // if not nil, holds Create back
}

func newSharedStore() *sharedStore { return &sharedStore{records: map[string][]byte{}} }

func (s *sharedStore) Watch(changed func(*store.TaskRecord)) { s.watch = append(s.watch, changed) }

func (s *sharedStore) Create(_ context.Context, rec *store.TaskRecord) error {
	if s.hold != nil {
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return s.down
	}
	return s.write(rec)
}

func (s *sharedStore) write(rec *store.TaskRecord) (err error) {
	s.records[rec.TaskID], err = json.Marshal(rec)
	return err
}

func (s *sharedStore) Load(_ context.Context, id string) (*store.TaskRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(id)
}

func (s *sharedStore) read(id string) (*store.TaskRecord, error) {
	raw, found := s.records[id]
	switch {
	case s.down != nil:
		return nil, s.down
	case !found:
		return nil, store.ErrNoTask
	}
	rec := new(store.TaskRecord)
	return rec, json.Unmarshal(raw, rec)
}

func (s *sharedStore) Update(_ context.Context, id string, change func(*store.TaskRecord) error) (*store.TaskRecord, error) {
	s.mu.Lock()
	rec, err := s.read(id)
	if err == nil {
		// As after a conflict: the first try is thrown away.
		again, _ := s.read(id)
		_ = change(again)
		if err = change(rec); err == nil {
			err = s.write(rec)
		}
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for _, changed := range s.watch {
		told, _ := s.Load(context.Background(), id)
		changed(told)
	}
	return rec, nil
}

func (s *sharedStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

func (s *sharedStore) status(id string) mcp.TaskStatus {
	rec, err := s.Load(context.Background(), id)
	if err != nil {
		return mcp.TaskStatus(err.Error())
	}
	return rec.Status
}

func (s *sharedStore) failure(id string) string {
	rec, _ := s.Load(context.Background(), id)
	raw, _ := json.Marshal(rec.Error, json.Deterministic(true))
	return string(raw)
}

// A client may ask any replica. Its answers reach the handler in another process.
func TestTaskAcrossReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSharedStore()
		replica := func() (*server.Server, <-chan *job) {
			srv := newServer(t, server.WithTasks(server.Tasks{Store: store, PollInterval: 100 * time.Millisecond}))
			addSurvey(srv)
			return srv, addJob(srv, "work", false, server.TaskOptions{})
		}
		one, jobs := replica()
		two, _ := replica()
		here, there := connectTasks(t, one), connectTasks(t, two)

		task, err := here.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		j := <-jobs
		require.NoError(t, there.Task(task.Created).Cancel(t.Context()))
		<-j.ctx.Done()
		require.ErrorIs(t, context.Cause(j.ctx), mcp.ErrClientCancelled)

		task, err = here.StartTask(t.Context(), "survey", nil)
		require.NoError(t, err)
		far := there.Task(task.Created)
		synctest.Wait()
		state, err := far.Get(t.Context())
		require.NoError(t, err)
		require.Len(t, state.Questions, 2)
		require.JSONEq(t, `{"message":"Your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`,
			string(state.Questions["name"].Params))
		// What is wrong with an answer is for the handler's replica to find out.
		require.NoError(t, far.Answer(t.Context(), map[string]any{"name": accept("name", 5), "town": accept("town", "Bern")}))
		synctest.Wait()
		state, err = far.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.TaskInputRequired, state.Status)
		require.Len(t, state.Questions, 1)
		require.NoError(t, far.Answer(t.Context(), map[string]any{"name": accept("name", "Ada")}))
		result, err := far.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "Ada of Bern", result.Text())
	})
}

// gatedLoads is a store that answers no Load while its gate is closed.
type gatedLoads struct {
	*sharedStore
	gate chan struct{}
}

func (s gatedLoads) Load(ctx context.Context, id string) (*store.TaskRecord, error) {
	<-s.gate
	return s.sharedStore.Load(ctx, id)
}

// A slow store does not delay notifications of changes that it has reported.
func TestTaskNotificationsDoNotReadTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := gatedLoads{newSharedStore(), make(chan struct{})}
		srv := newServer(t, server.WithTasks(server.Tasks{Store: store}))
		jobs := addJob(srv, "work", false, server.TaskOptions{})
		client := connectTasks(t, srv)
		task, err := client.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		j := <-jobs
		open := time.AfterFunc(0, func() { store.gate <- struct{}{} }) // for the listener's own
		sub, err := client.Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{task.Created.TaskID}, ToolsListChanged: true})
		require.NoError(t, err)
		require.False(t, open.Stop())

		begun := time.Now()
		j.finish("done")
		change, err := sub.Next(t.Context())
		require.NoError(t, err)
		state, err := change.TaskChange()
		require.NoError(t, err)
		require.Equal(t, "done", state.Result.Text())
		addJob(srv, "other", false, server.TaskOptions{})
		change, err = sub.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.NotificationToolsListChanged, change.Method)
		require.Zero(t, time.Since(begun))
		close(store.gate)
	})
}

// If the store is down, only what needs it fails.
func TestTaskStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		tel, err := telemetry.New()
		require.NoError(t, err)
		store := newSharedStore()
		srv := newServer(t, server.WithLogger(slog.New(logs)), server.WithTasks(server.Tasks{Store: store}), server.WithTelemetry(tel))
		jobs := addJob(srv, "work", false, server.TaskOptions{TTL: time.Minute})
		server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
		client := connectTasks(t, srv)
		task, err := client.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		j := <-jobs
		require.Contains(t, scrape(t, tel), `vitrine_tasks{status="working"} 1`)

		store.fail(errors.New("connection refused to 10.0.0.7"))
		unreachable := mcp.NewError(mcp.CodeInternalError, "internal error: the tasks cannot be reached")
		_, err = task.Get(t.Context())
		require.Equal(t, unreachable, err)
		require.Equal(t, unreachable, task.Cancel(t.Context()))
		_, err = client.Listen(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{task.Created.TaskID}})
		require.Equal(t, unreachable, err)
		require.NoError(t, j.call.Progress(1, 2, "goes on"))
		result, err := client.CallTool(t.Context(), "hi", nil)
		require.NoError(t, err)
		require.Equal(t, "hello", result.Text())

		detached := make(chan error, 1)
		go func() {
			j := <-jobs
			detached <- j.detach
			j.finish("without a task")
		}()
		result, err = client.CallTool(t.Context(), "work", nil)
		require.NoError(t, err)
		require.Equal(t, "without a task", result.Text(), "a handler may go on without")
		require.Equal(t, unreachable, <-detached)

		<-j.ctx.Done()
		require.ErrorIs(t, context.Cause(j.ctx), mcp.ErrDeadline, "its life ends all the same")
		synctest.Wait()
		failed := logs.find("task.store")
		var methods []any
		for _, line := range failed {
			methods = append(methods, line.attrs["method"])
			require.Equal(t, "servertest", line.attrs["client"])
			require.Contains(t, line.attrs["error"], "10.0.0.7")
		}
		require.Equal(t, []any{
			"tasks/get", "tasks/cancel", "subscriptions/listen", "tools/call", "tools/call", "tools/call", "tools/call",
		}, methods, "what clients ask, a message, a second task, and the end of the first one: of its life, and of its handler")
		require.Equal(t, "work", failed[len(failed)-1].attrs["target"])
		text := scrape(t, tel)
		require.Contains(t, text, `vitrine_tasks{status="working"} 0`)
		require.Contains(t, text, "vitrine_tasks_unstored_total 1\n")
		require.NoError(t, srv.Shutdown(t.Context()))
		require.NoError(t, tel.Shutdown(t.Context()))
	})
}

// A store that panics is like one that is down, on every goroutine.
func TestTaskStorePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		store := newSharedStore()
		srv := newServer(t, server.WithLogger(slog.New(logs)), server.WithTasks(server.Tasks{Store: panicking{store}}))
		jobs := addJob(srv, "work", false, server.TaskOptions{TTL: time.Minute})
		client := connectTasks(t, srv)
		task, err := client.StartTask(t.Context(), "work", nil)
		require.NoError(t, err)
		j := <-jobs
		store.fail(errors.New("from now on it panics"))
		_, err = task.Get(t.Context())
		require.ErrorContains(t, err, "the tasks cannot be reached")
		require.NoError(t, j.call.Progress(1, 2, "now"))
		require.NoError(t, j.call.Progress(1, 2, "later, by a timer"))
		time.Sleep(time.Second)
		_, err = j.call.Elicit("name", textForm("name"))
		require.ErrorContains(t, err, "the tasks cannot be reached")
		<-j.ctx.Done() // its life is over, which a timer has noticed
		synctest.Wait()
		require.Contains(t, logs.find("task.store")[0].attrs["error"], "taskstore_test.go", "with its stack")
		go func() { (<-jobs).finish("all the same") }()
		result, err := client.CallTool(t.Context(), "work", nil)
		require.NoError(t, err)
		require.Equal(t, "all the same", result.Text())
		require.NoError(t, srv.Shutdown(t.Context()))
	})
}

// panicking panics where another store returns an error.
type panicking struct{ *sharedStore }

func (p panicking) Create(ctx context.Context, rec *store.TaskRecord) error {
	if err := p.sharedStore.Create(ctx, rec); err != nil {
		panic(err)
	}
	return nil
}

func (p panicking) Load(ctx context.Context, id string) (*store.TaskRecord, error) {
	rec, err := p.sharedStore.Load(ctx, id)
	if err != nil {
		panic(err)
	}
	return rec, nil
}

func (p panicking) Update(ctx context.Context, id string, change func(*store.TaskRecord) error) (*store.TaskRecord, error) {
	rec, err := p.sharedStore.Update(ctx, id, change)
	if err != nil {
		panic(err)
	}
	return rec, nil
}

// A handler may return while another of its goroutines calls Detach. The call is answered once,
// and nothing is lost.
func TestReturnWhileDetaching(t *testing.T) {
	for name, down := range map[string]error{"stored": nil, "store is down": errors.New("down")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSharedStore()
				store.hold = make(chan struct{})
				srv := newServer(t, server.WithTasks(server.Tasks{Store: store, PollInterval: time.Second}))
				detached := make(chan error, 2)
				server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional},
					func(ctx context.Context, c *server.Call, _ none) (string, error) {
						for range 2 {
							go func() { _, err := c.Detach(ctx, server.TaskOptions{}); detached <- err }()
						}
						time.Sleep(time.Second)
						return "early", nil
					})
				p := dial(t, srv)
				p.send(withCaps(1, "tools/call", withTasks, call("work", `{}`)))
				require.ErrorContains(t, <-detached, "a task already", "one of the two is too late")
				time.Sleep(2 * time.Second)
				p.silent()
				store.fail(down)
				close(store.hold)
				err := <-detached
				answer := p.recv()
				if down != nil {
					require.Error(t, err)
					require.Contains(t, answer, `"text":"early"`)
				} else {
					require.NoError(t, err)
					require.Contains(t, answer, `"resultType":"task"`)
					synctest.Wait()
					for id := range store.records {
						require.Equal(t, mcp.TaskCompleted, store.status(id))
					}
				}
				p.silent()
				require.NoError(t, srv.Shutdown(t.Context()))
			})
		})
	}
}

// The default store removes each task when it has expired.
func TestEndedTasksAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newTaskServer(t, server.WithTelemetry(tel), server.WithLimits(server.Limits{TaskGrace: time.Second}))
		var tasks []*servertest.Task
		for _, ttl := range []time.Duration{3, 1, 2} {
			jobs := addJob(srv, string(rune('a'+ttl)), false, server.TaskOptions{TTL: ttl * time.Minute})
			task, err := connectTasks(t, srv).StartTask(t.Context(), string(rune('a'+ttl)), nil)
			require.NoError(t, err)
			(<-jobs).finish("done")
			tasks = append(tasks, task)
		}
		count := func() string {
			synctest.Wait()
			return scrape(t, tel)
		}
		require.Contains(t, count(), `vitrine_tasks{status="completed"} 3`)
		for left := 2; left >= 0; left-- {
			time.Sleep(time.Minute)
			require.Contains(t, count(), `vitrine_tasks{status="completed"} `+string(rune('0'+left)), "without anybody asking")
		}
		for _, task := range tasks {
			_, err := task.Get(t.Context())
			require.Equal(t, errNoSuchTask, err)
		}
		require.NoError(t, srv.Shutdown(t.Context()))
		require.NoError(t, tel.Shutdown(t.Context()))
	})
}

// A handler keeps its request while it runs as a task. The store in memory counts it. With another
// store it counts as a message that is being served.
func TestRequestOfATaskCountsWithAnyStore(t *testing.T) {
	for name, tasks := range map[string]server.Tasks{"in memory": {}, "shared": {Store: newSharedStore()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tel, err := telemetry.New()
				require.NoError(t, err)
				srv := newServer(t, server.WithTasks(tasks), server.WithTelemetry(tel))
				finish := make(chan struct{})
				server.AddTool(srv, server.Tool{Name: "work", Task: server.TaskOptional},
					func(ctx context.Context, c *server.Call, in struct{ Text string }) (string, error) {
						_, err := c.Detach(ctx, server.TaskOptions{})
						<-finish
						return "done", err
					})
				held := func() int {
					synctest.Wait()
					sum := 0
					for _, limit := range []string{"max_body_bytes_pending", "max_task_bytes"} {
						if _, rest, found := strings.Cut(scrape(t, tel), `vitrine_share_used{limit="`+limit+`"} `); found {
							value, _, _ := strings.Cut(rest, "\n")
							n, err := strconv.ParseFloat(value, 64)
							require.NoError(t, err)
							sum += int(n)
						}
					}
					return sum
				}
				client := connectTasks(t, srv)
				task, err := client.StartTask(t.Context(), "work", map[string]any{"Text": strings.Repeat("x", 100_000)})
				require.NoError(t, err)
				require.InDelta(t, 101_000, held(), 1000)
				require.InDelta(t, 100_000, heldBytes(t, tel), 1000, "the value of its arguments")
				close(finish)
				_, err = task.Result(t.Context())
				require.NoError(t, err)
				require.Less(t, held(), 2000)
				require.Zero(t, heldBytes(t, tel))
				require.NoError(t, srv.Shutdown(t.Context()))
			})
		})
	}
}

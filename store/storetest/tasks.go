package storetest

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// Tasks tests an implementation of [store.TaskStore]. open returns a new store, on which nothing was called yet. It may
// be a view on the same tasks each time. wait lets so much time pass for the implementation.
func Tasks(t *testing.T, open func(t *testing.T) store.TaskStore, wait func(time.Duration)) {
	t.Run("create", func(t *testing.T) { testCreateTask(t, watch(t, open)) })
	t.Run("update", func(t *testing.T) { testUpdateTask(t, watch(t, open)) })
	t.Run("concurrent updates", func(t *testing.T) { testConcurrentTasks(t, "concurrent", watch(t, open)) })
	t.Run("end", func(t *testing.T) { testTaskEnd(t, watch(t, open), wait) })
}

// SharedTasks tests an implementation of [store.TaskStore] for several processes, beside [Tasks]. open returns one more
// view on the same tasks, as another process has it.
func SharedTasks(t *testing.T, open func(t *testing.T) store.TaskStore) {
	t.Run("another replica", func(t *testing.T) { testTaskElsewhere(t, watch(t, open), watch(t, open)) })
	t.Run("concurrent updates of replicas", func(t *testing.T) {
		testConcurrentTasks(t, "replicas", watch(t, open), watch(t, open))
	})
}

// A watched store tells what it has called its function with.
type watched struct {
	store.TaskStore
	told chan *store.TaskRecord
}

func watch(t *testing.T, open func(*testing.T) store.TaskStore) *watched {
	w := &watched{open(t), make(chan *store.TaskRecord, 1<<10)}
	w.Watch(func(rec *store.TaskRecord) { w.told <- rec })
	return w
}

// expectTold waits until the store has told of a revision of a task. It may tell of others before.
func (w *watched) expectTold(t *testing.T, id string, revision int64) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case rec := <-w.told:
			if rec.TaskID == id && rec.Revision == revision {
				return
			}
		case <-late:
			t.Errorf("nothing was told of revision %d of task %s", revision, id) // also for other goroutines than that of the test
			return
		}
	}
}

// newTask returns a record in which all fields are set that a running task has.
func newTask(id string) *store.TaskRecord {
	now, ttl := time.Now().UTC().Truncate(time.Millisecond), int64(60_000)
	return &store.TaskRecord{
		Task: mcp.Task{
			TaskID: id, Status: mcp.TaskInputRequired, StatusMessage: "at work", CreatedAt: now, LastUpdatedAt: now, TTL: &ttl, PollInterval: 500,
		},
		Principal: "principal", Tool: "tool", Revision: 1, Expires: now.Add(time.Minute), Replica: "replica", Runs: 2, HandedOver: true,
		Call: jsontext.Value(`{"arguments":{}}`), Client: "client", ClientVersion: "1", Trace: "00-1-1-01",
		InputRequests:  map[string]mcp.InputRequest{"question": {Method: mcp.MethodElicitationCreate, Params: jsontext.Value(`{"message":"?"}`)}},
		InputResponses: map[string]jsontext.Value{"answer": jsontext.Value(`{"action":"accept"}`)},
	}
}

// mustCreate creates a task, and returns what it encodes to.
func mustCreate(t *testing.T, s store.TaskStore, rec *store.TaskRecord) (want map[string]any) {
	t.Helper()
	want = encoded(t, rec)
	if err := s.Create(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	return want
}

// expectTask expects that a stored task encodes so.
func expectTask(t *testing.T, s store.TaskStore, id string, want map[string]any) *store.TaskRecord {
	t.Helper()
	rec, err := s.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if got := encoded(t, rec); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	return rec
}

func encoded(t *testing.T, rec *store.TaskRecord) (members map[string]any) {
	t.Helper()
	raw, err := json.Marshal(rec)
	if err == nil {
		err = json.Unmarshal(raw, &members)
	}
	if err != nil {
		t.Fatal(err)
	}
	return members
}

// expectNoTask expects that neither Load nor Update finds a task.
func expectNoTask(t *testing.T, s store.TaskStore, id string) {
	t.Helper()
	if _, err := s.Load(t.Context(), id); !errors.Is(err, store.ErrNoTask) {
		t.Fatalf("Load of task %s: %v, want ErrNoTask", id, err)
	}
	unexpected := errors.New("change was called")
	if _, err := s.Update(t.Context(), id, func(*store.TaskRecord) error { return unexpected }); !errors.Is(err, store.ErrNoTask) {
		t.Fatalf("Update of task %s: %v, want ErrNoTask", id, err)
	}
}

// testCreateTask: what was created is found, as it was.
func testCreateTask(t *testing.T, s store.TaskStore) {
	expectNoTask(t, s, "create")
	one := mustCreate(t, s, newTask("create"))
	two := mustCreate(t, s, newTask("create2"))
	expectTask(t, s, "create", one)
	expectTask(t, s, "create2", two)
}

// testUpdateTask: an update is stored, returned and told, and one that returns an error changes nothing.
func testUpdateTask(t *testing.T, s *watched) {
	before := mustCreate(t, s, newTask("update"))
	loaded := expectTask(t, s, "update", before)
	own := errors.New("an error of the caller")
	_, err := s.Update(t.Context(), "update", func(rec *store.TaskRecord) error {
		rec.Status, rec.InputRequests["more"] = mcp.TaskCancelled, mcp.InputRequest{}
		return own
	})
	if !errors.Is(err, own) {
		t.Fatalf("Update: %v, want the error of change", err)
	}
	expectTask(t, s, "update", before)
	done, err := s.Update(t.Context(), "update", func(rec *store.TaskRecord) error {
		if !reflect.DeepEqual(encoded(t, rec), before) {
			t.Errorf("change has got %v, want %v", encoded(t, rec), before)
		}
		rec.Revision, rec.Status, rec.Result, rec.Call = 2, mcp.TaskCompleted, jsontext.Value(`{"content":[]}`), nil
		rec.InputRequests, rec.InputResponses = nil, nil
		return nil
	})
	if err != nil || done.Status != mcp.TaskCompleted {
		t.Fatalf("Update: %v, %v", done, err)
	}
	expectTask(t, s, "update", encoded(t, done))
	s.expectTold(t, "update", 2)
	if !reflect.DeepEqual(encoded(t, loaded), before) {
		t.Fatalf("a record that was loaded before is now %v", encoded(t, loaded))
	}
	failed, err := s.Update(t.Context(), "update", func(rec *store.TaskRecord) error {
		rec.Revision, rec.Status, rec.Result, rec.Error = 3, mcp.TaskFailed, nil, mcp.NewError(mcp.CodeInternalError, "it has failed")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expectTask(t, s, "update", encoded(t, failed))
	s.expectTold(t, "update", 3)
}

// testConcurrentTasks: no update is lost, and each is told where it was made.
func testConcurrentTasks(t *testing.T, id string, views ...*watched) {
	const writers, each = 4, 25
	mustCreate(t, views[0], newTask(id))
	var wg sync.WaitGroup
	for i := range writers {
		s := views[i%len(views)]
		wg.Go(func() {
			for range each {
				rec, err := s.Update(t.Context(), id, func(rec *store.TaskRecord) error {
					rec.Revision++
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				if i < len(views) {
					s.expectTold(t, id, rec.Revision)
				}
			}
		})
	}
	wg.Wait()
	for _, s := range views {
		if rec, err := s.Load(t.Context(), id); err != nil || rec.Revision != 1+writers*each {
			t.Fatalf("%v, %v, want revision %d", rec, err, 1+writers*each)
		}
	}
}

// testTaskEnd: a task ends when it expires, by the time that its record has last.
func testTaskEnd(t *testing.T, s store.TaskStore, wait func(time.Duration)) {
	for id, lives := range map[string]struct{ first, then time.Duration }{
		"shortened": {time.Hour, time.Second}, "extended": {5 * time.Second, time.Hour},
	} {
		rec := newTask(id)
		rec.Expires = rec.CreatedAt.Add(lives.first)
		mustCreate(t, s, rec)
		_, err := s.Update(t.Context(), id, func(rec *store.TaskRecord) error {
			rec.Revision, rec.Expires = 2, rec.CreatedAt.Add(lives.then)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wait(6 * time.Second)
	expectNoTask(t, s, "shortened")
	if rec, err := s.Load(t.Context(), "extended"); err != nil || rec.Revision != 2 {
		t.Fatalf("%v, %v, want revision 2", rec, err)
	}
}

// testTaskElsewhere: a replica finds and changes the task of another one, which is told.
func testTaskElsewhere(t *testing.T, a, b *watched) {
	expectTask(t, b, "elsewhere", mustCreate(t, a, newTask("elsewhere")))
	rec, err := b.Update(t.Context(), "elsewhere", func(rec *store.TaskRecord) error {
		rec.Revision, rec.Status = 2, mcp.TaskCancelled
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expectTask(t, a, "elsewhere", encoded(t, rec))
	a.expectTold(t, "elsewhere", 2)
	b.expectTold(t, "elsewhere", 2)
}

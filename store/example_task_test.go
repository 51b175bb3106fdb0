package store_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// A jsonTasks is a store of tasks that keeps records as bytes, as a database does.
type jsonTasks struct {
	changed func(*store.TaskRecord)

	mu      sync.Mutex // guards the rest
	records map[string][]byte
}

func (s *jsonTasks) Watch(changed func(*store.TaskRecord)) { s.changed = changed }

func (s *jsonTasks) Create(_ context.Context, rec *store.TaskRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(rec)
}

func (s *jsonTasks) Load(_ context.Context, id string) (*store.TaskRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(id)
}

func (s *jsonTasks) Update(_ context.Context, id string, change func(*store.TaskRecord) error) (*store.TaskRecord, error) {
	rec, err := s.update(id, change)
	if err == nil {
		s.changed(rec) // not under the lock: it may use the store
	}
	return rec, err
}

func (s *jsonTasks) update(id string, change func(*store.TaskRecord) error) (*store.TaskRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, err := s.read(id)
	if err != nil {
		return nil, err
	}
	if err := change(rec); err != nil {
		return nil, err
	}
	return rec, s.write(rec)
}

func (s *jsonTasks) write(rec *store.TaskRecord) (err error) {
	s.records[rec.TaskID], err = json.Marshal(rec)
	return err
}

func (s *jsonTasks) read(id string) (*store.TaskRecord, error) {
	raw, found := s.records[id]
	if !found {
		return nil, store.ErrNoTask
	}
	rec := new(store.TaskRecord)
	if err := json.Unmarshal(raw, rec); err != nil {
		return nil, err
	}
	if !time.Now().Before(rec.Expires) {
		delete(s.records, id)
		return nil, store.ErrNoTask
	}
	return rec, nil
}

// A server takes it as the field Store of server.Tasks, and calls it as follows.
func ExampleTaskStore() {
	var tasks store.TaskStore = &jsonTasks{records: map[string][]byte{}}
	tasks.Watch(func(rec *store.TaskRecord) { fmt.Println("changed:", rec.Status) })
	ctx := context.Background()
	err := tasks.Create(ctx, &store.TaskRecord{
		Task: mcp.Task{TaskID: "a", Status: mcp.TaskWorking}, Tool: "report", Expires: time.Now().Add(time.Hour),
	})
	fmt.Println(err)
	rec, err := tasks.Update(ctx, "a", func(rec *store.TaskRecord) error {
		rec.Status = mcp.TaskCompleted
		return nil
	})
	fmt.Println(rec.Tool, rec.Status, err)
	_, err = tasks.Load(ctx, "b")
	fmt.Println(err)

	// Output:
	// <nil>
	// changed: completed
	// report completed <nil>
	// store: no such task
}

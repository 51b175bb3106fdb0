package task

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

// replicas connects the task stores of replicas in one process.
type replicas struct {
	store.Memory
	mu     sync.Mutex // guards stores
	stores []*shared
	full   atomic.Bool // changes are refused after the value was read
	// writes, if not nil, is called before each change is stored.
	writes func()
}

// Update implements [store.Values].
func (w *replicas) Update(ctx context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	return w.Memory.Update(ctx, key, func(old []byte) ([]byte, time.Duration, error) {
		value, life, err := change(old)
		switch {
		case err != nil:
		case w.full.Load():
			err = store.ErrRefused
		case w.writes != nil:
			w.writes()
		}
		return value, life, err
	})
}

// A link is that of one of them.
type link struct {
	*replicas
	name string
	done context.Context
}

func (w link) Replica() string           { return w.name }
func (w link) TaskValues() store.Values  { return w.replicas }
func (w link) LeaseValues() store.Values { return w.replicas }

func (w link) Run(work func(context.Context)) bool {
	go work(w.done)
	return true
}

// TellTask has the other replicas read the task, as a service does.
func (w link) TellTask(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.stores {
		if other.link.Replica() != w.name {
			go func() {
				if rec, err := other.Load(w.done, id); err == nil {
					other.changed(rec)
				}
			}()
		}
	}
}

// open returns the store of one more replica.
func (w *replicas) open(t *testing.T) store.TaskStore {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := link{w, string(rune('a' + len(w.stores))), t.Context()}
	s := newShared(of, limits.Limits{}.WithDefaults, originOf, func(string) {})
	s.lease.needed, s.lease.lapsed, s.lease.renewedAgain = func() bool { return true }, func() {}, func(context.Context) {}
	s.here = func(string) bool { return false }
	w.stores = append(w.stores, s)
	return s
}

// The stores of a server pass the tests that others must pass.
func TestConformance(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		storetest.Tasks(t, func(*testing.T) store.TaskStore {
			return newMemory(limits.Limits{}.WithDefaults, originOf, func(string) {})
		}, time.Sleep)
	})
	t.Run("shared", func(t *testing.T) {
		t.Parallel()
		w := new(replicas)
		storetest.Tasks(t, w.open, time.Sleep)
		storetest.SharedTasks(t, w.open)
	})
}

package task

import (
	"maps"
	"sync"

	"github.com/vitrine-mcp/vitrine/store"
)

// The unsaved are ends of tasks that could not be stored, because the store was away. They are stored when
// it is back. The ledger bounds them.
type unsaved struct {
	mu   sync.Mutex // guards ends
	ends map[string]lateEnd
}

type lateEnd struct {
	end   func(*store.TaskRecord) error
	named []any // the fields by which logs name the task
}

func (u *unsaved) add(id string, end lateEnd) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ends == nil {
		u.ends = map[string]lateEnd{}
	}
	u.ends[id] = end
}

// drop forgets the end of a task, and reports whether there was one.
func (u *unsaved) drop(id string) (had bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, had = u.ends[id]
	delete(u.ends, id)
	return had
}

// all returns a copy of the ends.
func (u *unsaved) all() map[string]lateEnd {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.ends)
}

func (u *unsaved) empty() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.ends) == 0
}

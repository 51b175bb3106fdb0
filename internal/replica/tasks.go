package replica

import (
	"context"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/store"
)

// A taskSignal tells which tasks have changed. The others read those that matter to them.
type taskSignal struct {
	IDs []string `json:"ids,omitempty"`
	// All says that any task may have changed.
	All bool `json:"all,omitempty"`
}

// A taskOutbox has the tasks whose changes are to be published, each of them once. If there are too many
// they become one signal that says that any task may have changed.
type taskOutbox struct {
	mu      sync.Mutex // guards the rest
	waiting map[string]struct{}
	all     bool
	busy    bool
	closing closing
}

// The tasks of one signal, and those that wait, are bounded.
const (
	maxTaskBatch    = 100
	maxWaitingTasks = 10_000
)

// close takes no more tasks. Those that still wait at that time become one signal.
func (o *taskOutbox) close(until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = closing{until}
}

// put adds tasks unless the outbox is closed, and reports whether the caller must empty the outbox.
func (o *taskOutbox) put(ids ...string) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closing.begun() {
		o.add(ids)
	}
	first = !o.busy && (o.all || len(o.waiting) > 0)
	o.busy = o.busy || first
	return first
}

// add adds tasks. The caller must hold o.mu.
func (o *taskOutbox) add(ids []string) {
	if o.waiting == nil {
		o.waiting = map[string]struct{}{}
	}
	for _, id := range ids {
		if len(o.waiting) == maxWaitingTasks {
			o.all = true
		}
		if !o.all {
			o.waiting[id] = struct{}{}
		}
	}
	if o.all {
		o.waiting = nil
	}
}

// take returns the next signal; false if there is none, and then another caller may empty the outbox.
func (o *taskOutbox) take() (s taskSignal, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.all, o.closing.over() && len(o.waiting) > 0:
		o.all, o.waiting = false, nil
		return taskSignal{All: true}, true
	case len(o.waiting) == 0:
		o.busy = false
		return s, false
	}
	for id := range o.waiting {
		if s.IDs = append(s.IDs, id); len(s.IDs) == maxTaskBatch {
			break
		}
	}
	for _, id := range s.IDs {
		delete(o.waiting, id)
	}
	return s, true
}

// failed takes back a signal that was not published. It waits until the outbox is emptied again.
func (o *taskOutbox) failed(s taskSignal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy = false
	o.all = o.all || s.All
	o.add(s.IDs)
}

// TellTask tells the other replicas that a task has changed. It does not wait.
func (l *Link) TellTask(id string) {
	if l.tasks.put(id) {
		l.start(l.emptyTasks)
	}
}

// flushTasks publishes what has waited for the store.
func (l *Link) flushTasks() {
	if l.tasks.put() {
		l.emptyTasks()
	}
}

func (l *Link) emptyTasks() {
	for {
		s, ok := l.tasks.take()
		if !ok {
			return
		}
		if l.say(context.WithoutCancel(l.done), tasksChannel, envelope{Tasks: &s}) != nil {
			l.tasks.failed(s)
			l.recover() // which flushes
			return
		}
	}
}

// Run runs work that ends with its context, for which Close waits. It reports false if the link is closed.
func (l *Link) Run(work func(context.Context)) bool { return l.start(func() { work(l.done) }) }

// TaskValues returns the values of the store as Values does. What is done to them counts as done to tasks.
func (l *Link) TaskValues() store.Values {
	return values{l.Store.Values, l.guard, operations{session.StoreTaskGet, session.StoreTaskCreate, session.StoreTaskUpdate}}
}

// LeaseValues returns them, too. What is done to them counts as done to leases.
func (l *Link) LeaseValues() store.Values {
	return values{l.Store.Values, l.guard, operations{session.StoreLease, session.StoreLease, session.StoreLease}}
}

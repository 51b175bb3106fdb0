package replica

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// A Change is one that subscribers of all replicas are told of.
type Change struct {
	Kind int    `json:"kind"`
	Name string `json:"name,omitempty"`
	// Method and Params are those of a notification of which each counts. Of others the last one does.
	Method string         `json:"method,omitempty"`
	Params jsontext.Value `json:"params,omitempty"`
	// All says that anything may have changed.
	All bool `json:"all,omitempty"`
}

// An outbox has the changes that are to be published, in their order, each of them once but for those of
// which each counts. If there are too many, or one cannot be published, all of them become one that says
// that anything may have changed.
type outbox struct {
	mu      sync.Mutex // guards the rest
	waiting []Change
	known   map[changeKey]struct{}
	busy    bool
	lost    bool // the next change says that anything may have changed
	closing closing
}

// closing bounds how long an outbox publishes what it has taken before its link was closed. The zero value is open.
type closing struct{ until time.Time }

// begun reports whether the link is closed.
func (c closing) begun() bool { return !c.until.IsZero() }

// over reports whether that time is over.
func (c closing) over() bool { return c.begun() && !time.Now().Before(c.until) }

type changeKey struct {
	kind int
	name string
}

// maxWaiting is how many changes wait before they become one.
const maxWaiting = 1024

// close takes nothing more. What still waits at that time becomes one change.
func (o *outbox) close(until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = closing{until}
}

// put adds a change unless the outbox is closed, and reports whether the caller must empty the outbox.
func (o *outbox) put(c Change) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing.begun() {
		return false
	}
	key := changeKey{c.Kind, c.Name}
	if _, waits := o.known[key]; !waits || c.Method != "" {
		if len(o.waiting) == maxWaiting {
			o.waiting, o.known, o.lost = nil, nil, true
		}
		if o.known == nil {
			o.known = map[changeKey]struct{}{}
		}
		o.known[key] = struct{}{}
		o.waiting = append(o.waiting, c)
	}
	first = !o.busy
	o.busy = true
	return first
}

// take returns the next change; false if there is none, and then somebody else may empty the outbox.
func (o *outbox) take() (c Change, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.lost, o.closing.over() && len(o.waiting) > 0:
		o.waiting, o.known, o.lost = nil, nil, false
		return Change{All: true}, true
	case len(o.waiting) == 0:
		o.busy = false
		return c, false
	}
	c = o.waiting[0]
	o.waiting = o.waiting[1:]
	delete(o.known, changeKey{c.Kind, c.Name})
	return c, true
}

// failed notes that a change was not published, and that nobody empties the outbox.
func (o *outbox) failed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost, o.busy = true, false
}

// Publish tells the subscribers of the other replicas of a change. It does not wait.
func (l *Link) Publish(c Change) {
	if l.outbox.put(c) {
		l.start(l.empty)
	}
}

// flush publishes what has waited for the store.
func (l *Link) flush() {
	l.outbox.mu.Lock()
	begin := l.outbox.lost && !l.outbox.busy
	l.outbox.busy = l.outbox.busy || begin
	l.outbox.mu.Unlock()
	if begin {
		l.empty()
	}
}

func (l *Link) empty() {
	for {
		c, ok := l.outbox.take()
		if !ok {
			return
		}
		if l.say(context.WithoutCancel(l.done), changesChannel, envelope{Change: &c}) != nil {
			l.outbox.failed()
			l.recover() // which flushes
			return
		}
	}
}

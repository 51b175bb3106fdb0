package servers

import (
	"container/list"
	"crypto/rand"
	"sync"
	"time"
)

// keptSessions are the legacy sessions of a server that is written by hand. A session ends when nobody has used it for
// sessionIdle. If there are too many, the one ends that nobody has used for the longest time. The zero value is empty. Safe for
// concurrent use.
type keptSessions struct {
	mu     sync.Mutex
	byID   map[string]*list.Element
	recent list.List // of *keptSession, the last used one first
}

type keptSession struct {
	id   string
	used time.Time
}

const (
	mostSessions = 10_000
	sessionIdle  = 30 * time.Minute
)

// open opens a session and returns its id.
func (k *keptSessions) open() string {
	s := &keptSession{rand.Text(), time.Now()}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID == nil {
		k.byID = map[string]*list.Element{}
	}
	k.byID[s.id] = k.recent.PushFront(s)
	for last := k.recent.Back(); len(k.byID) > mostSessions || s.used.Sub(last.Value.(*keptSession).used) > sessionIdle; last = k.recent.Back() {
		k.remove(last)
	}
	return s.id
}

// use reports whether there is such a session, which is used now.
func (k *keptSessions) use(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, now := k.byID[id], time.Now()
	if e == nil {
		return false
	}
	s := e.Value.(*keptSession)
	if now.Sub(s.used) > sessionIdle {
		k.remove(e)
		return false
	}
	s.used = now
	k.recent.MoveToFront(e)
	return true
}

// end ends a session, if it is there.
func (k *keptSessions) end(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.byID[id]; e != nil {
		k.remove(e)
	}
}

func (k *keptSessions) remove(e *list.Element) {
	delete(k.byID, k.recent.Remove(e).(*keptSession).id)
}

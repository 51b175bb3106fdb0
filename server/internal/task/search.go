package task

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/store"
)

// A search finds out whether the replicas that run tasks still have their leases. It asks about the tasks
// that somebody asks for here, and about those with subscribers.
type search struct {
	values store.Values
	own    string // the name of this replica

	mu       sync.Mutex // guards the rest
	alive    map[string]time.Time
	suspects map[string]*suspect
	taking   map[string]struct{} // tasks that were handed over and are taken over here
	watched  map[string]watched  // tasks with subscribers
	watching bool
}

// A watched task has subscribers, or will have one in a moment.
type watched struct {
	replica string
	since   time.Time
}

// A suspect is a replica whose lease was gone.
type suspect struct {
	tasks map[string]struct{} // that were asked for
	again bool                // signals may have been missed: wait once more
}

func newSearch(values store.Values, own string) *search {
	return &search{
		values: values, own: own, alive: map[string]time.Time{}, suspects: map[string]*suspect{}, taking: map[string]struct{}{},
		watched: map[string]watched{},
	}
}

// doubt notes a task that was asked for, and reports whether the caller must look for its replica.
func (s *search) doubt(replica, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sus := s.suspects[replica]; sus != nil {
		sus.tasks[id] = struct{}{}
		return false
	}
	for name, at := range s.alive {
		if time.Since(at) >= leaseRenewal {
			delete(s.alive, name)
		}
	}
	_, alive := s.alive[replica]
	return !alive
}

// look reports whether the lease of a replica is gone.
func (s *search) look(ctx context.Context, replica string) (gone bool, err error) {
	_, err = s.values.Get(ctx, leaseKey(replica))
	switch {
	case errors.Is(err, store.ErrNoValue):
		return true, nil
	case err == nil:
		s.mu.Lock()
		s.alive[replica] = time.Now()
		s.mu.Unlock()
	}
	return false, err
}

// mark has the store write that this replica waits for one whose lease is gone. A store that is full can be read, and its
// leases end: the time in which a replica must renew its own begins when that is possible.
func (s *search) mark(ctx context.Context, replica string) error {
	return s.values.Update(ctx, s.markKey(replica), func([]byte) ([]byte, time.Duration, error) {
		return leaseValue, 2 * leaseGrace, nil
	})
}

// lookAgain is look after the wait. It fails if the mark is gone as well: the store may have lost all that it had, and a lease
// that was renewed meanwhile.
func (s *search) lookAgain(ctx context.Context, replica string) (gone bool, err error) {
	if gone, err = s.look(ctx, replica); gone {
		_, err = s.values.Get(ctx, s.markKey(replica))
	}
	return gone, err
}

func (s *search) markKey(replica string) string { return leaseKey(replica) + "/gone/" + s.own }

// suspect notes that a lease is gone, and reports whether the caller must wait for its replica.
func (s *search) suspect(replica, id string) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first = s.suspects[replica] == nil; first {
		s.suspects[replica] = &suspect{tasks: map[string]struct{}{}}
	}
	s.suspects[replica].tasks[id] = struct{}{}
	return first
}

// restart has all suspects waited for once more: what this replica has seen may be due to an outage.
func (s *search) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.alive)
	for _, sus := range s.suspects {
		sus.again = true
	}
}

// decide ends a suspicion, unless it must go on. It returns the tasks that were asked for.
func (s *search) decide(replica string, gone bool) (tasks map[string]struct{}, decided bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sus := s.suspects[replica]
	if gone && sus.again {
		sus.again = false
		return nil, false
	}
	delete(s.suspects, replica)
	return sus.tasks, true
}

// take reports whether nobody here takes the task over. Then the caller does, and calls took.
func (s *search) take(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, busy := s.taking[id]
	s.taking[id] = struct{}{}
	return !busy
}

func (s *search) took(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taking, id)
}

// subscribed returns the replicas of the tasks that have subscribers, and forgets the others.
func (s *search) subscribed(hub *notify.Hub) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]string{}
	for id, w := range s.watched {
		switch {
		case hub.HasSubscribers(notify.Topic{Kind: notify.Task, Name: id}):
			all[id] = w.replica
		case time.Since(w.since) >= leaseRenewal: // else its subscriber is about to join
			delete(s.watched, id)
		}
	}
	return all
}

// idle reports whether no task is watched. Then the caller stops.
func (s *search) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = len(s.watched) > 0
	return !s.watching
}

// follow notes where a task with subscribers runs, and forgets one that has ended or runs here.
func (s *search) follow(rec *store.TaskRecord, here string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, known := s.watched[rec.TaskID]
	switch {
	case rec.Status.Terminal(), rec.Replica == here:
		delete(s.watched, rec.TaskID)
	case known:
		s.watched[rec.TaskID] = watched{rec.Replica, w.since}
	}
}

// over forgets a task that has ended.
func (s *search) over(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watched, id)
}

package task

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
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

// lookFor looks for the replica of a task that somebody has asked for, unless that is known or has handed it over.
func (s *Service) lookFor(ctx context.Context, rec *store.TaskRecord) {
	shared := s.shared.Load()
	if shared == nil || rec.Status.Terminal() || rec.Replica == "" || rec.Replica == shared.link.Replica() {
		return
	}
	if rec.HandedOver {
		s.takeOver(shared, rec)
		return
	}
	s.lookForReplica(ctx, shared, rec.Replica, rec.TaskID)
}

func (s *Service) lookForReplica(ctx context.Context, shared *shared, replica, id string) {
	if !shared.search.doubt(replica, id) {
		return
	}
	if gone, err := shared.search.look(ctx, replica); err == nil && gone && shared.search.suspect(replica, id) {
		shared.link.Run(func(ctx context.Context) { s.await(ctx, shared, replica) })
	}
}

// await waits for a replica whose lease is gone. If it does not come back, its tasks begin again or have failed.
func (s *Service) await(ctx context.Context, shared *shared, replica string) {
	for {
		if shared.search.mark(ctx, replica) != nil {
			shared.search.decide(replica, false) // somebody asks again
			return
		}
		select {
		case <-time.After(leaseGrace):
		case <-ctx.Done():
			return
		}
		gone, err := shared.search.lookAgain(ctx, replica)
		if err != nil {
			continue
		}
		tasks, decided := shared.search.decide(replica, gone)
		if !decided {
			continue
		}
		for id := range tasks {
			if gone && !s.replace(ctx, shared, replica, id) {
				break // meanwhile the replica may have come back
			}
		}
		return
	}
}

// replace begins a task again whose replica is lost, or ends it. Of several replicas that do so one succeeds. It reports
// whether the store has answered; otherwise somebody asks for the task again.
func (s *Service) replace(ctx context.Context, shared *shared, replica, id string) (answered bool) {
	rec, err := s.load(ctx, id)
	switch {
	case errors.Is(err, store.ErrNoTask):
		shared.search.over(id)
		return true
	case err != nil:
		return !errors.Is(err, errAway)
	case rec.Status.Terminal() || rec.Replica != replica: // nobody has told us
		s.changed(rec)
		return true
	}
	err = s.restart(ctx, shared, rec)
	if err != nil && !errors.Is(err, errAway) {
		err = s.lose(ctx, rec, err)
	}
	return !errors.Is(err, errAway)
}

// lose ends a task whose replica is lost. rec is its record as it was found, and why says why it does not begin
// again. It returns the error of a store that is away.
func (s *Service) lose(ctx context.Context, rec *store.TaskRecord, why error) error {
	end := lostEnd(why)
	var wrote *store.TaskRecord
	now, err := s.change(ctx, rec.TaskID, func(now *store.TaskRecord) error {
		if takenOver(now, rec.Runs, rec.Replica) {
			return errTakenOver
		}
		s.close(now, end.Status, end.Error.Message)
		now.Error = storable(end.Error)
		wrote = now
		return nil
	})
	if errors.Is(err, errAway) && wrote != nil {
		if over, known := s.settle(ctx, rec.TaskID, nil); errors.Is(known, errTaskOver) {
			now, err = over, known
			if over.Revision == wrote.Revision && over.LastUpdatedAt.Equal(wrote.LastUpdatedAt) { // this replica has ended it
				s.changed(over)
				err = nil
			}
		}
	}
	switch {
	case errors.Is(err, errTaskOver): // nobody has told us of its end
		s.changed(now)
		return nil
	case errors.Is(err, store.ErrNoTask):
		s.shared.Load().search.over(rec.TaskID)
		return nil
	case err != nil:
		return err
	}
	s.noteLost(ctx, rec, why)
	return nil
}

// lostEnd is the end of a task whose replica was lost. The client is told of a limit that was reached.
func lostEnd(why error) session.DetachedEnd {
	end := session.StoppedEnd(mcp.CauseReplicaLost)
	if limit := limitOf(why); limit != "" {
		end.Error = end.Error.WithData(mcp.ErrorData{Reason: string(mcp.CauseReplicaLost), Limit: limit})
	}
	return end
}

// noteLost counts and logs that a task was ended because its replica was lost.
func (s *Service) noteLost(ctx context.Context, rec *store.TaskRecord, why error) {
	if limit := limitOf(why); limit != "" {
		s.core.LimitReached(limit)
	}
	s.lost.Add(1)
	s.logger.WarnContext(ctx, "task.lost", append(s.describe(rec), "why", why, "age", time.Since(rec.CreatedAt).Round(time.Millisecond))...)
}

// describe returns the fields by which logs name a task of a lost replica.
func (s *Service) describe(rec *store.TaskRecord) []any {
	return []any{
		"task", taskName(rec.TaskID), "tool", rec.Tool, "client", rec.Client, "client_version", rec.ClientVersion,
		"principal", logline.Printable(auth.KeyText(rec.Principal), maxTaskText), "replica", rec.Replica,
	}
}

// limitOf returns the limit that an error names, or "".
func limitOf(err error) string {
	rpc, _ := mcp.AsError(err)
	if rpc == nil {
		return ""
	}
	data, _ := rpc.Data.(mcp.ErrorData)
	return data.Limit
}

// Lost returns how many tasks of lost replicas this one has ended.
func (s *Service) Lost() uint64 { return s.lost.Load() }

// isLost reports whether a task has ended because its replica was lost.
func isLost(rec *store.TaskRecord) bool {
	if rec.Status != mcp.TaskFailed || rec.Error == nil {
		return false
	}
	raw, _ := rec.Error.Data.(jsontext.Value)
	var data mcp.ErrorData
	return json.Unmarshal(raw, &data) == nil && data.Reason == string(mcp.CauseReplicaLost)
}

// watch looks for the replica of a task while the task has subscribers.
func (s *Service) watch(rec *store.TaskRecord) {
	shared := s.shared.Load()
	if shared == nil || rec.Status.Terminal() || rec.Replica == "" || rec.Replica == shared.link.Replica() {
		return
	}
	search := shared.search
	search.mu.Lock()
	search.watched[rec.TaskID] = watched{rec.Replica, time.Now()}
	start := !search.watching
	search.watching = true
	search.mu.Unlock()
	if rec.HandedOver {
		s.takeOver(shared, rec)
	}
	if start {
		shared.link.Run(func(ctx context.Context) { s.watchAll(ctx, shared) })
	}
}

func (s *Service) watchAll(ctx context.Context, shared *shared) {
	for {
		select {
		case <-time.After(leaseRenewal):
		case <-ctx.Done():
			return
		}
		for id, replica := range shared.search.subscribed(s.hub) {
			s.lookForReplica(ctx, shared, replica, id)
		}
		if shared.search.idle() {
			return
		}
	}
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

package task

import (
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

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
	_, err := s.change(ctx, rec.TaskID, func(now *store.TaskRecord) error {
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
			err = known
			if over.Revision == wrote.Revision && over.LastUpdatedAt.Equal(wrote.LastUpdatedAt) { // this replica has ended it
				err = nil
			}
		}
	}
	switch {
	case errors.Is(err, errTaskOver):
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

// takeOver begins a task again that was handed over. It does not wait.
func (s *Service) takeOver(shared *shared, rec *store.TaskRecord) {
	id, replica := rec.TaskID, rec.Replica
	if !shared.search.take(id) {
		return
	}
	runs := shared.link.Run(func(ctx context.Context) {
		defer shared.search.took(id)
		s.replace(ctx, shared, replica, id)
	})
	if !runs {
		shared.search.took(id)
	}
}

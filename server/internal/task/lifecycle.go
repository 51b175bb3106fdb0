package task

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// Share has the tasks in what the replicas share, unless the program has a store of its own for them. It
// must be called before the first request.
func (s *Service) Share(link Link) {
	if s.ledger == nil {
		return
	}
	sh := newShared(link, s.core.Limits, s.origin, s.core.LimitReached)
	sh.Watch(s.changed)
	sh.lease.needed = func() bool { return s.anyHere() || !sh.unsaved.empty() }
	sh.lease.lapsed = s.readAll // others may have ended our tasks
	sh.lease.renewedAgain = func(ctx context.Context) {
		if !sh.unsaved.empty() { // an end that came when the store was just back
			s.save(ctx, sh)
		}
	}
	s.store, s.ledger = sh, &sh.ledger
	s.shared.Store(sh)
}

// GiveUp ends the tasks whose handlers still run after the drain. Those that may begin again do so when this replica is
// lost, and their handlers have ended with the process.
func (s *Service) GiveUp(ctx context.Context) {
	if shared := s.shared.Load(); shared != nil {
		s.save(ctx, shared)
	}
	s.mu.Lock()
	left := slices.Collect(maps.Values(s.running))
	s.mu.Unlock()
	for _, t := range left {
		if t.passable() {
			continue
		}
		end := session.StoppedEnd(mcp.CauseServerShutdown)
		_, err := s.change(ctx, t.id, t.unlessTakenOver(func(rec *store.TaskRecord) error {
			s.close(rec, end.Status, end.Error.Message)
			rec.Error = storable(end.Error)
			return nil
		}))
		if err != nil && !errors.Is(err, errTaskOver) && !errors.Is(err, errTakenOver) {
			s.logger.ErrorContext(t.ctx(), "task.store", append(t.work.LogAttrs(), "error", err)...)
		}
	}
}

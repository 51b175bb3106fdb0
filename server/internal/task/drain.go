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

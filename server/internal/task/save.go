package task

import (
	"context"
	"errors"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// saveLater implements task.saveLater. It also returns the error of the limit that has no room for the end.
func (s *Service) saveLater(t *task, end func(*store.TaskRecord) error) (*store.TaskRecord, error) {
	shared := s.shared.Load()
	if shared == nil {
		return nil, nil
	}
	rec, made, err := shared.expect(t.id, end)
	shared.report(made)
	if err != nil {
		return rec, err
	}
	for _, gone := range made.gone {
		shared.unsaved.drop(gone.TaskID)
	}
	shared.unsaved.add(t.id, lateEnd{end, t.work.LogAttrs()})
	return rec, nil
}

// Unstored returns how many ends of tasks their store does not have.
func (s *Service) Unstored() uint64 { return s.unstored.Load() }

// expect counts a task as it will be stored, and returns that. A task that has ended keeps its end, which it returns with
// errTaskOver.
func (g *ledger) expect(id string, end func(*store.TaskRecord) error) (rec *store.TaskRecord, made room, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.find(id)
	switch {
	case k == nil:
		return nil, made, store.ErrNoTask
	case k.ended != nil:
		return k.rec, made, errTaskOver
	}
	rec = k.rec.Clone()
	if err = end(rec); err == nil {
		made, err = g.put(k, rec)
	}
	if err == nil {
		k.rec = rec // with its error, until it is stored
	}
	return rec, made, err
}

// save stores the ends that wait for it.
func (s *Service) save(ctx context.Context, shared *shared) {
	for id, late := range shared.unsaved.all() {
		_, err := s.change(ctx, id, late.end)
		if limit, _ := mcp.AsError(err); limit != nil { // the result is too large for the store
			_, err = s.change(ctx, id, func(rec *store.TaskRecord) error {
				if err := late.end(rec); err != nil { // another replica has taken it over since
					return err
				}
				s.close(rec, mcp.TaskFailed, limit.Message)
				rec.Result, rec.Error = nil, storable(limit)
				return nil
			})
		}
		switch {
		case errors.Is(err, errAway), !shared.unsaved.drop(id): // it still waits, or another goroutine has saved it
		case errors.Is(err, errTakenOver):
			s.fence(ctx, late.named...)
		case err != nil && !errors.Is(err, errTaskOver):
			s.unstored.Add(1)
			s.logger.ErrorContext(ctx, "task.store", append(late.named, "error", err)...)
		}
	}
}

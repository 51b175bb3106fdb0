package task

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/vitrine-mcp/vitrine/mcp"
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
	if _, has := u.ends[id]; !has { // the first end counts
		u.ends[id] = end
	}
}

func (u *unsaved) drop(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ends, id)
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

// saveLater has the end of a task stored when the store is back. It returns the error of the limit that has no room
// for it.
func (s *Service) saveLater(t *task, end func(*store.TaskRecord) error) error {
	shared := s.shared.Load()
	if shared == nil {
		return nil
	}
	made, err := shared.expect(t.id, end)
	shared.report(made)
	if err != nil {
		return err
	}
	for _, id := range made.gone {
		shared.unsaved.drop(id)
	}
	shared.unsaved.add(t.id, lateEnd{end, t.work.LogAttrs()})
	return nil
}

// expect counts a task as it will be stored.
func (g *ledger) expect(id string, end func(*store.TaskRecord) error) (room, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.find(id)
	if k == nil {
		return room{}, store.ErrNoTask
	}
	rec := k.rec.Clone()
	if err := end(rec); err != nil {
		return room{}, err
	}
	return g.put(k, rec)
}

// Unstored returns how many ends of tasks their store does not have.
func (s *Service) Unstored() uint64 { return s.unstored.Load() }

// save stores the ends that wait for it.
func (s *Service) save(ctx context.Context, shared *shared) {
	for id, late := range shared.unsaved.all() {
		_, err := s.change(ctx, id, late.end)
		if limit, _ := mcp.AsError(err); limit != nil { // the result is too large for the store
			_, err = s.change(ctx, id, func(rec *store.TaskRecord) error {
				s.close(rec, mcp.TaskFailed, limit.Message)
				rec.Error = storable(limit)
				return nil
			})
		}
		switch {
		case errors.Is(err, errAway):
			continue
		case errors.Is(err, errTakenOver):
			s.fence(ctx, late.named...)
		case err != nil && !errors.Is(err, errTaskOver):
			s.unstored.Add(1)
			s.logger.ErrorContext(ctx, "task.store", append(late.named, "error", err)...)
		}
		shared.unsaved.drop(id)
	}
}

package task

import (
	"context"
	"sync"

	"github.com/vitrine-mcp/vitrine/server/internal/notify"
)

// A reader reads tasks that other replicas have changed and that matter here: those whose handlers run in
// this process, and those with subscribers. It reads them one after the other, each once however often it
// has changed meanwhile.
type reader struct {
	mu      sync.Mutex // guards the rest
	waiting map[string]struct{}
	busy    bool
}

// add has tasks read, and reports whether the caller must begin to read.
func (r *reader) add(ids []string) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = map[string]struct{}{}
	}
	for _, id := range ids {
		r.waiting[id] = struct{}{}
	}
	first = !r.busy && len(r.waiting) > 0
	r.busy = r.busy || first
	return first
}

// next returns a task to read; false if there is none, and then the next caller of add begins.
func (r *reader) next() (id string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id = range r.waiting {
		delete(r.waiting, id)
		return id, true
	}
	r.busy = false
	return "", false
}

// ChangedElsewhere takes the ids of tasks that another replica has changed. It does not wait.
func (s *Service) ChangedElsewhere(ids []string) {
	shared := s.shared.Load()
	if shared == nil {
		return
	}
	var here []string
	for _, id := range ids {
		if s.here(id) != nil || s.hub.HasSubscribers(notify.Topic{Kind: notify.Task, Name: id}) {
			here = append(here, id)
		}
	}
	if s.reader.add(here) {
		shared.link.Run(func(ctx context.Context) { s.read(ctx, shared) })
	}
}

// Missed says that changes of any tasks may have been missed, and that the store may have been away. It does
// not wait.
func (s *Service) Missed() {
	if shared := s.shared.Load(); shared != nil {
		shared.search.restart()
		shared.link.Run(func(ctx context.Context) { s.save(ctx, shared) })
	}
	s.readAll()
}

// readAll has all tasks read that matter here.
func (s *Service) readAll() {
	s.mu.Lock()
	ids := make([]string, 0, len(s.running))
	for id := range s.running {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	s.ChangedElsewhere(append(ids, s.hub.Tasks()...))
}

// read reads until nothing is left. A failure of the store has the link recover, which calls Missed.
func (s *Service) read(ctx context.Context, from *shared) {
	for {
		id, ok := s.reader.next()
		if !ok {
			return
		}
		if rec, err := from.Load(ctx, id); err == nil {
			from.discard(ctx, from.note(rec))
			s.changed(rec)
			if rec.HandedOver && rec.Replica != from.link.Replica() {
				s.takeOver(from, rec)
			}
		}
	}
}

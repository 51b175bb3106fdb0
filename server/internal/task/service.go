package task

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/store"
)

// A Config is what a Service is made of. All but Store and PollInterval is required.
type Config struct {
	// Store keeps the tasks. The default is in memory, within the limits of the core.
	Store store.TaskStore
	// PollInterval is how often clients should ask for a task that says nothing else.
	PollInterval time.Duration

	Core    *session.Core
	Logger  *slog.Logger
	Hub     *notify.Hub
	Encoder *era.Encoder
	Teller  *era.Teller
}

// defaultPollInterval is how often clients ask unless they are told otherwise.
const defaultPollInterval = time.Second

// A Service is the tasks extension of a server. It is safe for concurrent use.
type Service struct {
	records
	hub  *notify.Hub
	poll time.Duration

	mu      sync.Mutex       // guards running
	running map[string]*task // those whose handler runs here
}

// New returns the service of a server.
func New(cfg Config) (*Service, error) {
	if cfg.PollInterval < 0 {
		return nil, errors.New("server: the poll interval of tasks must not be negative")
	}
	s := &Service{
		records: records{core: cfg.Core, logger: cfg.Logger, encoder: cfg.Encoder, teller: cfg.Teller, store: cfg.Store},
		hub:     cfg.Hub, poll: cmp.Or(cfg.PollInterval, defaultPollInterval), running: map[string]*task{},
	}
	if s.store == nil {
		s.store = newMemory(s.core.Limits, s.frame, s.core.LimitReached)
	}
	s.store.Watch(s.changed)
	return s, nil
}

// start makes a task of a call. The record is in the store when it returns.
func (s *Service) start(ctx context.Context, d *ask.Dialog, o Options) (*task, *mcp.CreateTaskResult, error) {
	if err := errors.Join(o.check(), over(ctx, d)); err != nil {
		return nil, nil, err
	}
	ttl, limit := o.life(s.core.Limits())
	now := taskTime()
	ms := ttl.Milliseconds()
	rec := &store.TaskRecord{
		Task: mcp.Task{
			TaskID: rand.Text(), Status: mcp.TaskWorking, StatusMessage: taskText(o.Message), CreatedAt: now, LastUpdatedAt: now,
			TTL: &ms, PollInterval: max(cmp.Or(o.PollInterval, s.poll).Milliseconds(), 1),
		},
		Principal: d.Request.Principal.Key(), Tool: d.Request.Route.Target, Trace: observe.TraceParent(ctx),
		// Until then the end of a handler that was cancelled at the end of its life can be read.
		Expires: now.Add(ttl + s.core.Limits().TaskGrace),
	}
	work, refused := s.core.Detach(ctx, d.Core, taskName(rec.TaskID), now.Add(ttl))
	if refused != nil {
		return nil, nil, refused
	}
	t := newTask(&s.records, d, work, rec, limit)
	t.leave = func() { s.leave(t) }
	s.enter(t)
	if err := s.create(ctx, rec); err != nil {
		err = s.fault(ctx, err)
		t.abort(err)
		return nil, nil, err
	}
	t.begin(now.Add(ttl))
	return t, &mcp.CreateTaskResult{Task: rec.Task}, nil
}

// GiveUp ends the tasks whose handlers were left behind by the drain.
func (s *Service) GiveUp(ctx context.Context) {
	s.mu.Lock()
	left := slices.Collect(maps.Values(s.running))
	s.mu.Unlock()
	for _, t := range left {
		end := session.StoppedEnd(mcp.CauseServerShutdown)
		_, err := s.change(ctx, t.id, func(rec *store.TaskRecord) error {
			s.close(rec, end.Status, end.Error.Message)
			rec.Error = storable(end.Error)
			return nil
		})
		if err != nil && !errors.Is(err, errTaskOver) {
			s.logger.ErrorContext(t.ctx, "task.store", "task", t.work.Name, "error", err)
		}
	}
}

// visible returns the record of a task of one principal, or [store.ErrNoTask].
func (s *Service) visible(ctx context.Context, id, principal string) (*store.TaskRecord, error) {
	rec, err := s.load(ctx, id)
	if err == nil && rec.Principal != principal {
		err = store.ErrNoTask
	}
	return rec, err
}

// The three ways to the store. It may be a user's, and may be asked from a goroutine on
// which nobody else contains a panic.

// changed is told by the store that a task was changed, here or elsewhere.
func (s *Service) changed(rec *store.TaskRecord) {
	if topic := (notify.Topic{Kind: notify.Task, Name: rec.TaskID}); s.hub.Wants(topic) {
		if raw, err := wire.Marshal(nil, resultOf(rec)); err == nil { // else its client polls, and learns why
			s.hub.Publish(notify.Notification{Topic: topic, Params: raw, Revision: rec.Revision})
		}
	}
	if t := s.here(rec.TaskID); t != nil {
		t.changed(rec)
	}
}

func (s *Service) enter(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[t.id] = t
}

func (s *Service) leave(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, t.id)
}

// here returns the task if its handler runs here, or nil.
func (s *Service) here(id string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

// frame returns the size of the request that has become a task, which its handler keeps in
// memory while it runs here, in bytes.
func (s *Service) frame(id string) int {
	if t := s.here(id); t != nil {
		return t.dialog.Core.Bytes
	}
	return 0
}

// Tally counts the tasks by their status: those that the store in memory keeps, or,
// with another store, those that run here.
func (s *Service) Tally() map[mcp.TaskStatus]int {
	if m, ok := s.store.(*memory); ok {
		return m.tally()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[mcp.TaskStatus]int{}
	for _, t := range s.running {
		counts[t.status()]++
	}
	return counts
}

// over returns why a call cannot be detached any more, or nil.
func over(ctx context.Context, d *ask.Dialog) error {
	if err := d.Fault(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.Core.Settled() {
		return mcp.ErrRequestDone
	}
	return nil
}

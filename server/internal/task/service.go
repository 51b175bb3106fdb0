package task

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
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

// storePatience bounds what is done with a store when no request waits for it.
const storePatience = 5 * time.Second

// A Service is the tasks extension of a server. It is safe for concurrent use.
type Service struct {
	core    *session.Core
	logger  *slog.Logger
	hub     *notify.Hub
	encoder *era.Encoder
	teller  *era.Teller
	store   store.TaskStore
	poll    time.Duration

	mu      sync.Mutex
	running map[string]*task // those whose handler runs here
}

// New returns the service of a server.
func New(cfg Config) (*Service, error) {
	if cfg.PollInterval < 0 {
		return nil, errors.New("server: the poll interval of tasks must not be negative")
	}
	s := &Service{
		core: cfg.Core, logger: cfg.Logger, hub: cfg.Hub, encoder: cfg.Encoder, teller: cfg.Teller,
		store: cfg.Store, poll: cmp.Or(cfg.PollInterval, defaultPollInterval), running: map[string]*task{},
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
	t := newTask(s, d, work, rec, limit)
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

func (s *Service) create(ctx context.Context, rec *store.TaskRecord) (err error) {
	defer containStore(&err)
	return s.store.Create(ctx, rec)
}

func (s *Service) load(ctx context.Context, id string) (rec *store.TaskRecord, err error) {
	defer containStore(&err)
	return s.store.Load(ctx, id)
}

// containStore makes an error of a panic.
func containStore(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("server: the store of tasks panicked: %v\n%s", v, debug.Stack())
	}
}

// fault words an error of the store for a client.
func (s *Service) fault(ctx context.Context, err error) error {
	if errors.Is(err, store.ErrNoTask) {
		return errNoSuchTask
	}
	if _, public := mcp.AsError(err); public {
		return err
	}
	s.logger.ErrorContext(ctx, "task.store", "error", err)
	return mcp.NewError(mcp.CodeInternalError, "internal error: the tasks cannot be reached")
}

// errTaskOver: the task has ended, and its end stays as it is.
var errTaskOver = errors.New("server: the task has ended")

// change changes the record of a task that has not ended. It is the one way to do so,
// so that whoever ends a task first decides how. With errTaskOver it returns the record
// that stays.
func (s *Service) change(ctx context.Context, id string, f func(*store.TaskRecord) error) (rec *store.TaskRecord, err error) {
	defer containStore(&err)
	var ended *store.TaskRecord
	rec, err = s.store.Update(ctx, id, func(rec *store.TaskRecord) error {
		if rec.Status.Terminal() {
			ended = rec
			return errTaskOver
		}
		if err := f(rec); err != nil {
			return err
		}
		rec.LastUpdatedAt = taskTime()
		rec.Revision++
		return nil
	})
	if errors.Is(err, errTaskOver) {
		rec = ended
	}
	return rec, err
}

// close ends a task.
func (s *Service) close(rec *store.TaskRecord, status mcp.TaskStatus, message string) {
	rec.Status, rec.StatusMessage = status, taskText(message)
	rec.InputRequests, rec.InputResponses = nil, nil
	rec.Expires = rec.CreatedAt.Add(time.Duration(*rec.TTL) * time.Millisecond)
	if grace := taskTime().Add(s.core.Limits().TaskGrace); grace.After(rec.Expires) {
		rec.Expires = grace
	}
}

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

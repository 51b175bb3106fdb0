package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/store"
)

// A Config has what a Service needs. Store and PollInterval may be zero.
type Config struct {
	// Store keeps the tasks. The default is in memory, within the limits of the core, until Share.
	Store store.TaskStore
	// PollInterval is how often clients should ask for a task without an interval of its own.
	PollInterval time.Duration

	Core    *session.Core
	Logger  *slog.Logger
	Hub     *notify.Hub
	Encoder *era.Encoder
	Teller  *era.Teller
	// May tells for each of some tools whether their tasks exist for the caller. The error challenges the
	// caller for the scopes of all that do. Tool returns the item of notifications about such tasks.
	May  func(ctx context.Context, req *middleware.Request, tools []string) (exist []bool, err error)
	Tool func(name string) any
}

// defaultPollInterval is the poll interval of a server that sets none.
const defaultPollInterval = time.Second

// A Service is the tasks extension of a server. It is safe for concurrent use.
type Service struct {
	records
	hub  *notify.Hub
	poll time.Duration
	may  func(ctx context.Context, req *middleware.Request, tools []string) (exist []bool, err error)
	tool func(name string) any

	// ledger is that of a default store; nil with another one.
	ledger *ledger
	shared atomic.Pointer[shared] // nil without replicas, or with a store of the program
	reader reader
	lost   atomic.Uint64 // tasks of lost replicas that this one has ended
	taken  atomic.Uint64 // those that it has begun again
	lines  logline.Limiter

	mu      sync.Mutex       // guards running
	running map[string]*task // tasks whose handlers run in this process
}

// New returns the service of a server.
func New(cfg Config) (*Service, error) {
	if cfg.PollInterval < 0 {
		return nil, errors.New("server: the poll interval of tasks must not be negative")
	}
	s := &Service{
		records: records{core: cfg.Core, logger: cfg.Logger, encoder: cfg.Encoder, teller: cfg.Teller, store: cfg.Store},
		hub:     cfg.Hub, poll: cmp.Or(cfg.PollInterval, defaultPollInterval), may: cfg.May, tool: cfg.Tool, running: map[string]*task{},
	}
	if s.store == nil {
		m := newMemory(s.core.Limits, s.origin, s.core.LimitReached)
		s.store, s.ledger = m, &m.ledger
	}
	s.store.Watch(s.changed)
	return s, nil
}

// visible returns the record of a task that belongs to the caller and whose tool the caller may see, or
// [store.ErrNoTask].
func (s *Service) visible(ctx context.Context, req *middleware.Request, id string) (*store.TaskRecord, error) {
	rec, err := s.owned(ctx, req, id)
	if err != nil {
		return rec, err
	}
	exist, err := s.may(ctx, req, []string{rec.Tool})
	if err == nil && !exist[0] {
		err = store.ErrNoTask
	}
	return rec, err
}

// owned returns the record of a task that belongs to the caller, or [store.ErrNoTask].
func (s *Service) owned(ctx context.Context, req *middleware.Request, id string) (*store.TaskRecord, error) {
	rec, err := s.load(ctx, id)
	if err == nil && rec.Principal != req.Principal.Key() {
		s.core.Foreign(session.ForeignTask, era.CoreOf(req), "task", taskName(id), "owner", auth.KeyText(rec.Principal))
		err = store.ErrNoTask
	}
	return rec, err
}

// changed is called by the store after each change of a task, in this process or another one.
func (s *Service) changed(rec *store.TaskRecord) {
	topic := notify.Topic{Kind: notify.Task, Name: rec.TaskID}
	subscribed := s.hub.HasSubscribers(topic)
	if subscribed {
		if raw, err := wire.Marshal(nil, resultOf(rec)); err == nil { // else the client polls and gets the error
			s.hub.Publish(notify.Notification{Topic: topic, Params: raw, Revision: rec.Revision, Items: []any{s.tool(rec.Tool)}})
		}
	}
	if shared := s.shared.Load(); shared != nil {
		shared.search.follow(rec, shared.link.Replica())
		if subscribed {
			s.watch(rec) // the task may have been taken from this replica
		}
	}
	if t := s.here(rec.TaskID); t != nil {
		t.changed(rec)
	}
}

// anyHere reports whether handlers of tasks run in this process.
func (s *Service) anyHere() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running) > 0
}

func (s *Service) enter(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[t.id] = t
}

func (s *Service) leave(t *task) {
	s.mu.Lock()
	if s.running[t.id] == t {
		delete(s.running, t.id)
	}
	s.mu.Unlock()
	if shared := s.shared.Load(); shared != nil {
		shared.lose(t.id, false)
	}
}

// here returns the task if its handler runs in this process, or nil.
func (s *Service) here(id string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[id]
}

// origin returns what a task whose handler runs in this process was before. The handler keeps its
// request in memory.
func (s *Service) origin(rec *store.TaskRecord) origin {
	if t := s.here(rec.TaskID); t != nil {
		return origin{t.work.Caller(), t.core.Bytes}
	}
	return origin{}
}

// Usage describes what callers have of max_task_bytes; false with a store of the program.
func (s *Service) Usage() (info session.ShareInfo, ok bool) {
	if s.ledger == nil {
		return info, false
	}
	return s.ledger.share(), true
}

// Tally counts tasks by their status: those that this process has created, or, with a store of the program,
// those that run in this process.
func (s *Service) Tally() map[mcp.TaskStatus]int {
	if s.ledger != nil {
		return s.ledger.tally()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[mcp.TaskStatus]int{}
	for _, t := range s.running {
		counts[t.status()]++
	}
	return counts
}

// Options describe a task, see server.TaskOptions.
type Options struct {
	TTL          time.Duration
	PollInterval time.Duration
	Message      string
}

// life returns the TTL of a task, and the limit that it comes from; "" if the handler has set it.
func (o Options) life(l limits.Limits) (ttl time.Duration, limit string) {
	ttl = o.TTL
	if ttl == 0 {
		ttl, limit = l.TaskTTL, limits.NameTaskTTL
	}
	if ttl > l.MaxTaskTTL {
		ttl, limit = l.MaxTaskTTL, limits.NameMaxTaskTTL
	}
	return max(ttl.Truncate(time.Millisecond), time.Millisecond), limit
}

func (o Options) check() error {
	if o.TTL < 0 || o.PollInterval < 0 {
		return fmt.Errorf("server: neither the TTL (%v) nor the poll interval (%v) of a task may be negative", o.TTL, o.PollInterval)
	}
	return nil
}

// Get serves tasks/get.
func (s *Service) Get(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	rec, err := s.find(ctx, req)
	if err != nil {
		return nil, err
	}
	return resultOf(rec), nil
}

// Cancel serves tasks/cancel. It sets the end of the task; the store's notification cancels the
// handler.
func (s *Service) Cancel(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	rec, err := s.find(ctx, req)
	if err != nil {
		return nil, err
	}
	return s.changeIfOpen(ctx, req, rec.TaskID, func(rec *store.TaskRecord) error {
		s.close(rec, mcp.TaskCancelled, "cancelled by the client")
		return nil
	})
}

// changeIfOpen changes the record of a task for a request, unless that has ended.
func (s *Service) changeIfOpen(ctx context.Context, req *middleware.Request, id string, f func(*store.TaskRecord) error) (mcp.Result, error) {
	if _, err := s.change(ctx, id, f); err != nil && !errors.Is(err, errTaskOver) {
		return nil, s.fault(ctx, era.CoreOf(req), err)
	}
	return &mcp.EmptyResult{}, nil
}

// Update serves tasks/update. It takes valid answers to open questions and ignores all others. A
// question with a malformed answer stays open.
func (s *Service) Update(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
	rec, err := s.find(ctx, req)
	if err != nil {
		return nil, err
	}
	var params struct {
		InputResponses jsontext.Value `json:"inputResponses"`
	}
	if err := wire.Unmarshal(req.Params, &params); err != nil || params.InputResponses.Kind() != '{' {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.inputResponses must be an object")
	}
	good, message, err := s.here(rec.TaskID).sift(rec, params.InputResponses)
	if err != nil {
		return nil, err
	}
	if len(good) == 0 && message == "" {
		return &mcp.EmptyResult{}, nil
	}
	return s.changeIfOpen(ctx, req, rec.TaskID, func(rec *store.TaskRecord) error {
		for key, answer := range good {
			if _, open := rec.InputRequests[key]; open {
				clientAnswered(rec, key, answer)
			}
		}
		rec.StatusMessage = cmp.Or(message, rec.StatusMessage)
		return nil
	})
}

// find returns the record of the task that a request names, if it belongs to the caller.
func (s *Service) find(ctx context.Context, req *middleware.Request) (*store.TaskRecord, error) {
	if err := era.RequireExtension(req, mcp.ExtensionTasks); err != nil {
		return nil, err
	}
	id := era.CoreOf(req).Name
	if id == "" {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.taskId is missing")
	}
	rec, err := s.visible(ctx, req, id)
	if err != nil {
		return nil, s.fault(ctx, era.CoreOf(req), err)
	}
	observe.LinkSpan(ctx, rec.Trace)
	s.lookFor(ctx, rec)
	return rec, nil
}

// Revisions returns those of the given tasks that belong to the caller, with their revisions.
func (s *Service) Revisions(ctx context.Context, req *middleware.Request, ids []string) (known map[string]int64, err error) {
	if err := era.RequireExtension(req, mcp.ExtensionTasks); err != nil {
		return nil, err
	}
	var records []*store.TaskRecord
	var tools []string
	for _, id := range ids {
		switch rec, err := s.owned(ctx, req, id); {
		case err == nil:
			records, tools = append(records, rec), append(tools, rec.Tool)
		case !errors.Is(err, store.ErrNoTask):
			return nil, s.fault(ctx, era.CoreOf(req), err)
		}
	}
	exist, err := s.may(ctx, req, tools)
	if err != nil {
		return nil, s.fault(ctx, era.CoreOf(req), err)
	}
	known = map[string]int64{}
	for i, rec := range records {
		if exist[i] {
			known[rec.TaskID] = rec.Revision
			s.watch(rec)
		}
	}
	return known, nil
}

// Fenced returns how many ends of tasks were refused because other replicas ran the tasks.
func (s *Service) Fenced() uint64 { return s.fenced.Load() }

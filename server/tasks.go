package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/store"
)

// Tasks configures the tasks extension. The zero value is good for one process.
type Tasks struct {
	// Store keeps the tasks. The default is in memory, within the limits of the server
	// (MaxTasks, MaxTasksPerPrincipal, MaxTaskBytes).
	Store store.TaskStore
	// PollInterval is how often clients should ask for a task that says nothing else
	// (default 1 s).
	PollInterval time.Duration
}

// WithTasks turns the tasks extension on (io.modelcontextprotocol/tasks): the handlers
// of tools with [Tool.Task] set may go on after their call was answered, see
// [Call.Detach].
func WithTasks(t Tasks) Option { return optionFunc(func(c *config) { c.tasks = &t }) }

// defaultPollInterval is how often clients ask unless they are told otherwise.
const defaultPollInterval = time.Second

// storePatience bounds what is done with a store when no request waits for it.
const storePatience = 5 * time.Second

// tasks is the tasks extension of a server.
type tasks struct {
	server *Server
	store  store.TaskStore
	poll   time.Duration

	mu      sync.Mutex
	running map[string]*task // those whose handler runs here
}

// addTasks turns the extension on.
func (s *Server) addTasks(cfg Tasks) error {
	if cfg.PollInterval < 0 {
		return errors.New("server: the poll interval of tasks must not be negative")
	}
	t := &tasks{
		server: s, store: cfg.Store, poll: cmp.Or(cfg.PollInterval, defaultPollInterval), running: map[string]*task{},
	}
	if t.store == nil {
		t.store = newMemoryTasks(s.core.Limits, t.frame, s.core.LimitReached)
	}
	if _, err := s.extensions.put(Extension{ID: mcp.ExtensionTasks}); err != nil {
		return err
	}
	t.store.Watch(t.changed)
	s.tasks = t
	s.honourTasks = t.honour
	return nil
}

// taskHandler is the handler of a method of the tasks extension.
func (s *Server) taskHandler(h callHandler) middleware.Handler {
	return s.serve(ifDeclared(mcp.ExtensionTasks, h))
}

// start makes a task of a call. The record is in the store when it returns.
func (ts *tasks) start(ctx context.Context, call *Call, o TaskOptions) (*task, *mcp.CreateTaskResult, error) {
	if err := errors.Join(o.check(), call.over(ctx)); err != nil {
		return nil, nil, err
	}
	s := ts.server
	ttl, limit := o.life(s.core.Limits())
	now := taskTime()
	ms := ttl.Milliseconds()
	rec := &store.TaskRecord{
		Task: mcp.Task{
			TaskID: rand.Text(), Status: mcp.TaskWorking, StatusMessage: taskText(o.Message), CreatedAt: now, LastUpdatedAt: now,
			TTL: &ms, PollInterval: max(cmp.Or(o.PollInterval, ts.poll).Milliseconds(), 1),
		},
		Principal: call.Principal.Key(), Tool: call.Route.Target, Trace: observe.TraceParent(ctx),
		// Until then the end of a handler that was cancelled at the end of its life can be read.
		Expires: now.Add(ttl + s.core.Limits().TaskGrace),
	}
	work, refused := s.core.Detach(ctx, call.core, taskName(rec.TaskID), now.Add(ttl))
	if refused != nil {
		return nil, nil, refused
	}
	t := newTask(ts, call, work, rec, limit)
	ts.enter(t)
	if err := ts.create(ctx, rec); err != nil {
		err = ts.fault(ctx, err)
		t.abort(err)
		return nil, nil, err
	}
	t.begin(now.Add(ttl))
	return t, &mcp.CreateTaskResult{Task: rec.Task}, nil
}

// get serves tasks/get.
func (ts *tasks) get(ctx context.Context, call *Call) (mcp.Result, error) {
	rec, err := ts.find(ctx, call, call.core.Name)
	if err != nil {
		return nil, err
	}
	return taskResult(rec), nil
}

// cancel serves tasks/cancel: what still runs is told to stop, and its end is decided.
func (ts *tasks) cancel(ctx context.Context, call *Call) (mcp.Result, error) {
	rec, err := ts.find(ctx, call, call.core.Name)
	if err != nil {
		return nil, err
	}
	_, err = ts.change(ctx, rec.TaskID, func(rec *store.TaskRecord) error {
		ts.close(rec, mcp.TaskCancelled, "cancelled by the client")
		return nil
	})
	if err != nil && !errors.Is(err, errTaskOver) {
		return nil, ts.fault(ctx, err)
	}
	return &mcp.EmptyResult{}, nil
}

// update serves tasks/update: it takes the answers that fit open questions, and
// ignores all others. A question whose answer is malformed stays open.
func (ts *tasks) update(ctx context.Context, call *Call) (mcp.Result, error) {
	rec, err := ts.find(ctx, call, call.core.Name)
	if err != nil {
		return nil, err
	}
	var params struct {
		InputResponses map[string]jsontext.Value `json:"inputResponses"`
	}
	if err := json.Unmarshal(call.Params, &params); err != nil || params.InputResponses == nil {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.inputResponses must be an object")
	}
	good, message := ts.here(rec.TaskID).sift(rec, params.InputResponses)
	if len(good) == 0 && message == "" {
		return &mcp.EmptyResult{}, nil
	}
	_, err = ts.change(ctx, rec.TaskID, func(rec *store.TaskRecord) error {
		for key, answer := range good {
			if _, open := rec.InputRequests[key]; open {
				clientAnswered(rec, key, answer)
			}
		}
		rec.StatusMessage = cmp.Or(message, rec.StatusMessage)
		return nil
	})
	if err != nil && !errors.Is(err, errTaskOver) {
		return nil, ts.fault(ctx, err)
	}
	return &mcp.EmptyResult{}, nil
}

// giveUp ends the tasks whose handlers were left behind by the drain.
func (ts *tasks) giveUp(ctx context.Context) {
	ts.mu.Lock()
	left := slices.Collect(maps.Values(ts.running))
	ts.mu.Unlock()
	for _, t := range left {
		end := session.StoppedEnd(mcp.CauseServerShutdown)
		_, err := ts.change(ctx, t.id, func(rec *store.TaskRecord) error {
			ts.close(rec, end.Status, end.Error.Message)
			rec.Error = storable(end.Error)
			return nil
		})
		if err != nil && !errors.Is(err, errTaskOver) {
			ts.server.logger.ErrorContext(t.ctx, "task.store", "task", t.work.Name, "error", err)
		}
	}
}

// errNoSuchTask is the answer for an id that is unknown, has expired, or belongs to
// somebody else: nobody learns which.
var errNoSuchTask = mcp.NewError(mcp.CodeInvalidParams, "there is no such task")

// find returns the record of a task that the caller may know of.
func (ts *tasks) find(ctx context.Context, call *Call, id string) (*store.TaskRecord, error) {
	if id == "" {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "params.taskId is missing")
	}
	rec, err := ts.visible(ctx, id, call.Principal.Key())
	if err != nil {
		return nil, ts.fault(ctx, err)
	}
	observe.LinkSpan(ctx, rec.Trace)
	return rec, nil
}

// visible returns the record of a task of one principal, or [store.ErrNoTask].
func (ts *tasks) visible(ctx context.Context, id, principal string) (*store.TaskRecord, error) {
	rec, err := ts.load(ctx, id)
	if err == nil && rec.Principal != principal {
		err = store.ErrNoTask
	}
	return rec, err
}

// The three ways to the store. It may be a user's, and may be asked from a goroutine on
// which nobody else contains a panic.

func (ts *tasks) create(ctx context.Context, rec *store.TaskRecord) (err error) {
	defer containStore(&err)
	return ts.store.Create(ctx, rec)
}

func (ts *tasks) load(ctx context.Context, id string) (rec *store.TaskRecord, err error) {
	defer containStore(&err)
	return ts.store.Load(ctx, id)
}

// containStore makes an error of a panic.
func containStore(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("server: the store of tasks panicked: %v\n%s", v, debug.Stack())
	}
}

// fault words an error of the store for a client.
func (ts *tasks) fault(ctx context.Context, err error) error {
	if errors.Is(err, store.ErrNoTask) {
		return errNoSuchTask
	}
	if _, public := mcp.AsError(err); public {
		return err
	}
	ts.server.logger.ErrorContext(ctx, "task.store", "error", err)
	return mcp.NewError(mcp.CodeInternalError, "internal error: the tasks cannot be reached")
}

// errTaskOver: the task has ended, and its end stays as it is.
var errTaskOver = errors.New("server: the task has ended")

// change changes the record of a task that has not ended. It is the one way to do so,
// so that whoever ends a task first decides how. With errTaskOver it returns the record
// that stays.
func (ts *tasks) change(ctx context.Context, id string, f func(*store.TaskRecord) error) (rec *store.TaskRecord, err error) {
	defer containStore(&err)
	var ended *store.TaskRecord
	rec, err = ts.store.Update(ctx, id, func(rec *store.TaskRecord) error {
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
func (ts *tasks) close(rec *store.TaskRecord, status mcp.TaskStatus, message string) {
	rec.Status, rec.StatusMessage = status, taskText(message)
	rec.InputRequests, rec.InputResponses = nil, nil
	rec.Expires = rec.CreatedAt.Add(time.Duration(*rec.TTL) * time.Millisecond)
	if grace := taskTime().Add(ts.server.core.Limits().TaskGrace); grace.After(rec.Expires) {
		rec.Expires = grace
	}
}

// changed is told by the store that a task was changed, here or elsewhere.
func (ts *tasks) changed(rec *store.TaskRecord) {
	if topic := (change{taskUpdated, rec.TaskID}); ts.server.hub.wants(topic) {
		if raw, err := wire.Marshal(nil, taskResult(rec)); err == nil { // else its client polls, and learns why
			ts.server.hub.publish(news{topic, rec.Revision, raw[1 : len(raw)-1]})
		}
	}
	if t := ts.here(rec.TaskID); t != nil {
		t.changed(rec)
	}
}

// honour returns the tasks of which a caller may be told, of those that he names, with
// their revisions.
func (ts *tasks) honour(ctx context.Context, req *middleware.Request, ids []string) (known map[string]int64, err error) {
	if err := era.RequireExtension(req, mcp.ExtensionTasks); err != nil {
		return nil, err
	}
	known = map[string]int64{}
	for _, id := range ids {
		switch rec, err := ts.visible(ctx, id, req.Principal.Key()); {
		case err == nil:
			known[id] = rec.Revision
		case !errors.Is(err, store.ErrNoTask):
			return nil, ts.fault(ctx, err)
		}
	}
	return known, nil
}

func (ts *tasks) enter(t *task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.running[t.id] = t
}

func (ts *tasks) leave(t *task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	delete(ts.running, t.id)
}

// here returns the task if its handler runs here, or nil.
func (ts *tasks) here(id string) *task {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.running[id]
}

// frame returns the size of the request that has become a task, which its handler keeps in
// memory while it runs here, in bytes.
func (ts *tasks) frame(id string) int {
	if t := ts.here(id); t != nil {
		return t.call.core.Bytes
	}
	return 0
}

// snapshot shows telemetry what the core and the features of the server have.
func (s *Server) snapshot() *session.Snapshot {
	snap := s.core.Snapshot()
	snap.Readiness = s.ready.current()
	if s.tasks != nil {
		snap.Tasks = s.tasks.tally()
	}
	return snap
}

// tally counts the tasks by their status: those that the store in memory keeps, or,
// with another store, those that run here.
func (ts *tasks) tally() map[mcp.TaskStatus]int {
	if m, ok := ts.store.(*memoryTasks); ok {
		return m.tally()
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	counts := map[mcp.TaskStatus]int{}
	for _, t := range ts.running {
		counts[t.status()]++
	}
	return counts
}

// taskTime is now, as records tell it.
func taskTime() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// maxTaskText bounds the message of a task, in bytes.
const maxTaskText = 1024

func taskText(message string) string { return session.Printable(message, maxTaskText) }

// taskName names a task in logs and traces. The whole id is a credential of a kind.
func taskName(id string) string { return fmt.Sprintf("%.8s", id) }

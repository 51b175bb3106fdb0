package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/store"
)

// storePatience bounds an operation of the store when no request waits for it.
const storePatience = 5 * time.Second

// records has the store of a server's tasks, and what all tasks share.
type records struct {
	core    *session.Core
	logger  *slog.Logger
	encoder *era.Encoder
	teller  *era.Teller
	store   store.TaskStore
	fenced  atomic.Uint64 // ends that were refused because other replicas run the tasks
	// unstored counts ends that the store does not have.
	unstored atomic.Uint64
}

func (s *records) create(ctx context.Context, rec *store.TaskRecord) (err error) {
	defer containStore(&err)
	return s.store.Create(ctx, rec)
}

func (s *records) load(ctx context.Context, id string) (rec *store.TaskRecord, err error) {
	defer containStore(&err)
	return s.store.Load(ctx, id)
}

// containStore is deferred. It turns a panic of the store into an error.
func containStore(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("server: the store of tasks panicked: %v\n%s", v, debug.Stack())
	}
}

// named is a request or a task, by which a log record says whose it is.
type named interface{ LogAttrs() []any }

// fault returns the error that a client gets for an error of the store, and logs what is the store's fault. of is what
// has asked the store.
func (s *records) fault(ctx context.Context, of named, err error) error {
	public := told(err)
	if public == error(errUnreachable) {
		s.logger.ErrorContext(ctx, "task.store", append(of.LogAttrs(), "error", err)...)
	}
	return public
}

var errUnreachable = mcp.NewError(mcp.CodeInternalError, "internal error: the tasks cannot be reached")

// told returns the error that a client gets for an error of the store.
func told(err error) error {
	if errors.Is(err, store.ErrNoTask) {
		return errNoSuchTask
	}
	if _, public := mcp.AsError(err); public {
		return err
	}
	if _, refused := mcp.AsRefusal(err); refused {
		return err
	}
	switch { // the link logs both
	case errors.Is(err, store.ErrRefused):
		return mcp.NewError(mcp.CodeInternalError, "the store that has the tasks is full, or refuses this for another reason: try again later")
	case errors.Is(err, errAway):
		return mcp.NewError(mcp.CodeInternalError, "the store that has the tasks is away: try again")
	}
	return errUnreachable
}

// errTaskOver says that the task has ended and cannot be changed.
var errTaskOver = errors.New("server: the task has ended")

// errAway says that the store has not answered.
var errAway = errors.New("server: the store of the tasks is away")

// change changes the record of a task that has not ended. All changes go through it, so that the
// first end of a task counts. With errTaskOver it returns the record as it is.
func (s *records) change(ctx context.Context, id string, f func(*store.TaskRecord) error) (rec *store.TaskRecord, err error) {
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

// close sets the end of a task in its record.
func (s *records) close(rec *store.TaskRecord, status mcp.TaskStatus, message string) {
	rec.Status, rec.StatusMessage = status, taskText(message)
	rec.InputRequests, rec.InputResponses, rec.Call = nil, nil, nil
	rec.Expires = rec.CreatedAt.Add(time.Duration(*rec.TTL) * time.Millisecond)
	if grace := taskTime().Add(s.core.Limits().TaskGrace); grace.After(rec.Expires) {
		rec.Expires = grace
	}
}

// errNoSuchTask is the error for an id that is unknown, has expired, or belongs to another
// principal. The caller cannot tell these apart.
var errNoSuchTask = mcp.NewError(mcp.CodeInvalidParams, "there is no such task")

// recordOverhead is the size of a record without its variable parts, in bytes.
const recordOverhead = 512

// recordSize estimates the memory that a record takes, in bytes.
func recordSize(r *store.TaskRecord) int {
	n := recordOverhead + len(r.TaskID) + len(r.StatusMessage) + len(r.Principal) + len(r.Tool) + len(r.Client) + len(r.ClientVersion) + len(r.Trace) + len(r.Call) + len(r.Result)
	for key, q := range r.InputRequests {
		params, _ := q.Params.(jsontext.Value)
		n += len(key) + len(q.Method) + len(params)
	}
	for key, raw := range r.InputResponses {
		n += len(key) + len(raw)
	}
	if r.Error != nil {
		data, _ := r.Error.Data.(jsontext.Value)
		n += len(r.Error.Message) + len(data)
	}
	return n
}

// resultOf returns the result of tasks/get.
func resultOf(r *store.TaskRecord) *mcp.GetTaskResult {
	return &mcp.GetTaskResult{Task: r.Task, InputRequests: r.InputRequests, Result: r.Result, Error: r.Error}
}

// askClient adds an open question to the record.
func askClient(r *store.TaskRecord, key string, q mcp.InputRequest) {
	if r.InputRequests == nil {
		r.InputRequests = map[string]mcp.InputRequest{}
	}
	r.InputRequests[key] = q
	delete(r.InputResponses, key)
	r.Status = mcp.TaskInputRequired
}

// clientAnswered replaces a question of the record by its answer. A message that has asked for it again is outdated.
func clientAnswered(r *store.TaskRecord, key string, answer jsontext.Value) {
	if r.InputResponses == nil {
		r.InputResponses = map[string]jsontext.Value{}
	}
	r.InputResponses[key] = answer
	delete(r.InputRequests, key)
	if asksAgain(r.StatusMessage, key) {
		r.StatusMessage = ""
	}
	if len(r.InputRequests) == 0 {
		r.Status = mcp.TaskWorking
	}
}

// taskTime returns the current time as records have it: UTC, in milliseconds.
func taskTime() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// maxTaskText bounds the message of a task, in bytes.
const maxTaskText = 1024

func taskText(message string) string { return logline.Printable(message, maxTaskText) }

// taskName returns the name of a task in logs and traces: a part of the id, since the whole id
// gives access to the task.
func taskName(id string) string { return fmt.Sprintf("%.8s", id) }

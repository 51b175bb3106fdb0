package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/store"
)

// storePatience bounds what is done with a store when no request waits for it.
const storePatience = 5 * time.Second

// records are the tasks of a server in their store, and what else all tasks need.
type records struct {
	core    *session.Core
	logger  *slog.Logger
	encoder *era.Encoder
	teller  *era.Teller
	store   store.TaskStore
}

func (s *records) create(ctx context.Context, rec *store.TaskRecord) (err error) {
	defer containStore(&err)
	return s.store.Create(ctx, rec)
}

func (s *records) load(ctx context.Context, id string) (rec *store.TaskRecord, err error) {
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
func (s *records) fault(ctx context.Context, err error) error {
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

// close ends a task.
func (s *records) close(rec *store.TaskRecord, status mcp.TaskStatus, message string) {
	rec.Status, rec.StatusMessage = status, taskText(message)
	rec.InputRequests, rec.InputResponses = nil, nil
	rec.Expires = rec.CreatedAt.Add(time.Duration(*rec.TTL) * time.Millisecond)
	if grace := taskTime().Add(s.core.Limits().TaskGrace); grace.After(rec.Expires) {
		rec.Expires = grace
	}
}

// errNoSuchTask is the answer for an id that is unknown, has expired, or belongs to
// somebody else: nobody learns which.
var errNoSuchTask = mcp.NewError(mcp.CodeInvalidParams, "there is no such task")

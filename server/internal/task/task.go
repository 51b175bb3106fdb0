// Package task lets the calls of tools go on as tasks (extension io.modelcontextprotocol/tasks)
// and serves what clients ask about them.
package task

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/store"
)

// A task is a handler that goes on after its call was answered. It lives in the process in which
// the handler runs. Clients see its record in the store.
type task struct {
	records *records
	leave   func() // removes the task from those that run
	// saveLater has the end stored when the store is back, if replicas share it. If another end waits already, or is known to
	// be stored, it returns that and errTaskOver.
	saveLater func(t *task, end func(*store.TaskRecord) error) (*store.TaskRecord, error)
	request   *middleware.Request // as the handler, or before that the core, has it
	core      *session.Request
	id        string
	run       int    // which run of the handler it is, from 1
	replica   string // the name of this process in the record
	work      *session.Detached
	stored    bool        // the record has what another run needs
	limit     string      // the limit that sets the TTL, or ""
	timer     *time.Timer // fires at the end of the TTL

	mu       sync.Mutex        // guards the rest
	claiming bool              // another replica may run the task instead: see Service.claim
	heard    *store.TaskRecord // the latest record of the task meanwhile, or nil
	seen     mcp.TaskStatus
	revision int64              // of the record that had the status seen
	waiting  map[string]*waiter // questions without an answer
	asked    map[string]int     // how often the handler has used each key
	taken    []string           // keys of delivered answers that are still in the record
	said     saying
}

// saying limits the rate of messages.
type saying struct {
	message string
	pending bool // a timer will write it
	last    time.Time
	timer   *time.Timer
}

// messagePause is the least time between two messages of a task. Each message is an update of
// the store and a notification to subscribers.
const messagePause = time.Second

// newTask returns the task that a request has become. rec is its record as this run of the handler begins.
func newTask(r *records, req *middleware.Request, core *session.Request, work *session.Detached, rec *store.TaskRecord, limit string) *task {
	return &task{
		records: r, request: req, core: core, id: rec.TaskID, run: rec.Runs, replica: rec.Replica, work: work, limit: limit,
		seen: rec.Status, revision: rec.Revision, waiting: map[string]*waiter{}, asked: map[string]int{},
	}
}

// ctx returns the context of the handler.
func (t *task) ctx() context.Context { return t.work.Context() }

// begin starts the timer of the TTL.
func (t *task) begin(end time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(time.Until(end), t.expire)
}

// abort ends a task whose record could not be created.
func (t *task) abort(err error) {
	rpc, _ := mcp.AsError(err)
	t.leave()
	t.work.Done(session.DetachedEnd{Status: mcp.TaskFailed, Error: rpc})
}

// expire ends the task at the end of its TTL.
func (t *task) expire() {
	end := session.StoppedEnd(mcp.CauseDeadline)
	failed := storable(end.Error.WithData(mcp.ErrorData{Reason: string(mcp.CauseDeadline), Limit: t.limit}))
	if _, err := t.end(end.Status, nil, failed); errors.Is(err, errTaskOver) || errors.Is(err, errTakenOver) {
		return
	}
	if t.limit != "" {
		t.records.core.LimitReached(t.limit)
	}
	t.work.Cancel(&mcp.CancelError{Cause: mcp.CauseDeadline})
}

// change changes the record, unless another replica has begun the handler again. It uses a context of its own,
// since that of the handler may be over. A task that was deleted after its end is over (errTaskOver).
func (t *task) change(f func(*store.TaskRecord) error) (*store.TaskRecord, error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(t.ctx()), storePatience, mcp.ErrDeadline)
	defer cancel()
	rec, err := t.records.change(ctx, t.id, t.unlessTakenOver(f))
	if errors.Is(err, errTakenOver) {
		t.work.Cancel(&mcp.CancelError{Cause: mcp.CauseReplicaLost})
		return nil, err
	}
	if seen := t.status(); errors.Is(err, store.ErrNoTask) && seen.Terminal() {
		return &store.TaskRecord{Task: mcp.Task{TaskID: t.id, Status: seen}}, errTaskOver
	}
	if err != nil && !errors.Is(err, errTaskOver) && !errors.Is(err, errAway) {
		if _, public := mcp.AsError(err); !public {
			t.records.logger.ErrorContext(t.ctx(), "task.store", append(t.work.LogAttrs(), "error", err)...)
		}
	}
	return rec, err
}

func (t *task) takenOver(rec *store.TaskRecord) bool { return takenOver(rec, t.run, t.replica) }

// unlessTakenOver returns a change that fails if another replica runs the task, or does so until this one has claimed
// it. (An earlier release stores no number: for it there is one run.)
func (t *task) unlessTakenOver(change func(*store.TaskRecord) error) func(*store.TaskRecord) error {
	return func(rec *store.TaskRecord) error {
		if t.takenOver(rec) || t.run > 1 && rec.Runs < t.run {
			return errTakenOver
		}
		return change(rec)
	}
}

func (t *task) status() mcp.TaskStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen
}

// say sets the message of the task. It returns why the handler should stop, or nil.
func (t *task) say(message string) error {
	if t.ctx().Err() != nil {
		return context.Cause(t.ctx())
	}
	if message == "" {
		return nil
	}
	t.mu.Lock()
	t.said.message = message
	held := t.said.pending
	t.said.pending = true
	wait := messagePause - time.Since(t.said.last)
	if !held && wait > 0 {
		t.said.timer = time.AfterFunc(wait, t.writeMessage)
	}
	t.mu.Unlock()
	if !held && wait <= 0 {
		t.writeMessage()
	}
	return nil
}

// writeMessage writes the latest message. It ignores errors, because more messages follow.
func (t *task) writeMessage() {
	t.mu.Lock()
	message := t.said.message
	t.said.pending, t.said.last = false, time.Now()
	t.mu.Unlock()
	_, _ = t.change(func(rec *store.TaskRecord) error {
		rec.StatusMessage = taskText(message)
		return nil
	})
}

// finish ends the task with the outcome of its handler. If the task has ended before, the outcome
// is ignored.
func (t *task) finish(e ending) {
	var end session.DetachedEnd
	defer func() { t.work.Done(end) }()
	defer t.leave()
	t.mu.Lock()
	t.timer.Stop()
	if t.said.timer != nil {
		t.said.timer.Stop()
	}
	t.mu.Unlock()
	var result jsontext.Value
	end.Status, result, end.Error, end.Hidden = t.outcome(&e)
	if e.drained && t.handOver() {
		end = session.DetachedEnd{Status: mcp.TaskWorking}
		return
	}
	rec, err := t.end(end.Status, result, end.Error)
	if limit, _ := mcp.AsError(err); limit != nil { // the result is too large for the store
		end.Status, end.Error = mcp.TaskFailed, storable(limit)
		rec, err = t.end(end.Status, nil, end.Error)
	}
	switch {
	case errors.Is(err, errTakenOver), errors.Is(err, errTaskOver) && t.takenOver(rec):
		end = session.StoppedEnd(mcp.CauseReplicaLost)
		t.records.fence(t.ctx(), t.work.LogAttrs()...)
		return
	case errors.Is(err, errTaskOver):
		end.Status, end.Error = rec.Status, rec.Error
		t.records.logger.DebugContext(t.ctx(), "task.late", append(t.work.LogAttrs(), "status", end.Status)...)
		return
	case err != nil && !t.status().Terminal(): // change has logged what is the fault of the store
		t.records.unstored.Add(1)
	}
	if tool, ok := e.result.(*mcp.CallToolResult); ok && tool != nil {
		end.ToolError = tool.IsError && !e.blameless
	}
}

// end writes the end of the task. If replicas share the store and it is away, the end is stored later.
func (t *task) end(status mcp.TaskStatus, result jsontext.Value, failed *mcp.Error) (*store.TaskRecord, error) {
	end := func(rec *store.TaskRecord) error {
		message := "" // the handler's last message is outdated
		if failed != nil {
			message = failed.Message
		}
		t.records.close(rec, status, message)
		rec.Result, rec.Error = result, failed
		return nil
	}
	rec, err := t.change(end)
	if errors.Is(err, errAway) {
		rec, err = t.saveLater(t, t.unlessTakenOver(end))
	}
	return rec, err
}

// outcome returns how a task ends. failed can be stored. hidden is the handler's own error if the
// client gets another one. An error that a tool reports to the model becomes the result.
func (t *task) outcome(e *ending) (status mcp.TaskStatus, result jsontext.Value, failed *mcp.Error, hidden error) {
	if e.panic != nil {
		t.work.Panicked(e.panic.Value, e.panic.Stack)
		return mcp.TaskFailed, nil, errInternal, nil
	}
	// conclude calls marshalers and error types of the user.
	if !t.contain(func() { status, result, failed, hidden = t.conclude(e) }) {
		return mcp.TaskFailed, nil, errInternal, nil
	}
	return status, result, failed, hidden
}

// conclude is outcome for a handler that has not panicked. It may panic.
func (t *task) conclude(e *ending) (status mcp.TaskStatus, result jsontext.Value, failed *mcp.Error, hidden error) {
	err := e.err
	if errors.Is(err, mcp.ErrNotDeclared) {
		_, err = era.NotDeclared(t.request, err)
	}
	if err != nil && era.CancelledBy(t.ctx(), err) == nil {
		hidden = era.Hidden(err)
		e.blameless = mcp.IsCallerFault(err)
		tool, told := t.records.teller.Tell(t.ctx(), t.core, err)
		if e.result, err = tool, nil; told != nil {
			err = told
		}
	}
	if err == nil {
		if result, err = t.records.encoder.EncodeTask(&t.request.Peer, e.result); err == nil {
			return mcp.TaskCompleted, result, nil, hidden
		}
		err = fmt.Errorf("encode the result: %w", err)
	}
	err = era.TaskError(err)
	if rpc, _ := mcp.AsError(err); rpc != nil {
		return mcp.TaskFailed, nil, storable(rpc), hidden
	}
	cause, cancelled := mcp.CauseOf(t.ctx())
	if !cancelled || !errors.Is(err, context.Cause(t.ctx())) && !errors.Is(err, context.Canceled) {
		t.records.logger.ErrorContext(t.ctx(), "handler.error", append(t.work.LogAttrs(), "error", err)...)
		return mcp.TaskFailed, nil, errInternal, err
	}
	e.drained = cause == mcp.CauseServerShutdown
	end := session.StoppedEnd(cause)
	return end.Status, nil, storable(end.Error), nil
}

// contain runs f on a goroutine of its own and waits for it. So the end of the task is written
// even if a marshaler of the user panics or calls runtime.Goexit. It reports whether f has
// returned.
func (t *task) contain(f func()) (returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if !returned {
				t.work.Panicked(recover(), debug.Stack())
			}
		}()
		f()
		returned = true
	}()
	<-done
	return returned
}

var errInternal = mcp.NewError(mcp.CodeInternalError, "internal error")

// storable returns an error whose data is JSON, so that a store can keep it.
func storable(err *mcp.Error) *mcp.Error {
	if err == nil || err.Data == nil {
		return err
	}
	c := *err
	c.Data = nil
	if raw, failed := wire.Marshal(nil, err.Data); failed == nil {
		c.Data = jsontext.Value(raw)
	}
	return &c
}

// An ending is the outcome of a handler.
type ending struct {
	result mcp.Result
	err    error
	panic  *session.HandlerPanic // a nil value is a runtime.Goexit
	// blameless says that the result reports an error which is the caller's fault.
	blameless bool
	// drained says that the handler was stopped because the server shuts down.
	drained bool
}

// A waiter is a question that waits for its answer.
type waiter struct {
	ask.Question
	answer  chan jsontext.Value // buffered for the one answer
	judging sync.Mutex          // held while an answer is judged that the handler gets if it is valid
}

package task

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/store"
)

// This file begins the handlers of tasks again whose replicas are lost.

// TakenOver returns how many tasks of lost replicas this one has begun again.
func (s *Service) TakenOver() uint64 { return s.taken.Load() }

// replica returns the name of this process among the replicas, or "" if they do not share tasks.
func (s *Service) replica() string {
	if shared := s.shared.Load(); shared != nil {
		return shared.link.Replica()
	}
	return ""
}

// createRestartable creates the record of a task. If the tool is restartable and replicas share tasks, the record has
// what another run needs, unless there is no room for that.
func (s *Service) createRestartable(ctx context.Context, t *task, rec *store.TaskRecord) error {
	if !t.core.Route.Restartable || s.shared.Load() == nil {
		return s.create(ctx, rec)
	}
	var err error
	if rec.Call, err = encodeCall(t.core, t.limit); err == nil {
		t.stored = true
		if err = s.create(ctx, rec); limitOf(err) != limits.NameTaskBytes {
			return err
		}
		rec.Call, t.stored = nil, false
	}
	if ok, silenced := s.lines.Allow("task.not_restartable", rec.Tool, time.Now()); ok {
		s.logger.WarnContext(ctx, "task.not_restartable", append(t.work.LogAttrs(), "error", err, "silenced", silenced)...)
	}
	return s.create(ctx, rec)
}

var (
	errNothingStored = errors.New("the record does not have what another run needs: the tool is not restartable, or there was no room")
	errLifeOver      = errors.New("the life of the task is over")
	errStillHere     = errors.New("server: the handler of an earlier run has not returned")
)

// restart begins a task again whose replica is lost. It returns why no replica may, or errAway. If this one has no room
// now, or another one is faster, it returns nil: then somebody asks for the task again, or it runs.
func (s *Service) restart(ctx context.Context, shared *shared, rec *store.TaskRecord) error {
	if rec.Call == nil {
		return errNothingStored
	}
	if rec.Runs >= s.core.Limits().MaxTaskRuns {
		return mcp.NewError(mcp.CodeInternalError, "the handler has begun %d times, which is all that %s allows", rec.Runs, limits.NameTaskRuns).
			WithData(mcp.ErrorData{Limit: limits.NameTaskRuns})
	}
	run := &Run{service: s, state: runRestarted}
	in, limit, err := decodeCall(rec, run, s.core.Limits().Wire())
	if err != nil {
		return err
	}
	ends := rec.CreatedAt.Add(time.Duration(*rec.TTL) * time.Millisecond)
	if !time.Now().Before(ends) {
		return errLifeOver
	}
	work, err := s.core.Restart(in, taskName(rec.TaskID), rec.Runs+1, ends)
	if err != nil {
		if errors.Is(err, session.ErrNotRestartable) {
			return err
		}
		return nil
	}
	next := nextRun(rec, shared.link.Replica())
	req := &middleware.Request{Method: in.Method}
	era.DescribePeer(&req.Peer, in, nil)
	t := newTask(&s.records, req, in.Request(), work.Detached, next, limit)
	t.saveLater, t.leave, t.stored = s.saveLater, func() { s.leave(t) }, true
	if err := s.claim(ctx, shared, t, rec, next); err != nil {
		t.leave()
		work.Done(session.DetachedEnd{})
		if errors.Is(err, errAway) {
			return err
		}
		return nil
	}
	run.task.Store(t)
	run.again = &mcp.CreateTaskResult{Task: next.Task}
	t.begin(ends)
	go s.serve(run, work, rec)
	return nil
}

// nextRun returns the record of a task that begins again at a replica. Questions of the run before are void.
func nextRun(rec *store.TaskRecord, replica string) *store.TaskRecord {
	next := rec.Clone()
	next.Runs, next.Replica, next.HandedOver = rec.Runs+1, replica, false
	withoutQuestions(next)
	return next
}

// claim takes a task over whose record was found as old. It returns an error if this replica does not run it.
func (s *Service) claim(ctx context.Context, shared *shared, t *task, old, next *store.TaskRecord) error {
	if s.here(t.id) != nil {
		return errStillHere
	}
	t.claiming = true
	s.enter(t) // before the lease, which is kept while tasks run here
	if err := shared.lease.hold(ctx); err != nil {
		return errors.Join(errAway, err)
	}
	shared.drop(t.id)
	made, err := shared.enter(next)
	shared.discard(ctx, made)
	if err != nil {
		return err
	}
	_, err = s.change(ctx, t.id, func(rec *store.TaskRecord) error {
		if takenOver(rec, old.Runs, old.Replica) {
			return errTakenOver
		}
		*rec = *nextRun(rec, t.replica)
		return nil
	})
	if errors.Is(err, errAway) {
		if now, known := s.settle(ctx, t.id, t.ctx().Done()); known == nil && now.Runs == t.run && now.Replica == t.replica {
			err = nil
		}
	}
	if err != nil {
		shared.drop(t.id)
		return err
	}
	t.claimed()
	return nil
}

// isClaiming reports whether this replica does not know yet that it runs the task. It keeps the record for claimed then: if
// another replica runs the task, that is no concern of the handler, which has not begun.
func (t *task) isClaiming(rec *store.TaskRecord) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claiming && (t.heard == nil || rec.Revision >= t.heard.Revision) {
		t.heard = rec
	}
	return t.claiming
}

// claimed notes that this replica runs the task.
func (t *task) claimed() {
	t.mu.Lock()
	rec := t.heard
	t.claiming, t.heard = false, nil
	t.mu.Unlock()
	if rec != nil {
		t.changed(rec)
	}
}

// settle finds out what has become of a change of a task to which the store did not answer. It makes an empty change,
// again and again until there is an answer, ctx ends or stop is closed. After it a change that was late has no effect
// any more. Like change it returns the record of a task that has ended with errTaskOver.
func (s *Service) settle(ctx context.Context, id string, stop <-chan struct{}) (*store.TaskRecord, error) {
	for {
		select {
		case <-time.After(leaseRetry):
		case <-ctx.Done():
			return nil, errAway
		case <-stop:
			return nil, errAway
		}
		rec, err := s.change(ctx, id, func(*store.TaskRecord) error { return nil })
		if !errors.Is(err, errAway) {
			return rec, err
		}
	}
}

// serve calls the handler of a task that this replica has taken over. rec is its record as the lost replica has left
// it.
func (s *Service) serve(run *Run, work *session.Restart, rec *store.TaskRecord) {
	t := run.task.Load()
	if refused := work.Begin(); refused != nil {
		s.noteLost(t.ctx(), rec, refused)
		t.finish(ending{err: lostEnd(refused).Error})
		return
	}
	s.taken.Add(1)
	s.logger.WarnContext(t.ctx(), "task.taken_over", append(s.describe(rec), "run", t.run, "lasted", time.Since(rec.CreatedAt).Round(time.Millisecond))...)
	end := ending{panic: &session.HandlerPanic{}}
	defer func() {
		if end.panic != nil {
			end.panic.Value, end.panic.Stack = recover(), debug.Stack()
		}
		run.answered(end)
	}()
	result, err := work.Serve()
	end = ending{result: result, err: err}
}

// answered takes the answer of the route. Usually that is the task. If a middleware has answered or failed without
// the handler, this ends the task.
func (r *Run) answered(e ending) {
	t := r.task.Load()
	switch {
	case r.begun.CompareAndSwap(false, true):
		t.finish(e)
	case e.panic != nil:
		t.work.Panicked(e.panic.Value, e.panic.Stack)
	}
}

package task

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"

	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
	"github.com/vitrine-mcp/vitrine/store"
)

// start makes a task of a call. The record is in the store when it returns.
func (s *Service) start(ctx context.Context, d *ask.Dialog, o Options) (*task, *mcp.CreateTaskResult, error) {
	if err := errors.Join(o.check(), over(ctx, d)); err != nil {
		return nil, nil, err
	}
	if s.ledger != nil && s.shared.Load() == nil && s.core.Draining() {
		return nil, nil, session.ShuttingDown() // no client could ask for the task: it is in the memory of this process
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
		// The grace is for clients that want to read the end of a task which was cancelled at
		// its TTL.
		Expires: now.Add(ttl + s.core.Limits().TaskGrace), Replica: s.replica(), Runs: 1,
	}
	work, refused := s.core.Detach(ctx, d.Core, taskName(rec.TaskID), now.Add(ttl))
	if refused != nil {
		return nil, nil, refused
	}
	rec.Client, rec.ClientVersion = work.Client()
	t := newTask(&s.records, d.Request, d.Core, work, rec, limit)
	t.leave = func() { s.leave(t) }
	t.saveLater = s.saveLater
	if s.ledger == nil { // nobody else counts the request, which the handler keeps
		d.Core.Body.Hold()
		t.leave = func() {
			s.leave(t)
			d.Core.Body.Release()
		}
	}
	s.enter(t)
	if err := s.createRestartable(ctx, t, rec); err != nil {
		err = s.fault(ctx, work, err)
		t.abort(err)
		return nil, nil, err
	}
	t.begin(now.Add(ttl))
	return t, &mcp.CreateTaskResult{Task: rec.Task}, nil
}

// over returns why a call cannot become a task any more, or nil.
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

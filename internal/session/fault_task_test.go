package session

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// E20: the handler goes on after its request was answered.
var cellsE20 = []faultCell{
	{state: "answered", limits: oneSlot, test: func(w *world) {
		k := w.detacher("work")
		p := w.connect(true)
		p.call("1", "work")
		d := k.next()
		require.Equal(w.t, []string{resultFrame("1", "task")}, p.frames())
		require.Empty(w.t, w.core.Snapshot().Requests, "it holds neither an id nor a slot")
		require.Equal(w.t, []DetachedInfo{{Detached: d.Detached, Left: time.Minute}}, w.core.Snapshot().Detached)
		p.call("1", "work")
		require.Len(w.t, p.frames(), 2)
		k.next()
		require.NoError(w.t, d.Context().Err(), "the end of the request is not its end")
		deadline, _ := d.Context().Deadline()
		require.Equal(w.t, time.Minute, time.Until(deadline))
	}},
	{state: "class", test: func(w *world) {
		k := w.detacher("work")
		class := NewClass("heavy", 1)
		w.route("heavy", func(rt *Route) { rt.Class, rt.Handle = class, w.inner("work") })
		p := w.connect(true)
		p.call("1", "heavy")
		d := k.next()
		p.call("2", "heavy")
		require.Equal(w.t, []string{resultFrame("1", "task")}, p.frames(), "what runs counts, not what was answered")
		require.Equal(w.t, "queued", w.core.Snapshot().Requests[0].State)
		d.Done()
		k.next().Done()
		require.Len(w.t, p.frames(), 2)
		p.call("3", "heavy")
		k.next()
		require.Equal(w.t, 1, class.pool.Usage().Used, "exactly one slot")
	}},
	{state: "connection", test: func(w *world) {
		k := w.detacher("work")
		p := w.connect(true)
		p.call("1", "work")
		d := k.next()
		p.eof()
		<-p.s.Done()
		require.NoError(w.t, d.Context().Err(), "a task outlives its connection")
	}},
	{state: "orphan", test: func(w *world) {
		k := w.detacher("work")
		k.hold = make(chan struct{})
		p := w.connect(true)
		p.call("1", "work")
		p.call("2", "work")
		first, second := k.next(), k.next()
		p.cancel("1", "changed my mind") // before the answer that would have told of it
		close(k.hold)
		require.Equal(w.t, []string{resultFrame("2", "task")}, p.frames())
		if _, known := mcp.CauseOf(first.Context()); !known { // they come in either order
			first, second = second, first
		}
		require.ErrorIs(w.t, context.Cause(first.Context()), mcp.ErrClientCancelled)
		require.NoError(w.t, second.Context().Err())
		w.loggedWith("INFO task.cancelled", "target=work", "cause=client_cancel")
	}},
	{state: "first-cause", test: func(w *world) {
		k := w.detacher("work")
		w.connect(true).call("1", "work")
		d := k.next()
		require.True(w.t, d.Cancel(&mcp.CancelError{Cause: mcp.CauseDeadline}))
		require.False(w.t, d.Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel}))
		require.ErrorIs(w.t, context.Cause(d.Context()), mcp.ErrDeadline)
		require.ErrorIs(w.t, d.Context().Err(), context.DeadlineExceeded)
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "task/deadline": 1}, w.counts(), "no request was cancelled")
		d.Done()
		require.ErrorIs(w.t, context.Cause(d.Context()), mcp.ErrDeadline)
	}},
	{state: "ended", test: func(w *world) {
		k := w.detacher("work")
		w.connect(true).call("1", "work")
		d := k.next()
		d.Done()
		require.ErrorIs(w.t, context.Cause(d.Context()), mcp.ErrRequestDone, "for what it has left behind")
		require.False(w.t, d.Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel}))
		require.Empty(w.t, w.core.Snapshot().Detached)
	}},
	{state: "panic", test: func(w *world) {
		k := w.detacher("work")
		w.connect(true).call("1", "work")
		d := k.next()
		d.Panicked("ouch", debug.Stack())
		d.Panicked(nil, nil)
		d.Done()
		w.loggedWith("ERROR handler.panic", "task=work-1", "panic=ouch")
		w.loggedWith("ERROR handler.panic", "panic=goexit")
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "panics": 2}, w.counts())
	}},
	{state: "drain", test: func(w *world) {
		k := w.detacher("work")
		p := w.connect(true)
		p.call("1", "work")
		p.call("2", "work")
		quick, polite := k.next(), k.next()
		deadline, done := w.shutdown()
		time.Sleep(1500 * time.Millisecond)
		w.loggedWith("INFO drain.progress", "left=0", "tasks=2")
		require.NoError(w.t, quick.Context().Err())
		quick.Done()
		deadline()
		<-polite.Context().Done()
		w.loggedWith("WARN drain.left", "target=work", "task=")
		require.Equal(w.t, 1, w.times("WARN drain.left"))
		require.ErrorIs(w.t, context.Cause(polite.Context()), mcp.ErrServerShutdown)
		polite.Done()
		require.NoError(w.t, <-done)
	}},
	{state: "drain/idle", test: func(w *world) {
		k := w.detacher("work")
		w.connect(true).call("1", "work")
		d := k.next()
		_, done := w.shutdown()
		d.Done()
		require.NoError(w.t, <-done, "the drain waits no longer than it must")
		w.settle()
		require.Zero(w.t, w.times("WARN drain.deadline"))
	}},
	{state: "late", test: func(w *world) {
		k := w.detacher("work")
		g := w.gate("slow", false)
		p := w.connect(true)
		p.call("1", "work")
		p.call("2", "slow")
		early, h := k.next(), g.next()
		deadline, done := w.shutdown()
		late, refused := w.core.Detach(h.ctx, h.r, "late", time.Now().Add(time.Minute))
		require.Nil(w.t, refused)
		h.finish("done")
		early.Done()
		w.settle()
		require.NoError(w.t, late.Context().Err())
		deadline()
		<-late.Context().Done()
		require.ErrorIs(w.t, context.Cause(late.Context()), mcp.ErrServerShutdown)
		late.Done(DetachedEnd{Status: mcp.TaskFailed})
		require.NoError(w.t, <-done, "the drain waits for it")
	}},
	{state: "late/idle", test: func(w *world) {
		g := w.gate("work", false)
		w.connect(true).call("1", "work")
		h := g.next()
		_, done := w.shutdown()
		d, refused := w.core.Detach(h.ctx, h.r, "late", time.Now().Add(time.Minute))
		require.Nil(w.t, refused)
		h.finish("done")
		w.settle()
		select {
		case <-done:
			require.Fail(w.t, "the drain has not waited")
		default:
		}
		d.Done(DetachedEnd{Status: mcp.TaskCompleted})
		require.NoError(w.t, <-done)
		w.settle()
		require.Zero(w.t, w.times("WARN drain.deadline"))
	}},
	{state: "too-late", test: func(w *world) {
		g := w.gate("work", true)
		w.connect(true).call("1", "work")
		h := g.next()
		deadline, done := w.shutdown()
		deadline()
		w.settle()
		d, refused := w.core.Detach(h.ctx, h.r, "late", time.Now().Add(time.Minute))
		require.Nil(w.t, d)
		require.Equal(w.t, mcp.ErrorData{Reason: "shutting_down"}, refused.Data)
		h.finish("done")
		require.NoError(w.t, <-done)
	}},
	{state: "second-signal", test: func(w *world) {
		k := w.detacher("work")
		w.connect(true).call("1", "work")
		d := k.next()
		_, done := w.shutdown()
		begin := time.Now()
		w.core.Close()
		<-d.Context().Done()
		d.Done()
		require.NoError(w.t, <-done, "those that obey at once are not left behind")
		require.Zero(w.t, time.Since(begin))
	}},
	{state: "abandoned", test: func(w *world) {
		k := w.detacher("work")
		w.connect(true).call("1", "work")
		d := k.next()
		deadline, done := w.shutdown()
		deadline()
		err := <-done
		require.ErrorIs(w.t, err, ErrAbandoned)
		require.ErrorContains(w.t, err, "tools/call work (task work-1, 500ms)")
		w.loggedWith("WARN handlers.abandoned", "task=work-1", "cause=server_shutdown")
		require.True(w.t, w.core.Snapshot().Detached[0].Abandoned)
		time.Sleep(time.Hour)
		d.Done()
		w.loggedWith("INFO handler.returned", "task=work-1")
		require.Equal(w.t, 1, w.times("WARN handlers.abandoned"))
		require.Equal(w.t, counts{
			"admitted": 1, "sent": 1, "abandoned/server_shutdown": 1, "task/server_shutdown": 1,
		}, w.counts())
	}},
	{state: "slow-unwind", test: func(w *world) {
		k := w.detacher("work")
		w.connect(true).call("1", "work")
		d := k.next()
		d.Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel})
		time.Sleep(w.core.limits.AbandonGrace - time.Nanosecond)
		w.settle()
		w.loggedWith("WARN handler.slow_unwind", "task=work-1")
		require.Zero(w.t, w.times("WARN handlers.abandoned"))
		time.Sleep(time.Nanosecond)
		w.settle()
		w.loggedWith("WARN handlers.abandoned", "cause=client_cancel")
		d.Done()
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "abandoned/client_cancel": 1, "task/client_cancel": 1}, w.counts())
	}},
}

// A detacher scripts a handler that answers and goes on.
type detacher struct {
	w    *world
	work chan *detachedWork
	hold chan struct{} // if not nil, holds the answers back
}

type detachedWork struct{ *Detached }

// Done ends the work well.
func (d *detachedWork) Done() { d.Detached.Done(DetachedEnd{Status: mcp.TaskCompleted}) }

// detacher scripts a tool. What is still detached when the test ends is ended.
func (w *world) detacher(name string) *detacher {
	k := &detacher{w: w, work: make(chan *detachedWork, 16)}
	var all []*detachedWork
	n := 0
	w.handle(name, func(ctx context.Context, r *Request) (mcp.Result, error) {
		w.mu.Lock()
		n++
		title := name + "-" + string(rune('0'+n))
		w.mu.Unlock()
		d, err := w.core.Detach(ctx, r, title, time.Now().Add(time.Minute))
		if err != nil {
			return nil, err
		}
		work := &detachedWork{d}
		w.mu.Lock()
		all = append(all, work)
		w.mu.Unlock()
		k.work <- work
		if k.hold != nil {
			<-k.hold
		}
		return &textResult{Text: "task"}, nil
	})
	w.t.Cleanup(func() { // runs before the world ends
		for _, d := range all {
			if !d.hasReturned() {
				d.Done()
			}
		}
	})
	return k
}

// next returns the next work that was detached.
func (k *detacher) next() *detachedWork {
	k.w.t.Helper()
	k.w.settle()
	select {
	case d := <-k.work:
		return d
	default:
		k.w.t.Fatal("nothing was detached")
		return nil
	}
}

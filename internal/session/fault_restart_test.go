package session

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// E22: work begins again whose process is lost.
var cellsE22 = []faultCell{
	{state: "begins", test: func(w *world) {
		g := w.restartable("work", nil)
		s := w.restart("work")
		require.Empty(w.t, w.core.Snapshot().Requests)
		require.NoError(w.t, errorOf(s.Begin()))
		go func() { _, _ = s.Serve() }()
		h := g.next()
		require.Equal(w.t, []DetachedInfo{{Detached: s.Detached, Left: time.Minute}}, w.core.Snapshot().Detached)
		require.Equal(w.t, 2, s.Run)
		require.Equal(w.t, "mine", h.r.Restarted)
		require.True(w.t, h.r.Settled(), "its request was answered long ago")
		require.ErrorIs(w.t, h.r.Notify("notifications/progress", nil, ""), mcp.ErrRequestDone)
		require.Empty(w.t, w.core.Snapshot().Requests, "it holds neither an id nor a slot")
		deadline, _ := h.ctx.Deadline()
		require.Equal(w.t, time.Minute, time.Until(deadline))
		h.finish("done")
		w.settle()
		s.Done(DetachedEnd{Status: mcp.TaskCompleted})
		require.ErrorIs(w.t, context.Cause(h.ctx), mcp.ErrRequestDone)
		require.Equal(w.t, counts{"notification/after_response": 1}, w.counts(), "no request was received")
	}},
	{state: "not-allowed", test: func(w *world) {
		w.gate("work", false)
		_, err := w.core.Restart(restartedCall("work"), "work-1", 2, time.Now().Add(time.Minute))
		require.ErrorIs(w.t, err, ErrNotRestartable)
		require.Zero(w.t, w.core.running.Usage().Used)
	}},
	{state: "refused", test: func(w *world) {
		w.restartable("work", nil)
		w.core.authorize = func(*Request) error { return errors.New("not now") }
		s := w.restart("work")
		require.ErrorContains(w.t, errorOf(s.Begin()), "not allowed")
		w.core.authorize = func(r *Request) error { r.Hide(r.Route); return nil }
		require.ErrorContains(w.t, errorOf(s.Begin()), "not allowed", "its target does not exist for the caller")
		s.Done(DetachedEnd{})
		require.Empty(w.t, w.core.Snapshot().Detached)
	}},
	{state: "given-up", test: func(w *world) {
		w.restartable("work", nil)
		s := w.restart("work")
		s.Done(DetachedEnd{})
		require.Empty(w.t, w.core.Snapshot().Detached)
		require.Zero(w.t, w.core.running.Usage().Used)
	}},
	{state: "full", limits: limits.Limits{MaxRunningTasks: 1}, test: func(w *world) {
		w.restartable("work", nil)
		s := w.restart("work")
		_, err := w.core.Restart(restartedCall("work"), "work-2", 2, time.Now().Add(time.Minute))
		require.ErrorContains(w.t, err, "max_running_tasks")
		s.Done(DetachedEnd{})
		w.restart("work").Done(DetachedEnd{})
	}},
	{state: "drain", test: func(w *world) {
		w.restartable("work", nil)
		s := w.restart("work")
		_, done := w.shutdown()
		_, err := w.core.Restart(restartedCall("work"), "work-2", 2, time.Now().Add(time.Minute))
		require.ErrorContains(w.t, err, "shut")
		s.Done(DetachedEnd{})
		require.NoError(w.t, <-done, "the drain waits for work that is about to begin")
	}},
	{state: "class", test: func(w *world) {
		class := NewClass("heavy", 1)
		g := w.restartable("work", class)
		first, second, third := w.restart("work"), w.restart("work"), w.restart("work")
		served := make(chan error, 3)
		for _, s := range []*Restart{first, second, third} {
			require.NoError(w.t, errorOf(s.Begin()))
			go func() {
				_, err := s.Serve()
				served <- err
				s.Done(DetachedEnd{Status: mcp.TaskCompleted})
			}()
			w.settle()
		}
		h := g.next()
		require.Empty(w.t, g.calls, "what runs counts")
		third.Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel})
		require.ErrorIs(w.t, <-served, mcp.ErrClientCancelled)
		h.finish("done")
		g.next().finish("done")
		w.settle()
		require.Zero(w.t, class.pool.Usage().Used)
		require.Empty(w.t, w.core.Snapshot().Detached)
	}},
	{state: "panic", test: func(w *world) {
		g := w.restartable("work", nil)
		s := w.restart("work")
		require.NoError(w.t, errorOf(s.Begin()))
		contained := make(chan any, 1)
		go func() {
			defer func() {
				v := recover()
				s.Panicked(v, debug.Stack())
				contained <- v
				s.Done(DetachedEnd{Status: mcp.TaskFailed})
			}()
			_, _ = s.Serve()
		}()
		g.next().panic("ouch")
		require.Equal(w.t, "ouch", <-contained)
		w.loggedWith("ERROR handler.panic", "task=work-1", "run=2", "panic=ouch")
	}},
}

// restartable scripts a tool whose work may begin again.
func (w *world) restartable(name string, class *Class) *gate {
	g := w.gate(name, false)
	w.route(name, func(rt *Route) { rt.Restartable, rt.Class = true, class })
	return g
}

// restart enters work that begins again.
func (w *world) restart(tool string) *Restart {
	w.t.Helper()
	s, err := w.core.Restart(restartedCall(tool), tool+"-1", 2, time.Now().Add(time.Minute))
	require.NoError(w.t, err)
	return s
}

// restartedCall is a call of a tool as another process has stored it.
func restartedCall(tool string) *Inbound {
	return &Inbound{
		Envelope: wire.Envelope{Kind: wire.Request, ID: mcp.IntID(1), Method: mcp.MethodToolsCall, Name: tool, HasName: true},
		Era:      mcp.Modern, Version: mcp.LatestVersion, Conn: &Conn{Transport: "http"}, Restarted: "mine",
	}
}

// errorOf returns an error that may be nil.
func errorOf(err *mcp.Error) error {
	if err == nil {
		return nil
	}
	return err
}

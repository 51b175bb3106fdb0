package session

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// E9: DELETE of a legacy HTTP session. The status codes are the transport's; here
// its exchange learns that there is nothing to answer (Pump returns ErrClosed).
var cellsE9 = []faultCell{
	{state: "Q", limits: oneSlot, test: func(w *world) {
		running, queued := w.gate("work", false), w.gate("late", false)
		s := w.open("session-1")
		x1, x2 := w.post(s, callFrame("1", "work")), w.post(s, callFrame("2", "late"))
		running.next()
		s.Close(mcp.CauseSessionDelete)
		queued.empty()
		for _, x := range []*exchange{x1, x2} {
			require.True(w.t, x.ended())
			require.ErrorIs(w.t, x.err, mcp.ErrClosed)
			require.Empty(w.t, x.frames())
		}
		require.Equal(w.t, counts{"admitted": 2, "dropped/session_gone": 2, "cancelled/session_delete": 2}, w.counts())
		w.loggedWith("INFO session.closed", "cause=session_delete", "requests=2", "cut=2", "abandoned=0")
		w.logged("DEBUG response.dropped")
	}},
	{state: "M", test: func(w *world) {
		g := w.gate("work", false)
		seen := w.layers("work")
		s := w.open("session-1")
		x := w.post(s, callFrame("1", "work"))
		g.next()
		s.Close(mcp.CauseSessionDelete)
		w.deleted(x)
		require.Equal(w.t, []string{"inner:session_delete", "outer:session_delete"}, seen.get())
	}},
	{state: "R", test: func(w *world) {
		g := w.gate("work", false)
		s := w.open("session-1")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		s.Close(mcp.CauseSessionDelete)
		w.deleted(x)
		require.Equal(w.t, "session_delete", h.cause())
		require.ErrorIs(w.t, context.Cause(h.ctx), mcp.ErrSessionDeleted)
	}},
	{state: "B", test: func(w *world) {
		a := w.asker("work", false)
		s := w.open("session-1")
		x := w.post(s, callFrame("1", "work"))
		h := a.blocked()
		require.Equal(w.t, []string{askFrame("1")}, x.frames())
		s.Close(mcp.CauseSessionDelete)
		w.deleted(x, askFrame("1")) // and no courtesy cancel
		require.Equal(w.t, "session_delete", h.cause())
		require.ErrorIs(w.t, a.answer().err, mcp.ErrSessionDeleted)
	}},
	{state: "P", limits: small, test: func(w *world) {
		k := w.stepper("work")
		s := w.open("session-1")
		x := w.post(s, callFrame("1", "work"))
		unblock := k.fill(x.sink)
		before := w.counts()
		s.Close(mcp.CauseSessionDelete)
		require.ErrorIs(w.t, k.results()[2], mcp.ErrSessionDeleted)
		require.Equal(w.t, "session_delete", k.cause())
		unblock()
		require.True(w.t, x.ended())
		require.Empty(w.t, x.frames(), "what was not flushed when the stream was closed is not flushed any more")
		require.Equal(w.t, counts{"dropped/session_gone": 1, "cancelled/session_delete": 1, "notification/session_gone": 3},
			w.counts().since(before))
		w.logged("DEBUG notification.dropped")
	}},
	{state: "S", test: func(w *world) {
		g := w.gate("work", false)
		at := w.stopAt(pointAfterSettle, "work")
		s := w.open("session-1")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		h.finish("done")
		at.await()
		s.Close(mcp.CauseSessionDelete)
		require.Empty(w.t, x.frames())
		at.release()
		require.True(w.t, x.ended())
		require.NoError(w.t, x.err)
		require.Equal(w.t, []string{resultFrame("1", "done")}, x.frames())
		require.Empty(w.t, h.cause())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts())
	}},
	{state: "W", test: func(w *world) {
		g := w.gate("work", false)
		s := w.open("session-1")
		slow, stalled := w.post(s, callFrame("1", "work")), w.post(s, callFrame("2", "work"))
		flushed := make(chan struct{})
		slow.sink.onFlush(blockUntil(flushed))
		stalled.sink.onFlush(blockUntil(nil))
		g.next().finish("done")
		g.next().finish("done")
		w.settle()
		s.Close(mcp.CauseSessionDelete)
		<-s.Done() // does not wait for the writers
		close(flushed)
		require.True(w.t, slow.ended())
		require.Len(w.t, slow.frames(), 1)
		require.Equal(w.t, counts{"admitted": 2, "sent": 1}, w.counts())

		time.Sleep(w.core.limits.WriteTimeout)
		require.True(w.t, stalled.ended())
		require.Empty(w.t, stalled.frames())
		require.Equal(w.t, counts{"admitted": 2, "sent": 1, "dropped/session_gone": 1, "limit/write_timeout": 1}, w.counts())
	}},
	{state: "twice", test: func(w *world) {
		s := w.open("session-1")
		w.handle("work", func(ctx context.Context, _ *Request) (mcp.Result, error) {
			s.Close(mcp.CauseSessionDelete) // from a handler: starts the teardown and returns
			return nil, context.Cause(ctx)
		})
		listening, ok := w.get(s)
		require.True(w.t, ok)
		x := w.post(s, callFrame("1", "work"))
		w.deleted(x)
		require.True(w.t, listening.ended())
		require.Nil(w.t, w.core.Session("session-1", nil), "the second DELETE finds nothing: 404")
		s.Close(mcp.CauseSessionIdle)
		_, done := w.shutdown()
		require.NoError(w.t, <-done)
		require.Equal(w.t, map[mcp.Cause]uint64{mcp.CauseSessionDelete: 1}, w.core.Snapshot().Counters.SessionsClosed)
		require.Equal(w.t, 1, w.times("INFO session.closed"))

		before := w.counts()
		x = w.post(s, callFrame("2", "work")) // found its session before it was gone
		require.True(w.t, x.ended())
		hasError(w.t, x.frames()[0], "2", mcp.CodeInvalidRequest, "session_unknown")
		require.Equal(w.t, counts{"rejected/session_unknown": 1}, w.counts().since(before))
		_, ok = w.get(s)
		require.False(w.t, ok)
	}},
}

// deleted checks what became of the one request of a deleted session.
func (w *world) deleted(x *exchange, frames ...string) {
	w.t.Helper()
	require.True(w.t, x.ended())
	require.ErrorIs(w.t, x.err, mcp.ErrClosed)
	require.ElementsMatch(w.t, frames, x.frames())
	require.Equal(w.t, counts{"admitted": 1, "dropped/session_gone": 1, "cancelled/session_delete": 1}, w.counts())
	w.logged("INFO session.closed")
}

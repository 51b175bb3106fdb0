package session

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// E8: the standalone GET stream of a legacy HTTP session is lost.
var cellsE8 = []faultCell{
	{state: "no-state", limits: limits.Limits{SessionIdle: time.Minute}, test: func(w *world) {
		g, s := w.gate("work", false), w.open("session")
		own, _ := w.get(s)
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		require.NoError(w.t, s.Notify(w.t.Context(), "notifications/a", nil, ""))
		require.Equal(w.t, []string{`{"jsonrpc":"2.0","method":"notifications/a"}`}, own.frames())

		free := make(chan struct{})
		own.sink.on(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
		require.NoError(w.t, s.Notify(w.t.Context(), "notifications/b", nil, "")) // is being written
		w.settle()
		require.NoError(w.t, s.Notify(w.t.Context(), "notifications/c", nil, "")) // waits behind it
		own.leave()
		close(free)
		w.hangUp(s, own)
		require.ErrorIs(w.t, s.Notify(w.t.Context(), "notifications/d", nil, ""), mcp.ErrPeerGone)
		require.Equal(w.t, counts{
			"admitted": 1, "notification/broken_peer": 1, "notification/stream_gone": 2,
		}, w.counts())
		w.logged("DEBUG stream.lost")
		w.loggedWith("DEBUG notification.dropped", "reason=stream_gone")

		require.Empty(w.t, h.cause())
		time.Sleep(59 * time.Second) // less than the deadline
		h.finish("done")
		require.Equal(w.t, []string{resultFrame("1", "done")}, x.frames())
		time.Sleep(time.Minute - 1) // idle counts from here
		w.settle()
		require.NotNil(w.t, w.core.Session("session", nil))
		time.Sleep(time.Nanosecond)
		w.settle()
		require.Nil(w.t, w.core.Session("session", nil))
	}},
	{state: "B", test: func(w *world) {
		s := w.open("session")
		first := w.ask(s, w.t.Context()) // there is no stream yet
		w.settle()
		own, _ := w.get(s)
		require.Equal(w.t, []string{askFrame("1")}, own.frames())
		w.tell(s, replyFrame("1", `{}`))
		require.NoError(w.t, (<-first).err)

		// The stream is lost before the call is written.
		free := make(chan struct{})
		own.sink.on(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
		require.NoError(w.t, s.Notify(w.t.Context(), "notifications/x", nil, ""))
		w.settle()
		second := w.ask(s, w.t.Context())
		w.settle()
		own.leave()
		close(free)
		w.hangUp(s, own)
		time.Sleep(10 * time.Second)
		require.Empty(w.t, second)
		require.Len(w.t, w.core.Snapshot().Outbound, 1)
		own, _ = w.get(s)
		require.Equal(w.t, []string{askFrame("2")}, own.frames())
		w.tell(s, replyFrame("2", `{}`))
		require.NoError(w.t, (<-second).err)
		require.Equal(w.t, counts{"notification/broken_peer": 1}, w.counts())

		// A call that a handler has made, and that its lost exchange has left to the
		// session's stream, waits there as well.
		a := w.asker("work", false)
		_, x, free := w.unasked(s, a, "7")
		busy := make(chan struct{})
		own.sink.on(blockUntil(busy))
		require.NoError(w.t, s.Notify(w.t.Context(), "notifications/x", nil, ""))
		x.vanish()
		own.vanish()
		close(busy)
		close(free)
		w.hangUp(s, own)
		require.Empty(w.t, a.answers)
		own, _ = w.get(s)
		require.Equal(w.t, []string{askFrame("3")}, own.frames())
		w.tell(s, replyFrame("3", `{"roots":[]}`))
		require.NoError(w.t, a.answer().err)
		a.next().finish("done")
	}},
	{state: "B/behind", test: func(w *world) {
		s := w.open("session")
		own, _ := w.get(s)
		first, second := make(chan struct{}), make(chan struct{})
		own.sink.on(blockUntil(first), blockUntil(second))
		require.NoError(w.t, s.Notify(w.t.Context(), "notifications/a", nil, ""))
		w.settle()
		require.NoError(w.t, s.Notify(w.t.Context(), "notifications/b", nil, "")) // the writer takes both at once
		got := w.ask(s, w.t.Context())
		w.settle()
		close(first)
		w.settle() // b is being written
		own.leave()
		close(second)
		w.hangUp(s, own)
		require.Empty(w.t, got, "it was not written, so that it waits for a new stream")
		own, _ = w.get(s)
		require.Equal(w.t, []string{askFrame("1")}, own.frames())
		w.tell(s, replyFrame("1", `{}`))
		require.NoError(w.t, (<-got).err)
	}},
	{state: "B/drain", test: func(w *world) {
		g := w.gate("work", false)
		s := w.open("session")
		w.post(s, callFrame("1", "work"))
		h := g.next()
		waiting := w.ask(s, w.t.Context()) // there is no stream
		w.settle()
		_, done := w.shutdown()
		require.ErrorIs(w.t, (<-waiting).err, mcp.ErrPeerGone)
		require.ErrorIs(w.t, (<-w.ask(s, w.t.Context())).err, mcp.ErrPeerGone)
		h.finish("done")
		require.NoError(w.t, <-done)
	}},
	{state: "B/written", test: func(w *world) {
		s := w.open("session")
		own, _ := w.get(s)
		got := w.ask(s, w.t.Context())
		require.Equal(w.t, []string{askFrame("1")}, own.frames())
		own.vanish()
		w.hangUp(s, own)
		require.Empty(w.t, got, "the client was asked: it answers by a POST")
		next, _ := w.get(s)
		require.Empty(w.t, next.frames(), "it is not asked again")
		w.tell(s, replyFrame("1", `{"a":1}`))
		answer := <-got
		require.NoError(w.t, answer.err)
		require.JSONEq(w.t, `{"a":1}`, string(answer.result))

		// Whether a call arrived whose write failed nobody knows: it fails.
		next.sink.onFlush(failWith(mcp.DropBrokenPeer, errReset))
		got = w.ask(s, w.t.Context())
		w.settle()
		require.ErrorIs(w.t, (<-got).err, mcp.ErrPeerGone)
		require.Empty(w.t, w.core.Snapshot().Outbound)
	}},
	{state: "B/deadline", test: func(w *world) {
		s := w.open("session")
		begin := time.Now()
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(w.t, (<-w.ask(s, ctx)).err, mcp.ErrPeerGone)
		require.Equal(w.t, 5*time.Second, time.Since(begin))

		begin = time.Now() // without a deadline of its own it does not hang either
		require.ErrorIs(w.t, (<-w.ask(s, w.t.Context())).err, mcp.ErrPeerGone)
		require.Equal(w.t, w.core.limits.RequestTimeout, time.Since(begin))

		own, _ := w.get(s) // nothing of it comes later
		require.Empty(w.t, own.frames())
		require.Empty(w.t, w.core.Snapshot().Outbound)

		// A client that was asked and is silent is told, and that is another error.
		got := <-w.ask(s, w.t.Context())
		require.ErrorIs(w.t, got.err, context.DeadlineExceeded)
		require.NotErrorIs(w.t, got.err, mcp.ErrPeerGone)
		require.Equal(w.t, []string{askFrame("3"), unaskFrame("3")}, own.frames())
		w.tell(s, replyFrame("3", `{}`))
		w.settle()
		require.Equal(w.t, counts{"ignored/response/late": 1}, w.counts())
	}},
	{state: "B/session-end", limits: limits.Limits{MaxOutbound: 1}, test: func(w *world) {
		s := w.open("session")
		got := w.ask(s, w.t.Context())
		w.settle()
		_, err := s.Ask(w.t.Context(), "roots/list", nil) // what waits is bounded
		require.Error(w.t, err)
		require.Equal(w.t, uint64(1), w.counts()["limit/max_outbound"])
		s.Close(mcp.CauseSessionDelete)
		require.ErrorIs(w.t, (<-got).err, mcp.ErrSessionDeleted)
		_, err = s.Ask(w.t.Context(), "roots/list", nil)
		require.ErrorIs(w.t, err, mcp.ErrSessionDeleted)
		require.ErrorIs(w.t, s.Notify(w.t.Context(), "notifications/x", nil, ""), mcp.ErrClosed)
		require.Equal(w.t, uint64(1), w.counts()["notification/session_gone"])
	}},
	{state: "replace", test: func(w *world) {
		s := w.open("session")
		dead, _ := w.get(s)
		dead.vanish() // its exchange has not ended yet
		own, ok := w.get(s)
		require.True(w.t, ok)
		s.Detach(dead.stream) // late: it does not take the new one away
		require.NoError(w.t, s.Notify(w.t.Context(), "notifications/x", nil, ""))
		require.Equal(w.t, []string{`{"jsonrpc":"2.0","method":"notifications/x"}`}, own.frames())
		require.Empty(w.t, dead.frames())
		require.Empty(w.t, w.counts())
	}},
	{state: "conflict", test: func(w *world) {
		s := w.open("session")
		own, ok := w.get(s)
		require.True(w.t, ok)
		second, ok := w.get(s)
		require.False(w.t, ok, "the transport answers 409")
		require.NoError(w.t, s.Notify(w.t.Context(), "notifications/x", nil, ""))
		require.Equal(w.t, []string{`{"jsonrpc":"2.0","method":"notifications/x"}`}, own.frames())
		require.False(w.t, own.ended())
		require.Empty(w.t, second.frames())
		w.hangUp(s, own)
		third, ok := w.get(s)
		require.True(w.t, ok)
		require.False(w.t, third.ended())
	}},
}

// hangUp ends the exchange of the session's own stream, as the transport does.
func (w *world) hangUp(s *Session, own *exchange) {
	s.Detach(own.stream)
	w.settle()
	require.True(w.t, own.ended())
}

// ask lets the session ask its client by itself.
func (w *world) ask(s *Session, ctx context.Context) <-chan askResult {
	got := make(chan askResult, 1)
	go func() {
		result, err := s.Ask(ctx, "roots/list", nil)
		got <- askResult{result, err}
	}()
	return got
}

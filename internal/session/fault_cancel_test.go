package session

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// clientCancelled are the counters of one request that its client has cancelled.
var clientCancelled = counts{"admitted": 1, "dropped/cancelled": 1, "cancelled/client_cancel": 1}

// E1: notifications/cancelled for a request in flight.
var cellsE1 = []faultCell{
	{state: "Q", limits: oneSlot, test: func(w *world) {
		holder, g := w.gate("holder", true), w.gate("work", false)
		p := w.connect(true)
		p.call("1", "holder")
		first := holder.next()
		p.call("2", "work")
		before := w.counts()
		p.cancel("2", "changed my mind")
		g.empty()
		require.Empty(w.t, p.frames())
		require.Equal(w.t, counts{"dropped/cancelled": 1, "cancelled/client_cancel": 1}, w.counts().since(before))
		w.loggedWith("INFO request.cancelled", "reason=changed my mind")
		require.Len(w.t, w.core.Snapshot().Requests, 1, "the queued request has left")

		first.finish("one")
		p.call("3", "work") // the slot was not taken
		g.next().finish("three")
		require.Equal(w.t, []string{resultFrame("1", "one"), resultFrame("3", "three")}, p.frames())
	}},
	{state: "M", test: func(w *world) {
		g := w.gate("work", false)
		seen := w.layers("work")
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.cancel("1", "")
		w.settle()
		require.Equal(w.t, "client_cancel", h.cause())
		require.Equal(w.t, []string{"inner:client_cancel", "outer:client_cancel"}, seen.get())
		require.Empty(w.t, p.frames(), "the result that middleware makes is not sent")
		require.Equal(w.t, clientCancelled, w.counts())
		w.logged("INFO request.cancelled")
	}},
	{state: "R", test: func(w *world) {
		g, quick := w.gate("work", true), w.gate("quick", false)
		p := w.connect(true)
		var late []*held
		for _, id := range []string{"1", "2", "3"} {
			p.call(id, "work")
			late = append(late, g.next())
			p.cancel(id, "bored")
			w.settle()
			require.Equal(w.t, "client_cancel", late[len(late)-1].cause())
			require.ErrorIs(w.t, context.Cause(late[len(late)-1].ctx), mcp.ErrClientCancelled)
		}
		require.Equal(w.t, 3, w.times("INFO request.cancelled"))
		w.loggedWith("INFO request.cancelled", "reason=bored")
		require.Zero(w.t, w.times("WARN handler.slow_unwind"))
		time.Sleep(w.core.limits.CleanupGrace)
		w.settle()
		require.Equal(w.t, 3, w.times("WARN handler.slow_unwind"))
		for _, info := range w.core.Snapshot().Requests {
			require.Equal(w.t, "cancelled", info.State, "until the handler returns")
		}

		p.call("1", "quick") // the id is free at once
		quick.next().finish("new")
		w.settle()
		late[0].finish("late")
		late[1].fail(errors.New("late"))
		late[2].panic("late")
		require.Equal(w.t, []string{resultFrame("1", "new")}, p.frames())
		require.Equal(w.t, counts{
			"admitted": 4, "sent": 1, "dropped/cancelled": 3, "cancelled/client_cancel": 3, "panics": 1,
		}, w.counts())
		w.logged("ERROR handler.panic")
		require.Zero(w.t, w.times("ERROR handler.error"), "a discarded error is no fault")
	}},
	{state: "R/modern-stdio", test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(false)
		p.send(modernFrame("1", "work"))
		h := g.next()
		p.cancel("1", "")
		w.settle()
		require.Equal(w.t, "client_cancel", h.cause())
		require.Empty(w.t, p.frames())
		require.Equal(w.t, clientCancelled, w.counts())
		w.logged("INFO request.cancelled")
	}},
	{state: "R/legacy-http", test: func(w *world) {
		g := w.gate("work", false)
		s := w.open("session")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		w.tell(s, cancelFrame("1", ""))
		w.settle()
		require.Equal(w.t, "client_cancel", h.cause())
		require.Len(w.t, x.frames(), 1)
		hasError(w.t, x.frames()[0], "1", mcp.CodeRequestCancelled, "")
		require.True(w.t, x.ended())
		require.NoError(w.t, x.err)
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "cancelled/client_cancel": 1}, w.counts())
		w.logged("INFO request.cancelled")

		// An event stream without ids just ends.
		before := w.counts()
		n := w.sender("talk", 1)
		x = w.exchange(1, mcp.Legacy)
		x.sink.on(becomeEvents)
		w.postOn(x, s, callFrame("2", "talk"))
		h = n.next()
		w.tell(s, cancelFrame("2", ""))
		w.settle()
		require.Equal(w.t, "client_cancel", h.cause())
		require.Equal(w.t, []string{noteFrame(1)}, x.frames())
		require.True(w.t, x.ended())
		require.NoError(w.t, x.err)
		require.Equal(w.t, clientCancelled, w.counts().since(before))
	}},
	{state: "B", test: func(w *world) {
		a := w.asker("work", false)
		p := w.connect(true)
		p.call("7", "work")
		h := a.blocked()
		require.Equal(w.t, []string{askFrame("1")}, p.frames())
		p.cancel("7", "")
		require.ErrorIs(w.t, a.answer().err, mcp.ErrClientCancelled)
		require.Equal(w.t, "client_cancel", h.cause())
		require.Equal(w.t, []string{askFrame("1"), unaskFrame("1")}, p.frames())
		require.Equal(w.t, clientCancelled, w.counts())
		require.Empty(w.t, w.core.Snapshot().Outbound)
		w.logged("INFO request.cancelled")

		// A call that is still queued is taken back: the client never learns of it.
		busy, free := w.connect(true), make(chan struct{})
		busy.sink.on(blockUntil(free))
		require.NoError(w.t, busy.s.Notify(context.Background(), "notifications/x", nil, ""))
		w.settle()
		busy.call("8", "work")
		a.blocked()
		busy.cancel("8", "")
		require.ErrorIs(w.t, a.answer().err, mcp.ErrClientCancelled)
		close(free)
		require.Equal(w.t, []string{`{"jsonrpc":"2.0","method":"notifications/x"}`}, busy.frames())

		// Over HTTP the courtesy precedes what ends the exchange.
		s := w.open("session")
		x := w.post(s, callFrame("9", "work"))
		a.blocked()
		w.tell(s, cancelFrame("9", ""))
		require.ErrorIs(w.t, a.answer().err, mcp.ErrClientCancelled)
		require.Len(w.t, x.frames(), 3)
		require.Equal(w.t, []string{askFrame("1"), unaskFrame("1")}, x.frames()[:2])
		hasError(w.t, x.frames()[2], "9", mcp.CodeRequestCancelled, "")
	}},
	{state: "P", limits: small, test: func(w *world) {
		n, free := w.sender("work", 3), make(chan struct{})
		p := w.connect(true)
		p.sink.on(blockUntil(free))
		p.call("1", "work")
		h := n.blocked(3)
		p.cancel("1", "")
		require.ErrorIs(w.t, n.result(), mcp.ErrClientCancelled)
		require.Equal(w.t, "client_cancel", h.cause())
		close(free)
		require.Equal(w.t, []string{noteFrame(1)}, p.frames(), "the queued one is withdrawn")
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/cancelled": 1, "cancelled/client_cancel": 1, "notification/cancelled": 2,
		}, w.counts().but("limit/max_queued_messages"))
		w.logged("INFO request.cancelled")
		w.logged("DEBUG notification.dropped")
	}},
	{state: "S", test: func(w *world) {
		at := w.stopAt(pointAfterSettle, "work")
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		h := g.next()
		h.finish("done")
		at.await()
		cancelTooLate(w, p, h, at.release)
	}},
	{state: "W", test: func(w *world) {
		g, p, free := w.gate("work", false), w.connect(true), make(chan struct{})
		p.sink.onFlush(blockUntil(free))
		p.call("1", "work")
		h := g.next()
		h.finish("done")
		w.settle()
		cancelTooLate(w, p, h, func() { close(free) })
	}},
	{state: "initialize", test: func(w *world) {
		g := w.gate("initialize", false)
		s, _, err := w.core.Open(httpConn, "abc")
		require.Nil(w.t, err)
		x := w.post(s, initializeFrame)
		h := g.next()
		cancel, _ := inbound(httpConn, cancelFrame("1", ""))
		s.ReceiveOn(cancel, nil)
		w.settle()
		require.Empty(w.t, h.cause())
		h.finish("welcome")
		require.Equal(w.t, []string{resultFrame("1", "welcome")}, x.frames())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "ignored/cancel/not_cancellable": 1}, w.counts())
		w.loggedWith("DEBUG cancel.ignored", "reason=not_cancellable")
	}},
	// On a byte stream nothing behind initialize is read before it is settled: what
	// was piped right behind it may rely on it, and a cancel of it comes too late.
	{state: "initialize/stream", test: func(w *world) {
		g, p := w.gate("initialize", false), w.connect(false)
		work := w.gate("work", false)
		go func() {
			p.send(initializeFrame)
			p.cancel("1", "")
			p.call("2", "work")
		}()
		h := g.next()
		work.empty()
		h.r.Session().Initialize(&Peer{Version: mcp.Version20251125})
		h.finish("welcome")
		work.next().finish("done")
		require.Equal(w.t, []string{resultFrame("1", "welcome"), resultFrame("2", "done")}, p.frames())
		require.Equal(w.t, counts{"admitted": 2, "sent": 2, "ignored/cancel/unknown_id": 1}, w.counts())
	}},
}

const initializeFrame = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`

// cancelTooLate cancels a request that is settled with an answer, twice; then the
// answer goes out.
func cancelTooLate(w *world, p *peer, h *held, release func()) {
	w.t.Helper()
	require.Empty(w.t, p.frames())
	p.cancel("1", "too late")
	p.cancel("1", "much too late")
	require.Empty(w.t, p.frames())
	cancelled, _ := h.r.Cancellation()
	require.Nil(w.t, cancelled)
	require.NotErrorIs(w.t, context.Cause(h.ctx), mcp.ErrClientCancelled)
	release()
	require.Equal(w.t, []string{resultFrame("1", "done")}, p.frames())
	require.Equal(w.t, counts{"admitted": 1, "sent": 1, "ignored/cancel/unknown_id": 2}, w.counts())
	require.Equal(w.t, 2, w.times("DEBUG cancel.ignored"))
	require.Zero(w.t, w.times("INFO request.cancelled"))
}

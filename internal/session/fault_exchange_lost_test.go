package session

import (
	"context"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// orphaned are the counters of one legacy request whose exchange was lost;
// disconnected are those of a modern one.
var (
	orphaned     = counts{"admitted": 1, "dropped/stream_gone": 1}
	disconnected = counts{"admitted": 1, "dropped/cancelled": 1, "cancelled/client_disconnect": 1}
	wireLost     = counts{"admitted": 1, "dropped/broken_peer": 1}
)

// E7: the exchange of a POST is lost. There is no event store here: what it would
// keep is dropped as stream_gone.
var cellsE7 = []faultCell{
	{state: "Q/legacy", limits: oneSlot, test: func(w *world) {
		holder, g, s := w.gate("holder", false), w.gate("work", false), w.open("session")
		first := w.post(s, callFrame("1", "holder"))
		h := holder.next()
		x := w.post(s, callFrame("2", "work"))
		x.vanish()
		g.empty()
		h.finish("one")
		queued := g.next() // it runs as if nothing had happened
		require.Empty(w.t, queued.cause())
		queued.finish("two")
		require.Empty(w.t, x.frames())
		require.Equal(w.t, []string{resultFrame("1", "one")}, first.frames())
		require.Equal(w.t, counts{"admitted": 2, "sent": 1, "dropped/stream_gone": 1}, w.counts())
		require.Equal(w.t, 1, w.times("DEBUG stream.lost"))
	}},
	{state: "M/legacy", test: func(w *world) {
		g, s := w.gate("work", false), w.open("session")
		seen := w.layers("work")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		x.vanish()
		require.Empty(w.t, h.cause())
		require.Empty(w.t, seen.get())
		h.finish("done")
		w.settle()
		require.Equal(w.t, []string{"inner:", "outer:"}, seen.get())
		require.Empty(w.t, x.frames())
		require.Equal(w.t, orphaned, w.counts())
	}},
	{state: "R/legacy", limits: limits.Limits{OrphanGrace: -1}, test: func(w *world) {
		g, s := w.gate("work", false), w.open("session")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		x.vanish()
		require.Empty(w.t, h.cause())
		require.ErrorIs(w.t, h.r.Notify(mcp.NotificationProgress, []byte(`{"n":1}`), ""), mcp.ErrPeerGone)
		h.finish("done")
		require.Empty(w.t, x.frames())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/stream_gone": 1, "notification/stream_gone": 1,
		}, w.counts())
		require.Equal(w.t, 1, w.times("DEBUG stream.lost"))

		// A failed write is the same for the request behind it.
		before := w.counts()
		x = w.post(s, callFrame("2", "work"))
		h = g.next()
		x.sink.on(failWith(mcp.DropBrokenPeer, errReset))
		require.NoError(w.t, h.r.Notify(mcp.NotificationProgress, []byte(`{"n":1}`), ""))
		require.True(w.t, x.ended())
		require.Empty(w.t, h.cause())
		h.finish("done")
		w.settle()
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/stream_gone": 1, "notification/broken_peer": 1,
		}, w.counts().since(before))

		// The deadline still holds.
		before = w.counts()
		x = w.post(s, callFrame("3", "work"))
		h = g.next()
		x.vanish()
		time.Sleep(time.Minute)
		w.settle()
		require.Equal(w.t, "deadline", h.cause())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/stream_gone": 1, "cancelled/deadline": 1, "limit/request_timeout": 1,
		}, w.counts().since(before))
	}},
	{state: "B/legacy", limits: limits.Limits{MaxQueuedMessages: 8}, test: func(w *world) {
		a, s := w.asker("work", false), w.open("session")
		x := w.post(s, callFrame("7", "work"))
		h := a.blocked()
		require.Equal(w.t, []string{askFrame("1")}, x.frames())
		x.vanish() // the client was asked: it answers by another POST
		require.Empty(w.t, h.cause())
		w.tell(s, replyFrame("1", `{"roots":[]}`))
		got := a.answer()
		require.NoError(w.t, got.err)
		require.JSONEq(w.t, `{"roots":[]}`, string(got.result))
		a.next().finish("done")
		w.settle()
		require.Equal(w.t, orphaned, w.counts())

		// Not asked yet, and nowhere to ask.
		h, x, free := w.unasked(s, a, "8")
		x.vanish()
		require.ErrorIs(w.t, a.answer().err, mcp.ErrPeerGone)
		require.Empty(w.t, h.cause())
		require.Empty(w.t, w.core.Snapshot().Outbound)
		w.loggedWith("DEBUG outbound.failed", "reason=stream_gone")
		close(free)
		a.next().finish("done")

		// Not asked yet, but there is the session's own stream.
		h, x, free = w.unasked(s, a, "9")
		own, ok := w.get(s)
		require.True(w.t, ok)
		x.vanish()
		require.Equal(w.t, []string{askFrame("3")}, own.frames())
		require.Empty(w.t, h.cause())
		w.tell(s, replyFrame("3", `{"roots":[]}`))
		require.NoError(w.t, a.answer().err)
		close(free)
		a.next().finish("done")
		w.settle()
		require.Equal(w.t, uint64(3), w.counts()["dropped/stream_gone"])
	}},
	{state: "P/legacy", limits: small, test: func(w *world) {
		n, s, free := w.sender("work", 3), w.open("session"), make(chan struct{})
		x := w.exchange(1, mcp.Legacy)
		x.sink.on(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
		w.postOn(x, s, callFrame("1", "work"))
		h := n.blocked(3)
		x.leave()
		require.ErrorIs(w.t, n.result(), mcp.ErrPeerGone)
		require.Empty(w.t, h.cause())
		close(free)
		n.next().finish("done")
		require.Empty(w.t, x.frames())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/stream_gone": 1, "notification/stream_gone": 2, "notification/broken_peer": 1,
		}, w.counts().but("limit/max_queued_messages"))
	}},
	{state: "S/legacy", test: func(w *world) {
		at := w.stopAt(pointAfterSettle, "work")
		g, s := w.gate("work", false), w.open("session")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		h.finish("done")
		at.await()
		x.vanish()
		at.release()
		require.Empty(w.t, x.frames())
		require.Empty(w.t, h.cancelled())
		require.Equal(w.t, orphaned, w.counts())
		w.loggedWith("DEBUG response.dropped", "reason=stream_gone")

		before := w.counts()
		x = w.post(s, callFrame("2", "work"))
		x.sink.on(failWith(mcp.DropBrokenPeer, errReset))
		g.next().finish("done")
		require.Empty(w.t, x.frames())
		require.Equal(w.t, wireLost, w.counts().since(before))
		require.Equal(w.t, 2, w.times("DEBUG stream.lost"))
	}},
	{state: "W/legacy", test: func(w *world) {
		g, s := w.gate("work", false), w.open("session")
		// Whoever learns it first: the transport, or the writer alone.
		for _, lost := range []bool{true, false} {
			before, free := w.counts(), make(chan struct{})
			x := w.post(s, callFrame("1", "work"))
			x.sink.onFlush(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
			h := g.next()
			h.finish("done")
			w.settle()
			if lost {
				x.leave()
			}
			close(free)
			require.True(w.t, x.ended())
			require.Empty(w.t, x.frames())
			require.Empty(w.t, h.cancelled())
			require.Equal(w.t, wireLost, w.counts().since(before))
		}
		w.loggedWith("DEBUG response.dropped", "reason=broken_peer")
	}},
	{state: "orphan-grace", test: func(w *world) {
		g, s := w.gate("work", false), w.open("session")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		x.vanish()
		time.Sleep(30*time.Second - 1)
		w.settle()
		require.Empty(w.t, h.cause())
		time.Sleep(time.Nanosecond)
		w.settle()
		require.Equal(w.t, "client_disconnect", h.cause())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/stream_gone": 1, "cancelled/client_disconnect": 1,
		}, w.counts())
		w.loggedWith("INFO request.cancelled", "cause=client_disconnect")

		// A request that ends earlier leaves no timer behind, which would keep it in memory.
		x = w.post(s, callFrame("2", "work"))
		h = g.next()
		x.vanish()
		h.finish("done")
		w.settle()
		require.False(w.t, h.r.orphan.Load().Stop(), "the timer still runs")
		require.NotNil(w.t, w.core.Session("session", nil), "the session stays")
	}},
	{state: "Q/modern", test: func(w *world) {
		g := w.gate("work", false)
		w.route("work", func(rt *Route) { rt.Class = NewClass("single", 1) })
		first := w.post(nil, modernFrame("1", "work"))
		h := g.next()
		x := w.post(nil, modernFrame("1", "work"))
		w.settle()
		before := w.counts()
		x.vanish()
		require.Equal(w.t, counts{"dropped/cancelled": 1, "cancelled/client_disconnect": 1}, w.counts().since(before))
		w.loggedWith("INFO request.cancelled", "started=false", "cause=client_disconnect")
		h.finish("one")
		g.empty()
		require.Empty(w.t, x.frames())
		require.Equal(w.t, []string{resultFrame("1", "one")}, first.frames())
	}},
	{state: "M/modern", test: func(w *world) {
		g := w.gate("work", false)
		seen := w.layers("work")
		x := w.post(nil, modernFrame("1", "work"))
		h := g.next()
		x.vanish()
		require.Equal(w.t, "client_disconnect", h.cause())
		require.Equal(w.t, []string{"inner:client_disconnect", "outer:client_disconnect"}, seen.get())
		require.Empty(w.t, x.frames())
		require.Equal(w.t, disconnected, w.counts())
		w.logged("INFO request.cancelled")
	}},
	{state: "R/modern", test: func(w *world) {
		g := w.gate("work", true)
		x := w.post(nil, modernFrame("1", "work"))
		h := g.next()
		x.vanish()
		require.Equal(w.t, "client_disconnect", h.cause())
		require.ErrorIs(w.t, context.Cause(h.ctx), mcp.ErrClientDisconnected)
		require.ErrorIs(w.t, h.r.Notify(mcp.NotificationProgress, []byte(`{"n":1}`), ""), mcp.ErrRequestDone)
		h.finish("late")
		require.Empty(w.t, x.frames())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/cancelled": 1, "cancelled/client_disconnect": 1, "notification/cancelled": 1,
		}, w.counts())
		require.Equal(w.t, 1, w.times("INFO request.cancelled"))

		// The writer may learn it before the transport does.
		before := w.counts()
		x = w.post(nil, modernFrame("1", "work"))
		h = g.next()
		x.sink.on(failWith(mcp.DropBrokenPeer, errReset))
		require.NoError(w.t, h.r.Notify(mcp.NotificationProgress, []byte(`{"n":1}`), ""))
		require.True(w.t, x.ended())
		require.Equal(w.t, "client_disconnect", h.cause())
		x.leave()
		h.finish("late")
		w.settle()
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/cancelled": 1, "cancelled/client_disconnect": 1, "notification/cancelled": 1,
		}, w.counts().since(before))
	}},
	{state: "R/modern-quick", test: func(w *world) {
		// Within the first moments the writer waits for nothing but the answer.
		g := w.gate("work", false)
		x := w.post(nil, modernFrame("1", "work"))
		h := g.next()
		x.sink.leave()
		time.Sleep(stream.QuickAnswer - time.Nanosecond)
		w.settle()
		require.Empty(w.t, h.cause())
		time.Sleep(time.Nanosecond)
		w.settle()
		require.Equal(w.t, "client_disconnect", h.cause())
		require.True(w.t, x.ended())
		h.finish("late")
		w.settle()
		require.Equal(w.t, disconnected, w.counts())

		before := w.counts()
		x = w.post(nil, modernFrame("2", "work"))
		h = g.next()
		x.sink.leave()
		w.settle()
		h.finish("done")
		require.True(w.t, x.ended())
		require.Empty(w.t, x.frames())
		require.Empty(w.t, h.cancelled())
		require.Equal(w.t, wireLost, w.counts().since(before))

		// A request that was settled as it was found to be slow has no alarm left.
		before = w.counts()
		x = w.post(nil, modernFrame("3", "work"))
		h = g.next()
		time.Sleep(stream.QuickAnswer)
		w.settle()
		h.finish("done")
		require.Equal(w.t, []string{resultFrame("3", "done")}, x.frames())
		require.Nil(w.t, h.r.alarm.Load())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts().since(before))
	}},
	{state: "P/modern", limits: small, test: func(w *world) {
		n, free := w.sender("work", 3), make(chan struct{})
		x := w.exchange(1, mcp.Modern)
		x.sink.on(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
		w.postOn(x, nil, modernFrame("1", "work"))
		h := n.blocked(3)
		x.leave()
		require.ErrorIs(w.t, n.result(), mcp.ErrClientDisconnected)
		require.Equal(w.t, "client_disconnect", h.cause())
		close(free)
		require.True(w.t, x.ended())
		require.Empty(w.t, x.frames())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/cancelled": 1, "cancelled/client_disconnect": 1, "notification/cancelled": 3,
		}, w.counts().but("limit/max_queued_messages"))
		w.logged("INFO request.cancelled")
	}},
	{state: "S/modern", test: func(w *world) {
		at := w.stopAt(pointAfterSettle, "work")
		g := w.gate("work", false)
		x := w.post(nil, modernFrame("1", "work"))
		h := g.next()
		h.finish("done")
		at.await()
		x.vanish()
		at.release()
		require.Empty(w.t, x.frames())
		require.Empty(w.t, h.cancelled())
		require.Equal(w.t, wireLost, w.counts())
		w.loggedWith("DEBUG response.dropped", "reason=broken_peer")
	}},
	{state: "W/modern", test: func(w *world) {
		g := w.gate("work", false)
		for _, lost := range []bool{true, false} {
			before, free := w.counts(), make(chan struct{})
			x := w.post(nil, modernFrame("1", "work"))
			x.sink.onFlush(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
			h := g.next()
			h.finish("done")
			w.settle()
			if lost {
				x.leave()
			}
			close(free)
			require.True(w.t, x.ended())
			require.Empty(w.t, x.frames())
			require.Empty(w.t, h.cancelled())
			require.Equal(w.t, wireLost, w.counts().since(before))
		}
	}},
	{state: "W/left", test: func(w *world) {
		w.rememberByDefault()
		g, s := w.gate("work", false), w.open("session")
		for name, post := range map[string]func() (*held, *exchange){
			"sent": func() (*held, *exchange) {
				x := w.post(nil, modernFrame("1", "work"))
				return g.next(), x
			},
			"sent, legacy": func() (*held, *exchange) {
				x := w.post(s, callFrame("2", "work"))
				return g.next(), x
			},
			"stored": func() (*held, *exchange) { return w.streaming(s, g, "3") },
		} {
			before, free := w.counts(), make(chan struct{})
			h, x := post()
			x.sink.on(blockUntil(free))
			h.finish(strings.Repeat("x", stream.LargeFrame)) // of a smaller one the writer looks only when it is sent
			w.settle()
			x.leave()
			close(free)
			require.True(w.t, x.ended())
			fate, _, _ := strings.Cut(name, ",")
			require.Equal(w.t, counts{"admitted": 1, fate: 1}, w.counts().since(before), name)
		}
	}},
	{state: "W/unconfirmed", test: func(w *world) {
		w.rememberByDefault()
		g, s := w.gate("work", false), w.open("session")
		unconfirmed := func(*scriptSink) error {
			return &stream.WriteError{Reason: mcp.DropBrokenPeer, Err: errReset, Unconfirmed: true}
		}
		for fate, post := range map[string]func() (*held, *exchange){
			"dropped/unconfirmed": func() (*held, *exchange) {
				x := w.post(nil, modernFrame("1", "work"))
				return g.next(), x
			},
			"stored": func() (*held, *exchange) { return w.streaming(s, g, "2") },
		} {
			before := w.counts()
			h, x := post()
			x.sink.onFlush(unconfirmed)
			h.finish("done")
			require.True(w.t, x.ended())
			require.Equal(w.t, counts{"admitted": 1, fate: 1}, w.counts().since(before))
		}
	}},
	{state: "B/modern", test: func(w *world) {
		a := w.asker("work", false) // Ask does not wait
		x := w.post(nil, modernFrame("1", "work"))
		require.ErrorIs(w.t, a.answer().err, mcp.ErrNoBackChannel)
		a.next().finish("http")
		require.Equal(w.t, []string{resultFrame("1", "http")}, x.frames())

		p := w.connect(false)
		p.send(modernFrame("1", "work"))
		require.ErrorIs(w.t, a.answer().err, mcp.ErrNoBackChannel)
		a.next().finish("stdio")
		require.Equal(w.t, []string{resultFrame("1", "stdio")}, p.frames())
		require.Equal(w.t, counts{"admitted": 2, "sent": 2}, w.counts())
	}},
}

// unasked brings a request into state B whose call waits behind a write that blocks
// until free is closed.
func (w *world) unasked(s *Session, a *asker, id string) (h *held, x *exchange, free chan struct{}) {
	w.t.Helper()
	free = make(chan struct{})
	x = w.exchange(1, mcp.Legacy)
	x.sink.on(blockUntil(free))
	// Something that is being written when the handler asks.
	x.stream.Offer(&stream.Message{Kind: stream.Notification, Method: "notifications/x", Frame: []byte(`{}`), Delivery: stream.Unobserved})
	w.settle()
	w.postOn(x, s, callFrame(id, "work"))
	return a.blocked(), x, free
}

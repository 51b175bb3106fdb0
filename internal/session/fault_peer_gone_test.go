package session

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// E5: a write finds that the peer of a byte stream is gone. Each cell has a write
// that fails and a flush that fails.
var cellsE5 = []faultCell{
	{state: "Q", limits: oneSlot, test: func(w *world) {
		holder, g := w.gate("holder", false), w.gate("work", false)
		at := w.stopAt(pointBeforeSettle, "work") // holds the teardown
		eachLoss(w, func(p *peer, lose verdictFunc, on breakOn) {
			at.again()
			p.call("1", "holder")
			first := holder.next()
			p.call("2", "work")
			w.settle()
			on(p, lose)
			p.notice()
			at.await()
			g.empty() // queued requests end first: none starts in the slot of another
			at.release()
			require.Equal(w.t, "transport_error", first.cause())
			g.empty()
		}, counts{
			"admitted": 2, "dropped/broken_peer": 2, "cancelled/transport_error": 2, "notification/broken_peer": 1,
		})
	}},
	{state: "M", test: func(w *world) {
		g := w.gate("work", false)
		seen := w.layers("work")
		eachLoss(w, func(p *peer, lose verdictFunc, on breakOn) {
			p.call("1", "work")
			h := g.next()
			on(p, lose)
			p.notice()
			w.settle()
			require.Equal(w.t, "transport_error", h.cause())
			steps := seen.get()
			require.Equal(w.t, []string{"inner:transport_error", "outer:transport_error"}, steps[len(steps)-2:])
		}, runningLost)
	}},
	{state: "R", test: func(w *world) {
		g := w.gate("work", true)
		eachLoss(w, func(p *peer, lose verdictFunc, on breakOn) {
			p.call("1", "work")
			h := g.next()
			on(p, lose)
			begin := time.Now()
			p.notice()
			w.settle()
			require.Equal(w.t, "transport_error", h.cause())
			require.ErrorIs(w.t, context.Cause(h.ctx), mcp.ErrTransportFailed)
			require.Zero(w.t, time.Since(begin), "no grace")
			require.False(w.t, p.closed())
			h.finish("late")
		}, runningLost)
	}},
	{state: "B", test: func(w *world) {
		a := w.asker("work", false)
		eachLoss(w, func(p *peer, lose verdictFunc, on breakOn) {
			p.call("1", "work")
			h := a.blocked()
			require.Equal(w.t, []string{askFrame("1")}, p.frames())
			on(p, lose)
			p.notice()
			require.ErrorIs(w.t, a.answer().err, mcp.ErrTransportFailed)
			require.Equal(w.t, "transport_error", h.cause())
			require.Empty(w.t, w.core.Snapshot().Outbound)
			require.Equal(w.t, []string{askFrame("1")}, p.frames(), "no courtesy cancel")
		}, runningLost)
	}},
	{state: "B/unwritten", test: func(w *world) {
		// It is the call itself that cannot be written.
		a := w.asker("work", false)
		eachLoss(w, func(p *peer, lose verdictFunc, on breakOn) {
			on(p, lose)
			p.call("1", "work")
			require.ErrorIs(w.t, a.answer().err, mcp.ErrTransportFailed)
			require.Empty(w.t, p.frames())
		}, counts{"admitted": 1, "dropped/broken_peer": 1, "cancelled/transport_error": 1})
	}},
	{state: "P", limits: small, test: func(w *world) {
		n := w.sender("work", 3)
		eachLoss(w, func(p *peer, lose verdictFunc, on breakOn) {
			free := make(chan struct{})
			on(p, inTurn(blockUntil(free), lose))
			p.call("1", "work")
			h := n.blocked(3)
			close(free)
			require.ErrorIs(w.t, n.result(), mcp.ErrPeerGone)
			require.Equal(w.t, "transport_error", h.cause())
			require.Empty(w.t, p.frames())
		}, counts{
			"admitted": 1, "dropped/broken_peer": 1, "cancelled/transport_error": 1, "notification/broken_peer": 3,
		})
	}},
	{state: "S", test: func(w *world) {
		at := w.stopAt(pointAfterSettle, "held")
		g, held := w.gate("work", false), w.gate("held", false)
		eachLoss(w, func(p *peer, lose verdictFunc, on breakOn) {
			at.again()
			p.call("1", "held") // settled, its answer not queued yet
			held.next().finish("done")
			at.await()
			p.call("2", "work") // its own write fails
			h := g.next()
			on(p, lose)
			h.finish("done")
			w.settle()
			require.Empty(w.t, h.cancelled())
			at.release()
			require.Empty(w.t, p.frames(), "no retry, no error in its place")
		}, counts{"admitted": 2, "dropped/broken_peer": 2})
	}},
	{state: "W", test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		free := make(chan struct{})
		p.sink.onFlush(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
		p.call("1", "work")
		p.call("2", "work")
		g.next().finish("one")
		w.settle()
		g.next().finish("two") // waits behind the first
		w.settle()
		close(free)
		require.Empty(w.t, p.frames())
		lostOnce(w, p, counts{}, counts{"admitted": 2, "dropped/broken_peer": 2})
	}},
	{state: "unclassified", test: func(w *world) {
		p := w.connect(true)
		p.sink.on(func(*scriptSink) error { return errReset })
		p.call("1", "nothing")
		w.settle()
		lostOnce(w, p, counts{}, counts{"admitted": 1, "dropped/broken_peer": 1})
		w.loggedWith("ERROR write.unclassified", "type=*errors.errorString")
	}},
	{state: "read-error", test: func(w *world) {
		// The reader may find out too, at the same time: still one line in the log.
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.sink.on(failWith(mcp.DropBrokenPeer, errReset))
		p.notice()
		p.s.Fail(errors.New("read: connection reset by peer"))
		require.Equal(w.t, "transport_error", h.cause())
		lostOnce(w, p, counts{}, runningLost)
	}},
}

// runningLost are the counters of one request, and one notice, whose peer is gone.
var runningLost = counts{
	"admitted": 1, "dropped/broken_peer": 1, "cancelled/transport_error": 1, "notification/broken_peer": 1,
}

// A breakOn says what becomes of the next write, or of the next flush.
type breakOn func(p *peer, v verdictFunc)

// eachLoss runs a scenario that loses its peer, once on Write and once on Flush.
func eachLoss(w *world, scenario func(*peer, verdictFunc, breakOn), want counts) {
	w.t.Helper()
	for _, on := range []breakOn{
		func(p *peer, v verdictFunc) { p.sink.on(v) },
		func(p *peer, v verdictFunc) { p.sink.onFlush(v) },
	} {
		before := w.counts()
		w.log.clear()
		p := w.connect(true)
		scenario(p, failWith(mcp.DropBrokenPeer, errReset), on)
		lostOnce(w, p, before, want)
	}
}

// lostOnce checks the end of a session whose peer was lost.
func lostOnce(w *world, p *peer, before, want counts) {
	w.t.Helper()
	require.True(w.t, p.closed())
	require.Equal(w.t, want, w.counts().since(before).but("limit/max_queued_messages"))
	require.Equal(w.t, 1, w.times("WARN session.peer_lost"), "one for the session, not for each request")
	w.logged("DEBUG response.dropped")
	require.Zero(w.t, w.times("ERROR handler.error"))
	require.Empty(w.t, p.sink.frames()[min(1, len(p.sink.frames())):])
	p.call("99", "work") // nothing is admitted, written or answered
	require.Equal(w.t, uint64(1), w.counts().since(before)["rejected/shutting_down"])
}

// notice makes the session write something that belongs to no request.
func (p *peer) notice() { _ = p.s.Notify(context.Background(), "notifications/x", nil, "") }

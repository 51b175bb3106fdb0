package session

import (
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// E2: the same cancel arrives again.
var cellsE2 = []faultCell{
	{state: "Q", limits: oneSlot, test: func(w *world) {
		holder, g := w.gate("holder", true), w.gate("work", false)
		p := w.connect(true)
		p.call("0", "holder")
		first := holder.next()
		p.call("1", "work")
		cancelTwice(w, p, nil)
		g.empty()
		first.finish("zero")
		require.Equal(w.t, []string{resultFrame("0", "zero")}, p.frames())
	}},
	{state: "M", test: func(w *world) {
		g := w.gate("work", false)
		seen := w.layers("work")
		p := w.connect(true)
		p.call("1", "work")
		cancelTwice(w, p, g.next())
		require.Equal(w.t, []string{"inner:client_cancel", "outer:client_cancel"}, seen.get())
		require.Empty(w.t, p.frames())
	}},
	{state: "R", test: func(w *world) {
		g := w.gate("work", true)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		cancelTwice(w, p, h)
		h.finish("late")
		require.Empty(w.t, p.frames())
	}},
	{state: "B", test: func(w *world) {
		a := w.asker("work", true)
		p := w.connect(true)
		p.call("1", "work")
		h := a.blocked()
		cancelTwice(w, p, h)
		require.ErrorIs(w.t, a.answer().err, mcp.ErrClientCancelled)
		require.Equal(w.t, []string{askFrame("1"), unaskFrame("1")}, p.frames(), "one courtesy cancel")
		a.next().finish("late")
		require.Len(w.t, p.frames(), 2)
	}},
	{state: "P", limits: small, test: func(w *world) {
		n, free := w.sender("work", 3), make(chan struct{})
		p := w.connect(true)
		p.sink.on(blockUntil(free))
		p.call("1", "work")
		h := n.blocked(3)
		cancelTwice(w, p, h)
		require.ErrorIs(w.t, n.result(), mcp.ErrClientCancelled)
		close(free)
		require.Equal(w.t, []string{noteFrame(1)}, p.frames())
		require.Equal(w.t, uint64(2), w.counts()["notification/cancelled"])
	}},
	{state: "S", test: func(w *world) {
		g, p, free := w.gate("work", false), w.connect(true), make(chan struct{})
		p.sink.on(blockUntil(free)) // in Write
		p.call("1", "work")
		h := g.next()
		h.finish("done")
		w.settle()
		cancelTooLate(w, p, h, func() { close(free) })
	}},
	{state: "W", test: func(w *world) {
		at := w.stopAt(pointAfterFlush, "work")
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		h := g.next()
		h.finish("done")
		at.await()
		before := w.counts()
		p.cancel("1", "")
		p.cancel("1", "")
		require.Equal(w.t, counts{"ignored/cancel/unknown_id": 2}, w.counts().since(before))
		at.release()
		require.Equal(w.t, []string{resultFrame("1", "done")}, p.frames())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "ignored/cancel/unknown_id": 2}, w.counts())
	}},
	{state: "reused-id", test: func(w *world) {
		g := w.gate("work", true)
		p := w.connect(true)
		p.call("1", "work")
		old := g.next()
		p.cancel("1", "first")
		p.call("1", "work")
		young := g.next()
		w.settle()
		require.Empty(w.t, young.cause())
		p.cancel("1", "second") // hits the new request: it is in flight
		w.settle()
		for h, reason := range map[*held]string{old: "first", young: "second"} {
			require.Equal(w.t, "client_cancel", h.cause())
			cancelled, _ := h.r.Cancellation()
			require.Equal(w.t, reason, cancelled.Detail)
			h.finish("late")
		}
		require.Empty(w.t, p.frames())
		require.Equal(w.t, counts{"admitted": 2, "dropped/cancelled": 2, "cancelled/client_cancel": 2}, w.counts())
	}},
}

// cancelTwice cancels request 1 twice: the first cancel counts, the second finds
// nothing. h is nil if the handler was not called.
func cancelTwice(w *world, p *peer, h *held) {
	w.t.Helper()
	before := w.counts()
	p.cancel("1", "first")
	w.settle()
	p.cancel("1", "second")
	w.settle()
	delta := w.counts().since(before)
	delete(delta, "notification/cancelled")
	require.Equal(w.t, counts{
		"dropped/cancelled": 1, "cancelled/client_cancel": 1, "ignored/cancel/unknown_id": 1,
	}, delta)
	require.Equal(w.t, 1, w.times("INFO request.cancelled"))
	w.loggedWith("INFO request.cancelled", "reason=first")
	w.loggedWith("DEBUG cancel.ignored", "reason=unknown_id")
	if h != nil {
		require.Equal(w.t, "client_cancel", h.cause())
		cancelled, _ := h.r.Cancellation()
		require.Equal(w.t, "first", cancelled.Detail)
	}
}

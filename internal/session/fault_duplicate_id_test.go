package session

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// E14: a second request with an id that is in flight.
var cellsE14 = []faultCell{
	{state: "Q", limits: oneSlot, test: func(w *world) {
		running, queued := w.gate("other", false), w.gate("work", false)
		p := w.connect(true)
		p.call("9", "other")
		h := running.next()
		p.call("1", "work")
		p.duplicate("1")
		h.finish("done")
		queued.next().finish("first")
		queued.empty()
		require.Equal(w.t, []string{duplicateFrame("1"), resultFrame("9", "done"), resultFrame("1", "first")}, p.frames())
		require.Equal(w.t, counts{"admitted": 2, "sent": 2, "rejected/duplicate_id": 1}, w.counts())
	}},
	{state: "M", test: func(w *world) {
		g := w.gate("work", false)
		seen := w.layers("work")
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.duplicate("1")
		h.finish("first")
		p.onlyFirst(g)
		require.Equal(w.t, []string{"inner:", "outer:"}, seen.get())
	}},
	{state: "R", test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.duplicate("1")
		require.Empty(w.t, h.cause())
		h.finish("first")
		p.onlyFirst(g)
		w.logged("INFO request.rejected")

		// 1 and 1.0 and 1e0 are one id, "1" is another one, 0 and "" are ids.
		for _, id := range []string{`1`, `"1"`, `0`, `""`} {
			p.call(id, "work")
			g.next()
		}
		before := w.counts()
		for _, id := range []string{`1.0`, `1e0`, `"1"`, `-0`, `""`} {
			p.duplicate(id)
		}
		g.empty()
		require.Equal(w.t, counts{"rejected/duplicate_id": 5}, w.counts().since(before))
	}},
	{state: "R/just-settled", test: func(w *world) {
		// Between the check of the id and the rejection the first request is settled, and
		// its answer may come later than the rejection.
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		in, bad := inbound(p.s.conn, callFrame("1", "work"))
		require.Nil(w.t, bad)
		second := newRequest(w.core, in, p.s, p.s.stream, w.Route(in, p.s))
		reason, err := w.core.enter(second)
		require.Equal(w.t, mcp.RejectDuplicateID, reason)
		h.finish("first")
		w.settle()
		w.core.reject(second, reason, err)
		w.settle()
		require.ElementsMatch(w.t, []string{resultFrame("1", "first"), duplicateFrame("1")}, p.frames())
	}},
	{state: "R/null-id", test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		p.s.Initialize(&Peer{Version: mcp.Version20250618})
		p.call("1", "work")
		h := g.next()
		p.call("1", "work")
		require.Len(w.t, p.frames(), 1)
		hasError(w.t, p.frames()[0], "null", mcp.CodeInvalidRequest, "duplicate_id")
		require.Empty(w.t, h.cause())
		require.Equal(w.t, counts{"admitted": 1, "rejected/duplicate_id": 1}, w.counts())
	}},
	{state: "R/overload", limits: limits.Limits{MaxInFlight: 1, MaxQueue: 1}, test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.call("2", "work")
		w.settle() // the queue is full, and that is what is looked at first
		p.call("1", "work")
		h.finish("first")
		g.next().finish("second")
		frames := p.frames()
		require.Len(w.t, frames, 3)
		hasError(w.t, frames[0], "", mcp.CodeInternalError, "overload")
		require.Contains(w.t, frames[0], `"limit":"max_queue","id":1}`)
		require.Equal(w.t, []string{resultFrame("1", "first"), resultFrame("2", "second")}, frames[1:])
		require.Equal(w.t, counts{"admitted": 2, "sent": 2, "rejected/overload": 1, "limit/max_queue": 1}, w.counts())
	}},
	{state: "R/shutting-down", test: func(w *world) {
		g := w.gate("work", true)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		go p.s.Finish(mcp.CauseServerShutdown)
		w.settle()
		p.call("1", "work")
		p.call("2", "work") // nobody else has this id
		h.finish("first")
		frames := p.frames()
		require.Len(w.t, frames, 3)
		hasError(w.t, frames[0], "", mcp.CodeInternalError, "shutting_down")
		require.Contains(w.t, frames[0], `"id":1}`)
		hasError(w.t, frames[1], "2", mcp.CodeInternalError, "shutting_down")
		require.Equal(w.t, resultFrame("1", "first"), frames[2])
	}},
	{state: "R/not-initialized", test: func(w *world) {
		g := w.gate("work", true)
		p := w.connect(false)
		p.send(modernFrame("1", "work")) // needs no handshake
		h := g.next()
		p.call("1", "work")
		h.finish("first")
		frames := p.frames()
		require.Len(w.t, frames, 2)
		hasError(w.t, frames[0], "", mcp.CodeInvalidRequest, "not_initialized")
		require.Contains(w.t, frames[0], `"id":1}`)
		require.Equal(w.t, resultFrame("1", "first"), frames[1])
	}},
	{state: "B", test: func(w *world) {
		a := w.asker("work", false)
		p := w.connect(true)
		p.call("1", "work")
		a.blocked()
		p.call("1", "work")
		require.Equal(w.t, []string{askFrame("1"), duplicateFrame("1")}, p.frames())
		require.Empty(w.t, a.answers)
		p.send(replyFrame("1", `{}`))
		require.NoError(w.t, a.answer().err)
		a.next().finish("first")
		require.Equal(w.t, resultFrame("1", "first"), p.frames()[2])
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "rejected/duplicate_id": 1}, w.counts())
	}},
	{state: "P", limits: limits.Limits{MaxQueuedMessages: 2}, test: func(w *world) {
		k := w.stepper("work")
		p := w.connect(true)
		p.call("1", "work")
		w.settle()
		free := make(chan struct{})
		p.sink.on(blockUntil(free))
		k.step()
		k.step()
		p.call("1", "work") // its rejection fills the queue, and the next send hangs
		k.step()
		require.Len(w.t, k.results(), 2)
		for range 3 {
			p.call("1", "work") // the reader goes on all the same
		}
		require.Empty(w.t, k.cause())
		close(free)
		w.settle()
		k.then <- func() (mcp.Result, error) { return &textResult{Text: "first"}, nil }
		require.Equal(w.t, []string{
			noteFrame(1), noteFrame(2), duplicateFrame("1"), duplicateFrame("1"), duplicateFrame("1"), duplicateFrame("1"),
			noteFrame(3), resultFrame("1", "first"),
		}, p.frames())
		require.Equal(w.t, counts{
			"admitted": 1, "sent": 1, "rejected/duplicate_id": 4, "limit/max_queued_messages": 1,
		}, w.counts())
	}},
	{state: "P/wedged", limits: limits.Limits{MaxQueuedBytes: 200}, test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.sink.on(blockUntil(nil))
		p.call("1", "work") // the writer hangs on it
		w.settle()
		p.call("1", "work") // this one waits, and a further one would make more than 200 bytes
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			p.call("1", "work")
		}()
		w.settle()
		select {
		case <-returned:
			w.t.Fatal("the reader goes on although there is no room")
		default:
		}
		require.Empty(w.t, h.cause())
		<-returned
		<-p.s.Done()
		require.Equal(w.t, "transport_error", h.cause())
		require.Empty(w.t, p.frames())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/write_timeout": 1, "cancelled/transport_error": 1, "rejected/duplicate_id": 3,
			"limit/max_queued_bytes": 1, "limit/write_timeout": 1,
		}, w.counts())
		require.Equal(w.t, 1, w.times("WARN session.peer_lost"))
	}},
	{state: "S", test: func(w *world) {
		w.reuse(func(sink *scriptSink, free chan struct{}) { sink.on(blockUntil(free)) })
	}},
	{state: "W", test: func(w *world) {
		w.reuse(func(sink *scriptSink, free chan struct{}) { sink.onFlush(blockUntil(free)) })
	}},
	{state: "R/http", test: func(w *world) {
		g := w.gate("work", false)
		s := w.open("session-1")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		y := w.post(s, callFrame("1", "work"))
		g.empty()
		require.True(w.t, y.ended())
		require.NoError(w.t, y.err)
		require.Len(w.t, y.frames(), 1)
		hasError(w.t, y.frames()[0], "1", mcp.CodeInvalidRequest, "duplicate_id") // on its own exchange, with the id
		require.Empty(w.t, x.frames())
		require.Empty(w.t, h.cause())
		h.finish("first")
		require.Equal(w.t, []string{resultFrame("1", "first")}, x.frames())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "rejected/duplicate_id": 1}, w.counts())
	}},
	{state: "other-session", test: func(w *world) {
		g := w.gate("work", false)
		s1, s2 := w.open("session-1"), w.open("session-2")
		xs := []*exchange{
			w.post(s1, callFrame("1", "work")), w.post(s2, callFrame("1", "work")),
			w.post(nil, modernFrame("1", "work")), w.post(nil, modernFrame("1", "work")),
		}
		p, q := w.connect(true), w.connect(true)
		p.call("1", "work")
		q.call("1", "work")
		w.settle()
		for range 6 {
			h := g.next()
			h.finish(fmt.Sprintf("%p", h.r.stream))
		}
		for _, x := range xs {
			require.Equal(w.t, []string{resultFrame("1", fmt.Sprintf("%p", x.stream))}, x.frames())
		}
		for _, p := range []*peer{p, q} {
			require.Equal(w.t, []string{resultFrame("1", fmt.Sprintf("%p", p.s.stream))}, p.frames())
		}
		require.Equal(w.t, counts{"admitted": 6, "sent": 6}, w.counts())
	}},
	{state: "after-cancel", test: func(w *world) {
		g := w.gate("work", true)
		p := w.connect(true)
		p.call("1", "work")
		old := g.next()
		p.cancel("1", "")
		p.call("1", "work") // the id is free, although its old handler still runs
		h := g.next()
		p.duplicate("1") // and now it is not
		old.finish("old")
		w.settle()
		require.Equal(w.t, []string{duplicateFrame("1")}, p.frames(), "the late result must not reach the new request")
		require.Empty(w.t, h.cause())
		p.duplicate("1") // the end of the old one has not freed it
		h.finish("new")
		require.Equal(w.t, resultFrame("1", "new"), p.frames()[2])
		require.Equal(w.t, counts{
			"admitted": 2, "sent": 1, "dropped/cancelled": 1, "cancelled/client_cancel": 1, "rejected/duplicate_id": 2,
		}, w.counts())
	}},
}

// duplicateFrame is the rejection on a byte stream: with the id it would answer the
// first request.
func duplicateFrame(id string) string {
	return `{"jsonrpc":"2.0","error":{"code":-32600,"message":"a request with this id is still in flight",` +
		`"data":{"reason":"duplicate_id","id":` + id + `}}}`
}

// duplicate sends a request with an id that is in flight.
func (p *peer) duplicate(id string) {
	p.w.t.Helper()
	n := len(p.frames())
	p.call(id, "work")
	require.Equal(p.w.t, []string{duplicateFrame(id)}, p.frames()[n:])
}

// onlyFirst checks that the first request was answered, and the second rejected.
func (p *peer) onlyFirst(g *gate) {
	p.w.t.Helper()
	g.empty()
	require.Equal(p.w.t, []string{duplicateFrame("1"), resultFrame("1", "first")}, p.frames())
	require.Equal(p.w.t, counts{"admitted": 1, "sent": 1, "rejected/duplicate_id": 1}, p.w.counts())
}

// reuse sends an id again while the answer to its first request is on its way.
func (w *world) reuse(hold func(sink *scriptSink, free chan struct{})) {
	w.t.Helper()
	g := w.gate("work", false)
	p := w.connect(true)
	free := make(chan struct{})
	hold(p.sink, free)
	p.call("1", "work")
	g.next().finish("first")
	w.settle()
	p.call("1", "work") // admitted
	g.next().finish("second")
	require.Empty(w.t, p.frames())
	close(free)
	require.Equal(w.t, []string{resultFrame("1", "first"), resultFrame("1", "second")}, p.frames())
	require.Equal(w.t, counts{"admitted": 2, "sent": 2}, w.counts())
}

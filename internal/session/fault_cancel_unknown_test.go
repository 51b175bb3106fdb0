package session

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// E3: a cancel that fits no request in flight.
var cellsE3 = []faultCell{
	{state: "unknown", test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		h := g.next()
		ignoresCancel(w, h, p.send, cancelFrame("2", ""), mcp.IgnoreUnknownID)
		p.call("2", "work") // the cancel was not remembered
		second := g.next()
		require.Empty(w.t, second.cause())
		h.finish("one")
		w.settle()
		second.finish("two")
		require.Equal(w.t, []string{resultFrame("1", "one"), resultFrame("2", "two")}, p.frames())
	}},
	{state: "finished", test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		g.next().finish("one")
		w.settle()
		ignoresCancel(w, nil, p.send, cancelFrame("1", ""), mcp.IgnoreUnknownID)
		p.call("1", "work") // the id again
		h := g.next()
		require.Empty(w.t, h.cause())
		h.finish("again")
		require.Equal(w.t, []string{resultFrame("1", "one"), resultFrame("1", "again")}, p.frames())
	}},
	{state: "malformed", test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		h := g.next()
		for _, params := range []string{
			`{}`, `{"requestId":null}`, `{"requestId":true}`, `{"requestId":[1]}`, `{"requestId":{"id":1}}`,
			`{"requestId":1.5}`, `{"reason":"no id"}`,
		} {
			frame := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + params + `}`
			ignoresCancel(w, h, p.send, frame, mcp.IgnoreMalformed)
		}
		ignoresCancel(w, h, p.send, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, mcp.IgnoreMalformed)
		h.finish("done")
		require.Equal(w.t, []string{resultFrame("1", "done")}, p.frames())
	}},
	{state: "foreign-session", test: func(w *world) {
		g, p, other := w.gate("work", false), w.connect(true), w.connect(true)
		p.call("1", "work")
		h := g.next()
		ignoresCancel(w, h, other.send, cancelFrame("1", ""), mcp.IgnoreUnknownID)

		a, b := w.open("a"), w.open("b")
		x := w.post(a, callFrame("1", "work"))
		posted := g.next()
		tell := func(frame string) { w.tell(b, frame) }
		ignoresCancel(w, posted, tell, cancelFrame("1", ""), mcp.IgnoreUnknownID)
		h.finish("stdio")
		posted.finish("http")
		require.Equal(w.t, []string{resultFrame("1", "stdio")}, p.frames())
		require.Equal(w.t, []string{resultFrame("1", "http")}, x.frames())
		require.Empty(w.t, other.frames())
	}},
	{state: "foreign-type", test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		h := g.next()
		ignoresCancel(w, h, p.send, cancelFrame(`"1"`, ""), mcp.IgnoreUnknownID)
		p.call(`"2"`, "work")
		second := g.next()
		ignoresCancel(w, second, p.send, cancelFrame("2", ""), mcp.IgnoreUnknownID)
		h.finish("one")
		w.settle()
		second.finish("two")
		require.Equal(w.t, []string{resultFrame("1", "one"), resultFrame(`"2"`, "two")}, p.frames())

		for _, id := range []string{"0", `""`} { // these are ids like any other
			p.call(id, "work")
			h = g.next()
			p.cancel(id, "")
			w.settle()
			require.Equal(w.t, "client_cancel", h.cause())
		}
	}},
	{state: "foreign-direction", test: func(w *world) {
		a, p := w.asker("work", false), w.connect(true)
		p.call("7", "work")
		h := a.blocked() // our own request has the id 1
		ignoresCancel(w, h, p.send, cancelFrame("1", ""), mcp.IgnoreUnknownID)
		require.Len(w.t, w.core.Snapshot().Outbound, 1)
		p.send(replyFrame("1", `{"roots":[]}`))
		require.NoError(w.t, a.answer().err)
		a.next().finish("done")
		require.Equal(w.t, []string{askFrame("1"), resultFrame("7", "done")}, p.frames())
	}},
	{state: "modern-http", test: func(w *world) {
		g := w.gate("work", false)
		x := w.post(nil, modernFrame("1", "work"))
		h := g.next()
		in, bad := inbound(httpConn, cancelFrame("1", ""))
		require.Nil(w.t, bad)
		before := w.counts()
		w.core.Notify(in)
		w.settle()
		require.Equal(w.t, counts{"ignored/cancel/wrong_transport": 1}, w.counts().since(before))
		require.Empty(w.t, h.cause())
		w.loggedWith("DEBUG cancel.ignored", "reason=wrong_transport")
		h.finish("done")
		require.Equal(w.t, []string{resultFrame("1", "done")}, x.frames())
	}},
	{state: "flood", test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		h := g.next()
		before := w.counts()
		const n = 10_000
		for i := range n {
			p.cancel(fmt.Sprint(i+2), "")
		}
		w.settle()
		require.Equal(w.t, counts{"ignored/cancel/unknown_id": n}, w.counts().since(before))
		require.Empty(w.t, h.cause())
		p.s.update(func(st *state) {
			require.Len(w.t, st.index, 1)
			require.Len(w.t, st.live, 1)
			require.Empty(w.t, st.endedCalls)
			require.Empty(w.t, st.outbound)
		})
		h.finish("done")
		require.Equal(w.t, []string{resultFrame("1", "done")}, p.frames())
	}},
}

// ignoresCancel sends a cancel that must have no effect. h is a request in flight,
// or nil.
func ignoresCancel(w *world, h *held, send func(string), frame string, reason mcp.IgnoreReason) {
	w.t.Helper()
	before, logged := w.counts(), w.times("DEBUG cancel.ignored")
	send(frame)
	w.settle()
	require.Equal(w.t, counts{"ignored/cancel/" + string(reason): 1}, w.counts().since(before), frame)
	require.Equal(w.t, logged+1, w.times("DEBUG cancel.ignored"))
	if h != nil {
		require.Empty(w.t, h.cause())
	}
}

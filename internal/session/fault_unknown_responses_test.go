package session

import (
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// E17: answers of the client that answer nothing.
var cellsE17 = []faultCell{
	{state: "unknown", test: func(w *world) {
		a, p := w.waiting()
		for _, id := range []string{"99", "0", "2", "-1", `"1"`, `""`} {
			p.ignores(replyFrame(id, `{}`), "unknown_id")
		}
		require.Empty(w.t, a.answers, "another waiter must not be resolved")
		p.send(replyFrame("1.0", `{"roots":[]}`)) // 1.0 is 1
		answer := a.answer()
		require.NoError(w.t, answer.err)
		require.JSONEq(w.t, `{"roots":[]}`, string(answer.result))
		w.finishes(a, p)
	}},
	{state: "late", test: func(w *world) {
		a, g := w.asker("work", false), w.gate("other", false)
		w.route("work", func(rt *Route) { rt.Deadline = 5 * time.Second })
		p := w.connect(true)
		p.call("1", "work")
		a.blocked()
		p.call("2", "other")
		h := g.next()
		time.Sleep(5 * time.Second)
		require.ErrorIs(w.t, a.answer().err, mcp.ErrDeadline)
		p.ignores(replyFrame("1", `{}`), "late")
		p.ignores(replyFrame("1", `{}`), "late")

		p.call("3", "work")
		a.blocked()
		p.cancel("3", "")
		require.ErrorIs(w.t, a.answer().err, mcp.ErrClientCancelled)
		p.ignores(`{"jsonrpc":"2.0","id":2,"error":{"code":-32800,"message":"cancelled"}}`, "late")
		require.Empty(w.t, h.cause())
		a.next() // the two that have
		a.next() // waited in vain

		// The memory of ended calls is bounded: beyond it they are unknown.
		for id := range maxEndedCalls {
			p.call("4", "work")
			a.blocked()
			p.send(replyFrame(mcp.IntID(int64(id)+3).Raw(), `{}`))
			require.NoError(w.t, a.answer().err)
			a.next().finish("")
			w.settle()
		}
		p.ignores(replyFrame("1", `{}`), "unknown_id")
	}},
	{state: "duplicate", test: func(w *world) {
		a, p := w.waiting()
		p.send(replyFrame("1", `{"first":true}`))
		p.ignores(replyFrame("1", `{"second":true}`), "duplicate")
		p.ignores(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, "duplicate")
		answer := a.answer()
		require.NoError(w.t, answer.err)
		require.JSONEq(w.t, `{"first":true}`, string(answer.result))
		w.finishes(a, p)
	}},
	{state: "malformed", test: func(w *world) {
		a, p := w.waiting()
		p.ignores(`{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"y"}}`, "malformed")
		p.ignores(`{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}`, "malformed")
		p.ignores(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`, "malformed")
		p.ignores(`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, "malformed")
		p.ignores(`{"jsonrpc":"1.0","id":1,"result":{}}`, "malformed")
		p.ignores(`{"jsonrpc":"2.0","id":true,"result":{}}`, "malformed")
		p.ignores(`{"jsonrpc":"2.0","id":1,"error":"no"}`, "malformed")
		require.Empty(w.t, a.answers)

		p.send(`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no roots","data":[1]}}`) // this is an answer
		var answered *mcp.ClientError
		require.True(w.t, errors.As(a.answer().err, &answered))
		require.Equal(w.t, &mcp.ClientError{Code: -1, Message: "no roots", Data: []byte("[1]")}, answered)
		w.finishes(a, p)
	}},
	{state: "wrong-session", test: func(w *world) {
		a := w.asker("work", false)
		s1, s2 := w.open("session-1"), w.open("session-2")
		x := w.post(s1, callFrame("1", "work"))
		a.blocked()
		w.tell(s2, replyFrame("1", `{}`))
		w.settle()
		require.Empty(w.t, a.answers)
		require.Equal(w.t, counts{"admitted": 1, "ignored/response/unknown_id": 1}, w.counts())
		w.logged("DEBUG response.ignored")

		in, _ := inbound(httpConn, replyFrame("1", `{}`))
		w.core.RejectUnadmitted(in, mcp.RejectSessionUnknown, SessionUnknown()) // of a session that nobody knows
		w.settle()
		require.Empty(w.t, a.answers)
		require.Equal(w.t, uint64(1), w.counts()["ignored/response/wrong_session"])

		y := w.post(s2, callFrame("1", "work")) // the same ids in both directions
		h2 := a.blocked()
		require.Equal(w.t, []string{askFrame("1")}, y.frames())
		w.tell(s2, replyFrame("1", `{}`))
		require.NoError(w.t, a.answer().err)
		h := a.next()
		require.Same(w.t, h2.r, h.r, "the waiter of the session that answered")
		h.finish("two")
		require.Equal(w.t, []string{askFrame("1"), resultFrame("1", "two")}, y.frames())
		require.Equal(w.t, []string{askFrame("1")}, x.frames())
		w.tell(s1, replyFrame("1", `{}`))
		require.NoError(w.t, a.answer().err)
		a.next().finish("one")
		require.Equal(w.t, []string{askFrame("1"), resultFrame("1", "one")}, x.frames())
	}},
}

// waiting returns a handler that waits for the client's answer to call 1.
func (w *world) waiting() (*asker, *peer) {
	w.t.Helper()
	a := w.asker("work", false)
	p := w.connect(true)
	p.call("7", "work")
	a.blocked()
	return a, p
}

// ignores sends an answer and checks that it is counted, logged, and nothing else.
func (p *peer) ignores(frame, reason string) {
	p.w.t.Helper()
	before, sent := p.w.counts(), p.frames()
	p.w.log.forget()
	p.send(frame)
	require.Equal(p.w.t, sent, p.frames(), "never answered")
	require.Equal(p.w.t, counts{"ignored/response/" + reason: 1}, p.w.counts().since(before), frame)
	if p.w.times("INFO frame.malformed")+p.w.times("DEBUG frame.malformed") == 0 {
		p.w.loggedWith("DEBUG response.ignored", "reason="+reason)
	}
}

// finishes checks that the one request ends well.
func (w *world) finishes(a *asker, p *peer) {
	w.t.Helper()
	a.next().finish("done")
	require.Equal(w.t, []string{askFrame("1"), resultFrame("7", "done")}, p.frames())
	require.Equal(w.t, uint64(1), w.counts()["sent"])
	require.Empty(w.t, w.core.Snapshot().Outbound)
}

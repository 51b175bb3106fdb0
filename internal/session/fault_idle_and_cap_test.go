package session

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// E10: the idle timeout and the cap of legacy HTTP sessions.
var cellsE10 = []faultCell{
	{state: "idle", test: func(w *world) {
		g := w.gate("work", false)
		s := w.open("session-1")
		time.Sleep(20 * time.Minute)
		x := w.post(s, callFrame("1", "work"))
		time.Sleep(30 * time.Second)
		g.next().finish("done")
		require.True(w.t, x.ended())
		time.Sleep(w.core.limits.SessionIdle - time.Nanosecond) // from the end of the request on
		w.lives(s)
		time.Sleep(time.Nanosecond)
		w.gone(s, mcp.CauseSessionIdle)
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts())
		w.loggedWith("INFO session.closed", "cause=session_idle", "requests=1", "cut=0")
	}},
	{state: "never-initialized", test: func(w *world) {
		// It sends pings and has a stream open, but never notifications/initialized.
		s, _, err := w.core.Open(httpConn, "session-1")
		require.Nil(w.t, err)
		w.post(s, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
		listening, ok := w.get(s)
		require.True(w.t, ok)
		for range 5 {
			time.Sleep(w.core.limits.InitializeTimeout / 6)
			w.post(s, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		}
		w.lives(s)
		time.Sleep(w.core.limits.InitializeTimeout / 6)
		w.gone(s, mcp.CauseSessionIdle)
		require.True(w.t, listening.ended())
		require.Equal(w.t, counts{"admitted": 6, "sent": 6}, w.counts())

		// A session that was refused must not count as one that ended.
		_, done := w.shutdown()
		require.NoError(w.t, <-done)
		_, _, err = w.core.Open(httpConn, "session-2")
		require.NotNil(w.t, err)
		time.Sleep(w.core.limits.InitializeTimeout)
		w.gone(s, mcp.CauseSessionIdle)
	}},
	{state: "sealed", test: func(w *world) {
		id := w.seal()
		first := w.core.allSessions()[0]
		time.Sleep(w.core.limits.SessionIdle)
		w.settle()
		require.Empty(w.t, w.core.allSessions())
		s, _, err := w.core.Visit(id, httpConn, nil)
		require.Nil(w.t, err)
		require.Equal(w.t, first.ID(), s.ID())
		require.NotSame(w.t, first, s)
		again, _, _ := w.core.Visit(id, httpConn, nil)
		require.Same(w.t, s, again, "one object for one id")
		time.Sleep(2 * w.core.limits.SessionIdle)
		require.Len(w.t, w.core.allSessions(), 1, "a message is on its way to it")
		s.Leave()
		again.Leave()
		time.Sleep(w.core.limits.SessionIdle - time.Nanosecond)
		require.Len(w.t, w.core.allSessions(), 1)
		time.Sleep(time.Nanosecond)
		w.settle()
		require.Empty(w.t, w.core.allSessions())
	}},
	{state: "sealed/cap", limits: limits.Limits{MaxSessions: 1}, test: func(w *world) {
		id := w.seal()
		other := w.open("s2")
		w.settle()
		require.Equal(w.t, []*Session{other}, w.core.allSessions())
		s, _, err := w.core.Visit(id, httpConn, nil)
		require.Nil(w.t, err, "it has the place of the other one")
		_, reason, _ := w.core.Open(httpConn, "s3")
		require.Equal(w.t, mcp.RejectOverload, reason, "it is not idle")
		s.Leave()
		g := w.gate("work", true)
		third := w.open("s3")
		w.post(third, callFrame("1", "work"))
		h := g.next()
		_, reason, err = w.core.Visit(id, httpConn, nil)
		require.Equal(w.t, mcp.RejectOverload, reason, "429")
		require.ErrorContains(w.t, err, limits.NameSessions)
		h.finish("done")
	}},
	{state: "sealed/end", limits: limits.Limits{SessionLife: time.Hour}, test: func(w *world) {
		id := w.seal()
		for range 6 {
			time.Sleep(10*time.Minute - time.Second)
			s, _, err := w.core.Visit(id, httpConn, nil)
			require.Nil(w.t, err)
			s.Leave()
		}
		time.Sleep(6 * time.Second)
		_, reason, _ := w.core.Visit(id, httpConn, nil)
		require.Equal(w.t, mcp.RejectSessionUnknown, reason)
		time.Sleep(w.core.limits.SessionIdle)
		_, reason, _ = w.core.Visit(id, httpConn, nil)
		require.Equal(w.t, mcp.RejectSessionUnknown, reason, "and without a local object")

		s := w.open("s2")
		require.NotEmpty(w.t, s.HandOut())
		x, ok := w.get(s)
		require.True(w.t, ok)
		time.Sleep(time.Hour - time.Second)
		require.False(w.t, x.ended(), "the stream keeps it")
		time.Sleep(time.Second)
		w.settle()
		require.True(w.t, x.ended(), "but not beyond its end")
		require.Empty(w.t, w.core.allSessions())
	}},
	{state: "sealed/delete", test: func(w *world) {
		id := w.seal()
		s, _, err := w.core.Visit(id, httpConn, nil)
		require.Nil(w.t, err)
		s.Delete(context.Background(), httpConn)
		s.Leave()
		_, reason, _ := w.core.Visit(id, httpConn, nil)
		require.Equal(w.t, mcp.RejectSessionUnknown, reason)
		time.Sleep(w.core.limits.SessionLife - time.Second)
		_, reason, _ = w.core.Visit(id, httpConn, nil)
		require.Equal(w.t, mcp.RejectSessionUnknown, reason)

		other := w.open("s2")
		id = other.HandOut()
		_, failed := w.core.EndSession(other.Key())
		require.NoError(w.t, failed)
		w.settle()
		_, reason, _ = w.core.Visit(id, httpConn, nil)
		require.Equal(w.t, mcp.RejectSessionUnknown, reason, "an operator has ended it")
	}},
	{state: "ping", limits: limits.Limits{PingInterval: time.Minute, PingMisses: 2}, test: func(w *world) {
		s := w.open("session-1")
		time.Sleep(10 * time.Minute) // without a stream nobody can be asked
		w.lives(s)
		x, ok := w.get(s)
		require.True(w.t, ok)
		time.Sleep(90 * time.Second)
		require.Equal(w.t, []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`}, x.frames())
		answer, _ := inbound(httpConn, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		s.ReceiveOn(answer, nil)
		time.Sleep(2 * time.Minute) // one is missed: no harm
		w.lives(s)
		time.Sleep(2 * time.Minute)
		w.gone(s, mcp.CauseTransportError)
		require.True(w.t, x.ended())
		w.logged("WARN session.unresponsive")
	}},
	{state: "ping/busy", limits: limits.Limits{PingInterval: time.Second, PingMisses: 2}, test: func(w *world) {
		g := w.gate("work", false)
		s := w.open("session-1")
		_, ok := w.get(s)
		require.True(w.t, ok)
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		<-s.Done()
		require.Equal(w.t, "transport_error", h.cause())
		require.True(w.t, x.ended())
		w.gone(s, mcp.CauseTransportError)
		require.Equal(w.t, uint64(1), w.counts()["dropped/session_gone"])
		require.NotContains(w.t, w.log.lines(), "ERROR invariant.broken", "it is no idle end")
	}},
	{state: "busy", limits: limits.Limits{SessionIdle: 10 * time.Second}, test: func(w *world) {
		g := w.gate("work", false)
		s := w.open("session-1")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		time.Sleep(50 * time.Second)
		w.lives(s)
		require.Empty(w.t, h.cause())
		h.finish("done")
		require.Equal(w.t, []string{resultFrame("1", "done")}, x.frames())
		time.Sleep(9 * time.Second)
		w.lives(s)

		// If a bug of ours reaps a busy session all the same, it must not go unseen.
		before := w.counts()
		x = w.post(s, callFrame("2", "work"))
		h = g.next()
		s.Close(mcp.CauseSessionIdle)
		require.True(w.t, x.ended())
		require.Equal(w.t, "session_idle", h.cause())
		require.Equal(w.t, counts{"admitted": 1, "dropped/session_gone": 1, "cancelled/session_idle": 1},
			w.counts().since(before))
		w.logged("ERROR invariant.broken")
		w.log.forget()
	}},
	{state: "streaming", test: func(w *world) {
		s := w.open("session-1")
		x, ok := w.get(s)
		require.True(w.t, ok)
		time.Sleep(3 * w.core.limits.SessionIdle)
		w.lives(s)
		x.leave()
		s.Detach(x.stream)
		time.Sleep(w.core.limits.SessionIdle - time.Nanosecond) // from the end of the stream on
		w.lives(s)
		time.Sleep(time.Nanosecond)
		w.gone(s, mcp.CauseSessionIdle)
	}},
	{state: "cap", limits: limits.Limits{MaxSessions: 3}, test: func(w *world) {
		g := w.gate("work", false)
		busy := w.open("session-1")
		w.post(busy, callFrame("1", "work"))
		older := w.open("session-2")
		time.Sleep(time.Second)
		younger := w.open("session-3")
		time.Sleep(time.Second)
		x := w.post(older, callFrame("1", "work")) // now it is the younger one
		h := g.next()
		g.next().finish("done")
		require.True(w.t, x.ended())

		newest := w.open("session-4")
		w.settle()
		w.gone(younger, mcp.CauseSessionEvicted)
		for _, s := range []*Session{busy, older, newest} {
			w.lives(s)
		}
		require.Empty(w.t, h.cause())
		require.Equal(w.t, counts{"admitted": 2, "sent": 1, "limit/max_sessions": 1}, w.counts())
		w.loggedWith("INFO session.closed", "cause=session_evicted")
	}},
	{state: "cap-shares", limits: limits.Limits{MaxSessions: 8}, test: func(w *world) {
		// Who begins many sessions ends his own, however idle those of others are.
		ann := w.openFor("ann", "ann-1")
		var eves []*Session
		for i := range 9 {
			eves = append(eves, w.openFor("eve", fmt.Sprint("eve-", i)))
		}
		require.True(w.t, w.has(ann))
		for i, s := range eves {
			require.Equal(w.t, i >= 3, w.has(s), "one place is left for others: %s", s.ID())
		}
		bob := w.openFor("bob", "bob-1")
		require.True(w.t, w.has(eves[3]), "it was that place")
		carol := w.openFor("carol", "carol-1")
		for _, s := range []*Session{ann, bob, carol} {
			require.True(w.t, w.has(s), s.ID())
		}
		require.False(w.t, w.has(eves[3]))
		require.True(w.t, w.has(eves[4]))
	}},
	{state: "cap-unfinished", limits: limits.Limits{MaxSessions: 8}, test: func(w *world) {
		// A flood of initialize evicts what it has begun itself, and nobody's idle session.
		var users []*Session
		for i := range 4 {
			users = append(users, w.openFor(fmt.Sprint("user-", i), fmt.Sprint("user-", i)))
		}
		slow, _, err := w.core.Open(from("192.0.2.1"), "slow") // in the middle of its handshake
		require.Nil(w.t, err)
		for i := range 100 {
			_, _, err := w.core.Open(from("192.0.2.66"), fmt.Sprint("flood-", i))
			require.Nil(w.t, err)
		}
		newcomer := w.openFor("newcomer", "newcomer")
		another := w.openFor("another", "another")
		for _, s := range append(users, newcomer, another) {
			require.True(w.t, w.has(s), s.ID())
		}
		require.Same(w.t, slow, w.core.Session("slow", nil))
		require.Equal(w.t, map[mcp.Cause]uint64{mcp.CauseSessionEvicted: 99}, w.core.Snapshot().Counters.SessionsClosed)
	}},
	{state: "cap-anonymous", limits: limits.Limits{MaxSessions: 3}, test: func(w *world) {
		var users []*Session
		for i := range 3 {
			users = append(users, w.openFor("ann", fmt.Sprint("ann-", i)))
		}
		_, reason, err := w.core.Open(from("192.0.2.66"), "flood")
		require.NotNil(w.t, err)
		require.Equal(w.t, mcp.RejectOverload, reason)
		for _, s := range users {
			require.True(w.t, w.has(s), s.ID())
		}
	}},
	{state: "cap-larger", limits: limits.Limits{MaxSessions: 3}, test: func(w *world) {
		one, two := w.openFor("ann", "ann-1"), w.openFor("ann", "ann-2")
		bob := w.openFor("bob", "bob-1")
		w.post(one, callFrameFor(w, "1"))
		w.post(two, callFrameFor(w, "1"))
		conn := *httpConn
		conn.Principal = &auth.Principal{Subject: "ann"}
		_, _, err := w.core.Open(&conn, "ann-3")
		require.NotNil(w.t, err, "ann's sessions are busy, and bob has fewer")
		for _, s := range []*Session{one, two, bob} {
			require.True(w.t, w.has(s), s.ID())
		}
	}},
	{state: "cap-busy", limits: limits.Limits{MaxSessions: 2}, test: func(w *world) {
		g := w.gate("work", false)
		working, listening := w.open("session-1"), w.open("session-2")
		w.post(working, callFrame("1", "work"))
		x, _ := w.get(listening)
		h := g.next()
		_, reason, err := w.core.Open(httpConn, "session-3")
		require.Equal(w.t, mcp.RejectOverload, reason)
		require.Equal(w.t, mcp.CodeInternalError, err.Code)
		require.Equal(w.t, mcp.ErrorData{Reason: "overload", Limit: limits.NameSessions}, err.Data)
		require.Nil(w.t, w.core.Session("session-3", nil))
		require.Empty(w.t, h.cause())
		require.False(w.t, x.ended())
		require.Empty(w.t, w.core.Snapshot().Counters.SessionsClosed)
		require.Equal(w.t, counts{"admitted": 1, "limit/max_sessions": 1}, w.counts())

		in, _ := inbound(httpConn, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
		w.core.RejectUnadmitted(in, reason, err) // as the transport does
		require.Equal(w.t, uint64(1), w.counts()["rejected/overload"])
	}},
}

// openFor opens a session of a principal, whose handshake is done, and lets a second pass.
func (w *world) openFor(subject, id string) *Session {
	w.t.Helper()
	conn := *httpConn
	conn.Principal = &auth.Principal{Subject: subject}
	s, _, err := w.core.Open(&conn, id)
	require.Nil(w.t, err)
	s.Initialize(&Peer{Version: mcp.Version20251125})
	s.Initialized()
	time.Sleep(time.Second)
	return s
}

// has reports whether a session is known.
func (w *world) has(s *Session) bool { return w.core.Session(s.ID(), s.conn) == s }

// callFrameFor returns a call of a handler that goes on until its context ends.
func callFrameFor(w *world, id string) string {
	w.calls(nil, 0)
	return callFrame(id, "work")
}

// lives checks that a session is known and open.
func (w *world) lives(s *Session) {
	w.t.Helper()
	w.settle()
	require.Same(w.t, s, w.core.Session(s.ID(), nil))
	select {
	case <-s.Done():
		w.t.Fatal("the session is closed")
	default:
	}
}

// gone checks that a session is closed and unknown, and the only one that is.
func (w *world) gone(s *Session, cause mcp.Cause) {
	w.t.Helper()
	w.settle()
	require.Nil(w.t, w.core.Session(s.ID(), nil))
	select {
	case <-s.Done():
	default:
		w.t.Fatal("the session is not closed")
	}
	require.NotContains(w.t, w.core.allSessions(), s)
	require.Equal(w.t, map[mcp.Cause]uint64{cause: 1}, w.core.Snapshot().Counters.SessionsClosed)
	require.Equal(w.t, 1, w.times("INFO session.closed"))
}

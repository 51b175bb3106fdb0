package session

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// seal has the core seal the ids of sessions, and returns the id of a session that was opened.
func (w *world) seal() (id string) {
	w.t.Helper()
	w.core.SealSessions(testRing(w.t), func(*Session) {})
	s := w.open("s1")
	id = s.HandOut()
	require.NotEmpty(w.t, id)
	return id
}

// visit posts as a transport does to a session with a sealed id: first the session, then the request.
func (x *explorer) visit(id string) (reason mcp.RejectReason) {
	s, reason, _ := x.core.Visit(id, httpConn, nil)
	if s == nil {
		return reason
	}
	x.park("the session was found")
	x.post(s, callFrame("1", "work"))
	s.Leave()
	return ""
}

// With a sealed id no message finds its session gone, whatever ends the local object.
var sealedIdleVsRequest = []race{
	{name: "sealed-idle-timer-vs-request", limits: limits.Limits{SessionIdle: 10 * time.Second}, endings: []string{"kept", "adopted"}, script: func(x *explorer) {
		id := x.seal()
		x.quickHandler()
		var rejected mcp.RejectReason
		x.actor("client", func() { rejected = x.visit(id) })
		x.clock(x.core.limits.SessionIdle)
		x.run()
		require.Empty(x.t, rejected)
		x.sealedEnding()
	}},
	{name: "sealed-eviction-vs-request", limits: limits.Limits{MaxSessions: 1}, endings: []string{"kept", "adopted"}, script: func(x *explorer) {
		id := x.seal()
		x.quickHandler()
		var rejected mcp.RejectReason
		x.actor("client", func() { rejected = x.visit(id) })
		x.actor("initialize", func() { _, _, _ = x.core.Open(httpConn, "s2") })
		x.run()
		require.Empty(x.t, rejected)
		x.sealedEnding()
	}},
	{name: "sealed-delete-vs-request", endings: []string{"session_unknown", "session_gone", "kept"}, script: func(x *explorer) {
		id := x.seal()
		x.quickHandler()
		var rejected mcp.RejectReason
		x.actor("client", func() { rejected = x.visit(id) })
		x.actor("delete", func() {
			s, _, _ := x.core.Visit(id, httpConn, nil)
			s.Delete(context.Background(), httpConn)
			s.Leave()
		})
		x.run()
		_, reason, _ := x.core.Visit(id, httpConn, nil)
		require.Equal(x.t, mcp.RejectSessionUnknown, reason, "a deleted session stays deleted")
		require.Zero(x.t, x.times("INFO session.adopted"))
		switch {
		case rejected != "":
			require.Equal(x.t, mcp.RejectSessionUnknown, rejected)
			x.saw(string(rejected))
		default:
			r, rec := x.request(0)
			if rec.rejected != "" {
				x.saw(string(rec.rejected))
				return
			}
			if fate, dropped := r.Fate(); fate != FateSent {
				x.saw(string(dropped))
				return
			}
			x.saw("kept")
		}
	}},
}

// sealedEnding checks that the one request was served, by the session as it was or by another object.
func (x *explorer) sealedEnding() {
	x.t.Helper()
	r, rec := x.request(0)
	require.Empty(x.t, rec.rejected)
	fate, _ := r.Fate()
	require.Equal(x.t, FateSent, fate)
	require.Empty(x.t, rec.causes)
	if x.times("INFO session.adopted") > 0 {
		x.saw("adopted")
		return
	}
	x.saw("kept")
}

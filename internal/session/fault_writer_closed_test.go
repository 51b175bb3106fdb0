package session

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// runningClosed are the counters of one running request whose writer was closed.
var runningClosed = counts{"admitted": 1, "dropped/closed_writer": 1, "cancelled/server_shutdown": 1}

// E6: our own end was closed first.
var cellsE6 = []faultCell{
	{state: "Q", limits: oneSlot, test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		first := g.next()
		p.call("2", "work")
		p.s.Close(mcp.CauseServerShutdown)
		w.settle()
		require.Equal(w.t, "server_shutdown", first.cause())
		g.empty()
		closedFirst(w, p, counts{"admitted": 2, "dropped/closed_writer": 2, "cancelled/server_shutdown": 2})
	}},
	{state: "M", test: func(w *world) {
		g := w.gate("work", false)
		seen := w.layers("work")
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.s.Close(mcp.CauseServerShutdown)
		w.settle()
		require.Equal(w.t, "server_shutdown", h.cause())
		require.Equal(w.t, []string{"inner:server_shutdown", "outer:server_shutdown"}, seen.get())
		closedFirst(w, p, runningClosed)
	}},
	{state: "R", test: func(w *world) {
		g, sibling, other := w.gate("work", false), w.gate("sibling", false), w.connect(true)
		other.call("1", "sibling")
		calm := sibling.next()
		for _, cause := range []mcp.Cause{mcp.CauseServerShutdown, mcp.CauseSessionDelete, mcp.CauseTransportError} {
			before, begin := w.counts(), time.Now()
			p := w.connect(true)
			p.call("1", "work")
			h := g.next()
			p.s.Close(cause)
			w.settle()
			require.Equal(w.t, string(cause), h.cause(), "the cause is that of the close")
			require.ErrorIs(w.t, context.Cause(h.ctx), &mcp.CancelError{Cause: cause})
			require.Equal(w.t, counts{
				"admitted": 1, "dropped/closed_writer": 1, "cancelled/" + string(cause): 1,
			}, w.counts().since(before))
			require.True(w.t, p.closed())
			require.Zero(w.t, time.Since(begin))
			require.Empty(w.t, p.frames())
		}
		require.Empty(w.t, calm.cause(), "another session is not concerned")
		calm.finish("calm")
		require.Equal(w.t, []string{resultFrame("1", "calm")}, other.frames())

		// A legacy HTTP session is removed by that.
		before := w.counts()
		s := w.open("session")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		s.Close(mcp.CauseSessionDelete)
		require.True(w.t, x.ended())
		require.Equal(w.t, "session_delete", h.cause())
		require.Empty(w.t, x.frames())
		require.Equal(w.t, counts{"admitted": 1, "dropped/session_gone": 1, "cancelled/session_delete": 1},
			w.counts().since(before))
	}},
	{state: "B", test: func(w *world) {
		a, p := w.asker("work", false), w.connect(true)
		p.call("1", "work")
		h := a.blocked()
		p.s.Close(mcp.CauseServerShutdown)
		require.ErrorIs(w.t, a.answer().err, mcp.ErrServerShutdown)
		require.Equal(w.t, "server_shutdown", h.cause())
		require.Equal(w.t, []string{askFrame("1")}, p.frames(), "no courtesy cancel")
		closedFirst(w, p, runningClosed)
	}},
	{state: "P", limits: small, test: func(w *world) {
		n, free := w.sender("work", 3), make(chan struct{})
		p := w.connect(true)
		p.sink.on(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, io.ErrClosedPipe)))
		p.call("1", "work")
		h := n.blocked(3)
		p.s.Close(mcp.CauseServerShutdown)
		require.ErrorIs(w.t, n.result(), mcp.ErrClosed)
		require.Equal(w.t, "server_shutdown", h.cause())
		close(free)
		w.settle()
		closedFirst(w, p, counts{
			"admitted": 1, "dropped/closed_writer": 1, "cancelled/server_shutdown": 1, "notification/closed_writer": 3,
		})
	}},
	{state: "S", test: func(w *world) {
		settled, taken := w.gate("settled", false), w.gate("taken", false)
		at := map[*gate]*stop{
			settled: w.stopAt(pointAfterSettle, "settled"), taken: w.stopAt(pointBeforeWrite, "taken"),
		}
		for g, tool := range map[*gate]string{settled: "settled", taken: "taken"} {
			before := w.counts()
			p := w.connect(true)
			p.call("1", tool)
			g.next().finish("done")
			at[g].await()
			p.s.Close(mcp.CauseServerShutdown)
			w.settle()
			p.sink.on(func(*scriptSink) error {
				w.t.Error("a write on a closed writer")
				return nil
			})
			at[g].release()
			require.Empty(w.t, p.frames())
			require.Equal(w.t, counts{"admitted": 1, "dropped/closed_writer": 1}, w.counts().since(before))
			require.True(w.t, p.closed())
		}
		w.logged("DEBUG response.dropped")
		require.Zero(w.t, w.times("WARN session.peer_lost"))
	}},
	{state: "W", test: func(w *world) {
		g, p, free := w.gate("work", false), w.connect(true), make(chan struct{})
		// The error looks as if the peer had gone: whose end was closed decides.
		p.sink.onFlush(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, io.ErrClosedPipe)))
		p.call("1", "work")
		g.next().finish("done")
		w.settle()
		p.s.Close(mcp.CauseServerShutdown)
		w.settle()
		close(free)
		w.settle()
		closedFirst(w, p, counts{"admitted": 1, "dropped/closed_writer": 1})
	}},
	{state: "woken-before-close", test: func(w *world) {
		// The handler has returned, its outcome is not fixed when the writer closes.
		at := w.stopAt(pointBeforeSettle, "work")
		a, p := w.asker("work", false), w.connect(true)
		for i, id := range []string{"7", "8"} {
			p.call(id, "work")
			a.blocked()
			p.send(replyFrame(string(rune('1'+i)), `{"roots":[]}`))
			require.NoError(w.t, a.answer().err)
			a.next().finish("done")
			at.await()
		}
		go p.s.Close(mcp.CauseServerShutdown) // it stops at the same point
		w.settle()
		at.release()
		w.settle()
		require.Equal(w.t, []string{askFrame("1"), askFrame("2")}, p.frames())
		total := w.counts()
		require.Equal(w.t, uint64(2), total["admitted"])
		require.Equal(w.t, uint64(2), total["dropped/closed_writer"])
		require.True(w.t, p.closed())
		require.NoError(w.t, p.s.Abandoned())
	}},
	{state: "woken-after-close", test: func(w *world) {
		// The close is what wakes the handlers, and they answer on the closed writer.
		a, p := w.asker("work", true), w.connect(true)
		p.call("7", "work")
		w.settle() // it has asked
		p.call("8", "work")
		w.settle()
		p.s.Close(mcp.CauseServerShutdown)
		for range 2 {
			require.ErrorIs(w.t, a.answer().err, mcp.ErrServerShutdown)
			h := a.next()
			require.ErrorIs(w.t, h.r.Notify(mcp.NotificationProgress, []byte(`{"n":1}`), ""), mcp.ErrRequestDone)
			_, err := h.r.Ask(h.ctx, "roots/list", nil)
			require.ErrorIs(w.t, err, mcp.ErrRequestDone)
			h.finish("done")
		}
		require.Equal(w.t, []string{askFrame("1"), askFrame("2")}, p.frames())
		closedFirst(w, p, counts{
			"admitted": 2, "dropped/closed_writer": 2, "cancelled/server_shutdown": 2, "notification/closed_writer": 2,
		})
	}},
}

// TestLateNotifications: what is sent after the teardown is dropped for the reason for which
// the answer was, however the session has ended.
func TestLateNotifications(t *testing.T) {
	for name, tc := range map[string]struct {
		http bool
		end  func(w *world, s *Session, p *peer)
		want mcp.DropReason
	}{
		"we close": {
			end:  func(_ *world, s *Session, _ *peer) { s.Close(mcp.CauseServerShutdown) },
			want: mcp.DropClosedWriter,
		},
		"we close, for the client": {
			end:  func(_ *world, s *Session, _ *peer) { s.Close(mcp.CauseSessionDelete) },
			want: mcp.DropClosedWriter,
		},
		"we close, as the client sends garbage": {
			end: func(w *world, _ *Session, p *peer) {
				for range w.core.limits.MaxConsecutiveMalformed {
					p.send("garbage")
				}
			},
			want: mcp.DropClosedWriter,
		},
		"the client has gone": {
			end: func(_ *world, _ *Session, p *peer) {
				p.sink.on(failWith(mcp.DropBrokenPeer, errReset))
				p.notice()
			},
			want: mcp.DropBrokenPeer,
		},
		"the client does not read": {
			end: func(_ *world, _ *Session, p *peer) {
				p.sink.on(failWith(mcp.DropWriteTimeout, errReset))
				p.notice()
			},
			want: mcp.DropWriteTimeout,
		},
		"a session is deleted": {
			http: true,
			end:  func(_ *world, s *Session, _ *peer) { s.Close(mcp.CauseSessionDelete) },
			want: mcp.DropSessionGone,
		},
		"a session is unresponsive": {
			http: true,
			end:  func(_ *world, s *Session, _ *peer) { s.Close(mcp.CauseTransportError) },
			want: mcp.DropSessionGone,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limits.Limits{MaxConsecutiveMalformed: 3}, func(w *world) {
				g := w.gate("work", true)
				var s *Session
				var p *peer
				if tc.http {
					s = w.open("session")
					w.post(s, callFrame("1", "work"))
				} else {
					p = w.connect(true)
					s = p.s
					p.call("1", "work")
				}
				h := g.next()
				defer h.finish("late") // also after a failure, or the bubble would not end
				go tc.end(w, s, p)
				<-h.ctx.Done()
				w.settle()
				before := w.counts()
				require.ErrorIs(t, h.r.Notify("notifications/x", nil, ""), mcp.ErrRequestDone)
				require.Equal(t, counts{"notification/" + string(tc.want): 1}, w.counts().since(before))
				require.EqualValues(t, 1, w.counts()["dropped/"+string(tc.want)], "%v", w.counts())
			})
		})
	}
}

// TestWaitingNotificationOfARemovedSession: one that waits for room is dropped for the reason
// for which the answer is: the session has gone, whatever has ended it.
func TestWaitingNotificationOfARemovedSession(t *testing.T) {
	for _, cause := range []mcp.Cause{mcp.CauseSessionDelete, mcp.CauseTransportError, mcp.CauseTransportClose} {
		t.Run(string(cause), func(t *testing.T) {
			inWorld(t, small, func(w *world) {
				n, free := w.sender("work", 3), make(chan struct{})
				s := w.open("session")
				x := w.newExchange(1, mcp.Legacy)
				x.sink.on(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
				x.pump(x.sink)
				in, _ := inbound(httpConn, callFrame("1", "work"))
				s.ReceiveOn(in, x.stream)
				h := n.blocked(3)
				s.Close(cause)
				require.Error(t, n.result())
				require.Equal(t, string(cause), h.cause())
				close(free)
				require.True(t, x.ended())
				require.Equal(t, counts{
					"admitted": 1, "dropped/session_gone": 1, "cancelled/" + string(cause): 1, "notification/session_gone": 3,
				}, w.counts().but("limit/max_queued_messages"))
			})
		})
	}
}

// closedFirst checks the end of a session that was closed from our side: it is an
// orderly one.
func closedFirst(w *world, p *peer, want counts) {
	w.t.Helper()
	require.True(w.t, p.closed())
	require.Equal(w.t, want, w.counts().but("limit/max_queued_messages"))
	w.logged("DEBUG response.dropped")
	require.NoError(w.t, p.s.Abandoned())
	for _, line := range []string{"WARN session.peer_lost", "ERROR handler.error", "ERROR handler.panic"} {
		require.Zero(w.t, w.times(line), line)
	}
	p.s.Close(mcp.CauseSessionDelete) // again: nothing
	w.settle()
	require.Equal(w.t, 1, w.times("INFO session.closed"))
}

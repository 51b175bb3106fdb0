package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The cells of requests of ours that wait for the end of the client's handshake.

const initializedFrame = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// shake opens a byte stream whose client has not finished the handshake.
func (w *world) shake() *peer {
	p := w.connect(false)
	p.s.Initialize(&Peer{Version: mcp.Version20251125})
	return p
}

// early returns a handler that waits for the end of the handshake to ask.
func (w *world) early() (*asker, *peer, *held) {
	w.t.Helper()
	return w.earlyOn(w.asker("work", false))
}

func (w *world) earlyOn(a *asker) (*asker, *peer, *held) {
	w.t.Helper()
	p := w.shake()
	p.call("7", "work")
	h := a.blocked()
	require.Empty(w.t, p.frames())
	w.waits(p.s, 1)
	return a, p, h
}

// waits checks how many requests of ours wait for the end of the handshake, and for an
// answer.
func (w *world) waits(s *Session, n int) {
	w.t.Helper()
	var early, outbound int
	s.update(func(st *state) { early, outbound = len(st.early), len(st.outbound) })
	require.Equal(w.t, n, early)
	require.Equal(w.t, n, outbound)
}

// lateHandshake checks that the end of the handshake sends nothing that nobody waits for.
func (w *world) lateHandshake(p *peer) {
	w.t.Helper()
	w.waits(p.s, 0)
	sent := p.frames()
	p.send(initializedFrame)
	require.Equal(w.t, sent, p.frames())
}

var earlyE1 = []faultCell{{state: "B/early", test: func(w *world) {
	a, p, h := w.early()
	p.cancel("7", "")
	require.ErrorIs(w.t, a.answer().err, mcp.ErrClientCancelled)
	require.Equal(w.t, "client_cancel", h.cause())
	require.Empty(w.t, p.frames(), "no courtesy cancel")
	require.Equal(w.t, clientCancelled, w.counts())
	w.lateHandshake(p)
}}}

var earlyE4 = []faultCell{{state: "B/early", test: func(w *world) {
	a, p, h := w.early()
	p.eof()
	require.ErrorIs(w.t, a.answer().err, mcp.ErrTransportClosed)
	require.Empty(w.t, h.cause())
	a.next().finish("without roots")
	require.Equal(w.t, []string{resultFrame("7", "without roots")}, p.frames())
	w.waits(p.s, 0)
}}}

var earlyE6 = []faultCell{{state: "B/early", test: func(w *world) {
	a, p, h := w.early()
	p.s.Close(mcp.CauseServerShutdown)
	require.ErrorIs(w.t, a.answer().err, mcp.ErrServerShutdown)
	require.Equal(w.t, "server_shutdown", h.cause())
	require.Empty(w.t, p.frames())
	w.waits(p.s, 0)
}}}

var earlyE7 = []faultCell{{state: "B/early", test: func(w *world) {
	a := w.asker("work", false)
	open := func(id string) (*Session, *exchange) {
		s, _, err := w.core.Open(httpConn, id)
		require.Nil(w.t, err)
		s.Initialize(&Peer{Version: mcp.Version20251125})
		x := w.post(s, callFrame("7", "work"))
		h := a.blocked()
		x.vanish()
		require.Empty(w.t, h.cause())
		require.Empty(w.t, a.answers, "there may be a stream when the handshake is over")
		return s, x
	}
	s, x := open("with a stream")
	own, ok := w.get(s)
	require.True(w.t, ok)
	require.Empty(w.t, own.frames())
	w.tell(s, initializedFrame)
	require.Equal(w.t, []string{askFrame("1")}, own.frames())
	w.tell(s, replyFrame("1", `{"roots":[]}`))
	require.NoError(w.t, a.answer().err)
	a.next().finish("done")
	require.Empty(w.t, x.frames())

	s, _ = open("without one")
	w.tell(s, initializedFrame)
	require.ErrorIs(w.t, a.answer().err, mcp.ErrPeerGone)
	a.next().finish("done")
	w.waits(s, 0)
}}}

var earlyE9 = []faultCell{{state: "B/early", test: func(w *world) {
	a := w.asker("work", false)
	s, _, err := w.core.Open(httpConn, "session-1")
	require.Nil(w.t, err)
	s.Initialize(&Peer{Version: mcp.Version20251125})
	x := w.post(s, callFrame("1", "work"))
	h := a.blocked()
	s.Close(mcp.CauseSessionDelete)
	w.deleted(x)
	require.Equal(w.t, "session_delete", h.cause())
	require.ErrorIs(w.t, a.answer().err, mcp.ErrSessionDeleted)
	w.waits(s, 0)
}}}

var earlyE12 = []faultCell{{state: "B/early", test: func(w *world) {
	a := w.asker("work", false)
	w.fiveSeconds("work")
	_, p, h := w.earlyOn(a)
	time.Sleep(5 * time.Second)
	require.ErrorIs(w.t, a.answer().err, mcp.ErrDeadline)
	require.Equal(w.t, "deadline", h.cause())
	require.Len(w.t, p.frames(), 1)
	hasError(w.t, p.frames()[0], "7", mcp.CodeInternalError, "deadline")
	w.loggedWith("WARN outbound.uninitialized", "method=")
	w.lateHandshake(p)
}}}

// What has waited is sent in its order when the handshake is over, and pings do not wait.
func TestEarlyRequests(t *testing.T) {
	inWorld(t, limits.Limits{MaxOutbound: 3}, func(w *world) {
		a, p, _ := w.early()
		p.call("8", "work")
		a.blocked()
		w.waits(p.s, 2)
		require.Equal(w.t, 2, w.times("DEBUG outbound.early"))

		pinged := make(chan error, 1)
		go func() {
			_, err := p.s.Ask(context.Background(), mcp.MethodPing, nil)
			pinged <- err
		}()
		ping := `{"jsonrpc":"2.0","id":3,"method":"ping"}`
		require.Equal(w.t, []string{ping}, p.frames())
		p.call("9", "work") // what waits counts
		require.ErrorContains(w.t, a.answer().err, limits.NameOutbound)
		<-a.asking
		a.next().finish("without")
		require.Equal(w.t, []string{ping, resultFrame("9", "without")}, p.frames())
		p.send(replyFrame("3", `{}`))
		require.NoError(w.t, <-pinged)

		p.send(initializedFrame)
		require.Equal(w.t, []string{ping, resultFrame("9", "without"), askFrame("1"), askFrame("2")}, p.frames())
		for _, id := range []string{"2", "1"} {
			p.send(replyFrame(id, `{}`))
			require.NoError(w.t, a.answer().err)
			a.next().finish("with")
		}
		w.waits(p.s, 0)
	})
}

// What the session asks by itself waits as well, and then for a stream.
func TestEarlyRequestOfTheSession(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		s, _, err := w.core.Open(httpConn, "session-1")
		require.Nil(w.t, err)
		s.Initialize(&Peer{Version: mcp.Version20251125})
		own, ok := w.get(s)
		require.True(w.t, ok)
		answered := w.ask(s, context.Background())
		require.Empty(w.t, own.frames())
		w.tell(s, initializedFrame)
		require.Equal(w.t, []string{askFrame("1")}, own.frames())
		w.tell(s, replyFrame("1", `{}`))
		require.NoError(w.t, (<-answered).err)

		gone, cancel := context.WithCancelCause(context.Background())
		s2, _, err := w.core.Open(httpConn, "session-2")
		require.Nil(w.t, err)
		s2.Initialize(&Peer{Version: mcp.Version20251125})
		answered = w.ask(s2, gone)
		cancel(mcp.ErrServerShutdown)
		require.ErrorIs(w.t, (<-answered).err, mcp.ErrServerShutdown)
		w.waits(s2, 0)
	})
}

// A wait that ends while the handshake does: the client is asked once or not at all, and
// somebody who was not asked is not told that nobody waits any more.
func TestEarlyRequestMeetsTheHandshake(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, limits.Limits{})
			t.Cleanup(w.end)
			a, p, _ := w.early()
			go p.cancel("7", "")
			go p.send(initializedFrame)
			require.ErrorIs(t, a.answer().err, mcp.ErrClientCancelled)
			frames := p.frames()
			if len(frames) > 0 {
				require.Equal(t, []string{askFrame("1"), unaskFrame("1")}, frames)
			}
			w.waits(p.s, 0)
		})
	}
}

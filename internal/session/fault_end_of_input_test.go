package session

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// E4: the peer has closed its sending side (stdin EOF). Handlers have the
// end-of-file grace of 1 s, then the clean-up grace of 500 ms.
var cellsE4 = []faultCell{
	{state: "Q", limits: oneSlot, test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		first := g.next()
		p.call("2", "work")
		w.settle()
		p.call("3", "work")
		w.settle()
		p.eof()
		w.settle()
		time.Sleep(500 * time.Millisecond)
		first.finish("one")
		second := g.next() // a slot is free within the grace
		time.Sleep(499 * time.Millisecond)
		w.settle()
		require.Empty(w.t, second.cause())
		time.Sleep(time.Millisecond)
		g.empty() // the third is never called
		require.Equal(w.t, "transport_close", second.cause())
		frames := p.frames()
		require.Len(w.t, frames, 3)
		require.Equal(w.t, resultFrame("1", "one"), frames[0])
		hasError(w.t, frames[1], "3", mcp.CodeInternalError, "transport_close")
		require.Contains(w.t, frames[1], `"phase":"queued"`)
		hasError(w.t, frames[2], "2", mcp.CodeInternalError, "transport_close")
		require.Equal(w.t, counts{"admitted": 3, "sent": 3, "cancelled/transport_close": 2}, w.counts())
		closedInOrder(w, p)
		require.Zero(w.t, w.times("ERROR handler.error"), "giving up when told to is no fault")
	}},
	{state: "M", test: func(w *world) {
		g := w.gate("work", false)
		seen := w.layers("work")
		p := w.connect(true)
		p.call("1", "work")
		first := g.next()
		p.call("2", "work")
		second := g.next()
		p.eof()
		w.settle()
		first.finish("one")
		require.Equal(w.t, []string{resultFrame("1", "one")}, p.frames())
		require.Equal(w.t, []string{"inner:", "outer:"}, seen.get())
		time.Sleep(time.Second)
		w.settle()
		require.Equal(w.t, "transport_close", second.cause())
		require.Equal(w.t, []string{"inner:transport_close", "outer:transport_close"}, seen.get()[2:])
		require.Equal(w.t, []string{resultFrame("1", "one"), resultFrame("2", "mended")}, p.frames())
		require.Equal(w.t, counts{"admitted": 2, "sent": 2, "cancelled/transport_close": 1}, w.counts())
		closedInOrder(w, p)
	}},
	{state: "R", test: func(w *world) {
		g, polite, p := w.gate("work", true), w.gate("polite", false), w.connect(true)
		var h []*held
		for _, id := range []string{"1", "2", "3"} {
			p.call(id, "work")
			h = append(h, g.next())
		}
		p.call("4", "polite")
		fourth := polite.next()
		begin := time.Now()
		p.eof()
		w.settle()
		p.call("5", "polite") // admission is closed
		polite.empty()
		time.Sleep(999 * time.Millisecond)
		w.settle()
		h[0].finish("in the grace")
		for _, h := range append(h, fourth) {
			w.settle()
			require.NotEqual(w.t, "transport_close", h.cause())
		}
		time.Sleep(time.Millisecond)
		w.settle()
		for _, h := range []*held{h[1], h[2], fourth} {
			require.Equal(w.t, "transport_close", h.cause())
			require.ErrorIs(w.t, context.Cause(h.ctx), mcp.ErrTransportClosed)
			require.ErrorIs(w.t, h.ctx.Err(), context.Canceled)
		}
		time.Sleep(499 * time.Millisecond)
		w.settle()
		h[1].finish("in the clean-up")
		w.settle()
		require.Zero(w.t, w.times("WARN handlers.abandoned"))
		<-p.s.Done()
		require.Equal(w.t, 1500*time.Millisecond, time.Since(begin))
		frames := p.frames()
		require.Len(w.t, frames, 5)
		hasError(w.t, frames[0], "5", mcp.CodeInternalError, "shutting_down")
		require.Equal(w.t, resultFrame("1", "in the grace"), frames[1])
		hasError(w.t, frames[2], "4", mcp.CodeInternalError, "transport_close")
		require.Equal(w.t, resultFrame("2", "in the clean-up"), frames[3])
		hasError(w.t, frames[4], "3", mcp.CodeInternalError, "transport_close")
		require.Equal(w.t, counts{
			"admitted": 4, "sent": 4, "rejected/shutting_down": 1, "cancelled/transport_close": 3,
			"abandoned/transport_close": 1,
		}, w.counts())
		require.Equal(w.t, 1, w.times("INFO session.eof"))
		w.loggedWith("WARN handlers.abandoned", "method=tools/call", "id=3", "age=", "cause=transport_close")
		require.ErrorIs(w.t, p.s.Abandoned(), ErrAbandoned)
		require.ErrorContains(w.t, p.s.Abandoned(), "id 3")

		h[2].finish("late")
		require.Len(w.t, p.frames(), 5, "a late result is discarded")
	}},
	{state: "B", test: func(w *world) {
		a, p := w.asker("work", false), w.connect(true)
		p.call("1", "work")
		p.call("2", "work")
		w.settle()
		p.eof()
		for range 2 {
			require.ErrorIs(w.t, a.answer().err, mcp.ErrTransportClosed)
		}
		w.logged("DEBUG outbound.failed")
		first, second := a.next(), a.next()
		require.Empty(w.t, first.cause())
		require.Empty(w.t, second.cause())
		require.Empty(w.t, w.core.Snapshot().Outbound)
		first.finish("without roots")
		second.fail(mcp.NewError(mcp.CodeInternalError, "no roots"))
		frames := p.frames()
		require.Len(w.t, frames, 4, "two questions, two answers, no courtesy")
		require.Contains(w.t, frames, resultFrame(first.r.ID.String(), "without roots"))
		require.Equal(w.t, counts{"admitted": 2, "sent": 2}, w.counts())
		closedInOrder(w, p)
	}},
	{state: "P", limits: small, test: func(w *world) {
		n, free := w.sender("work", 3), make(chan struct{})
		p := w.connect(true)
		p.sink.on(blockUntil(free))
		p.call("1", "work")
		h := n.blocked(3)
		p.eof()
		w.settle()
		time.Sleep(500 * time.Millisecond)
		require.Empty(w.t, h.cause())
		close(free)
		require.NoError(w.t, n.result())
		n.next().finish("done")
		require.Equal(w.t, []string{noteFrame(1), noteFrame(2), noteFrame(3), resultFrame("1", "done")}, p.frames())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts().but("limit/max_queued_messages"))
		closedInOrder(w, p)
	}},
	{state: "S", test: func(w *world) {
		at := w.stopAt(pointAfterSettle, "work")
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		g.next().finish("done")
		at.await()
		p.eof()
		w.settle()
		time.Sleep(1200 * time.Millisecond) // the grace is over
		require.Empty(w.t, p.frames())
		at.release()
		require.Equal(w.t, []string{resultFrame("1", "done")}, p.frames())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts())
		closedInOrder(w, p)
	}},
	{state: "W", test: func(w *world) {
		g, p, free := w.gate("work", false), w.connect(true), make(chan struct{})
		p.sink.onFlush(blockUntil(free))
		p.call("1", "work")
		g.next().finish("done")
		w.settle()
		p.eof()
		w.settle()
		time.Sleep(1200 * time.Millisecond)
		w.settle()
		close(free)
		require.Equal(w.t, []string{resultFrame("1", "done")}, p.frames())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts())
		closedInOrder(w, p)
	}},
	{state: "W/wedged", test: func(w *world) {
		// A peer that has stopped to read as well does not keep the process.
		g, p := w.gate("work", false), w.connect(true)
		p.sink.on(blockUntil(nil))
		p.call("1", "work")
		g.next().finish("done")
		w.settle()
		begin := time.Now()
		p.s.EOF()
		require.Less(w.t, time.Since(begin), 2*time.Second)
		require.Equal(w.t, counts{"admitted": 1, "dropped/write_timeout": 1, "limit/write_timeout": 1}, w.counts())
		require.Empty(w.t, p.frames())
	}},
	{state: "W/no-deadlines", test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		free := make(chan struct{})
		p.sink.on(func(*scriptSink) error {
			<-free // whatever the deadline
			return &stream.WriteError{Reason: mcp.DropClosedWriter, Err: io.ErrClosedPipe}
		})
		p.call("1", "work")
		g.next().finish("done")
		w.settle()
		begin := time.Now()
		p.s.EOF()
		require.Less(w.t, time.Since(begin), w.core.limits.EOFGrace+2*w.core.limits.CleanupGrace)
		close(free) // the transport closes the pipe when the session is done
		w.settle()
		require.Equal(w.t, counts{"admitted": 1, "dropped/closed_writer": 1}, w.counts())
	}},
	{state: "stdout-gone", test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.eof()
		w.settle()
		p.lose()
		w.settle()
		require.Equal(w.t, "transport_error", h.cause(), "no grace")
		require.True(w.t, p.closed())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/broken_peer": 1, "cancelled/transport_error": 1, "notification/broken_peer": 1,
		}, w.counts())
	}},
	{state: "partial-line", test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work") // a whole message without its newline is a message
		_, bad := inbound(p.s.conn, `{"jsonrpc":"2.0","id":2,"meth`)
		p.s.MalformedTail(bad)
		p.eof()
		g.next().finish("done")
		require.Equal(w.t, []string{resultFrame("1", "done")}, p.frames(), "no reply to the rest")
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "rejected/parse_error": 1}, w.counts())
		w.loggedWith("INFO frame.malformed", "reason=parse_error")
		closedInOrder(w, p)
	}},
}

// closedInOrder checks the end of a session after EOF: nobody is left behind.
func closedInOrder(w *world, p *peer) {
	w.t.Helper()
	require.True(w.t, p.closed())
	require.NoError(w.t, p.s.Abandoned())
	require.Equal(w.t, 1, w.times("INFO session.eof"))
	require.Equal(w.t, 1, w.times("INFO session.closed"))
	require.Zero(w.t, w.times("WARN session.peer_lost"))
	require.Zero(w.t, w.times("WARN handlers.abandoned"))
}

// closed reports whether the session's teardown is over.
func (p *peer) closed() bool {
	p.w.settle()
	select {
	case <-p.s.Done():
		return true
	default:
		return false
	}
}

var errReset = errors.New("connection reset by peer")

// lose breaks the connection with the next write, and writes.
func (p *peer) lose() {
	p.sink.on(failWith(mcp.DropBrokenPeer, errReset))
	p.notice()
}

package session

import (
	"context"
	"os"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// E11: the server shuts down, with a deadline for the drain. Phase 0, in which the
// server says that it is not ready and still admits, is package service's.
var cellsE11 = []faultCell{
	{state: "Q", limits: oneSlot, test: func(w *world) {
		running, queued := w.gate("work", false), w.gate("late", false)
		p := w.connect(true)
		p.call("1", "work")
		h := running.next()
		p.call("2", "late")
		_, done := w.shutdown()
		queued.empty()
		require.Len(w.t, p.frames(), 1, "at once")
		hasError(w.t, p.frames()[0], "2", mcp.CodeInternalError, "shutting_down")
		require.Contains(w.t, p.frames()[0], `"phase":"queued"`)
		w.loggedWith("INFO request.refused", "id=2", "reason=shutting_down")
		require.Empty(w.t, h.cause())
		h.finish("done")
		require.NoError(w.t, <-done)
		require.Equal(w.t, resultFrame("1", "done"), p.frames()[1])
		require.Equal(w.t, counts{"admitted": 2, "sent": 2, "cancelled/server_shutdown": 1}, w.counts())
	}},
	{state: "M", test: func(w *world) {
		g := w.gate("work", false)
		seen := w.layers("work")
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		deadline, done := w.shutdown()
		require.Empty(w.t, h.cause())
		deadline()
		require.NoError(w.t, <-done)
		require.Equal(w.t, []string{"inner:server_shutdown", "outer:server_shutdown"}, seen.get())
		require.Equal(w.t, []string{resultFrame("1", "mended")}, p.frames(), "the grace is long enough to answer")
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "cancelled/server_shutdown": 1}, w.counts())
	}},
	{state: "M/unstarted", test: func(w *world) {
		// It has its slots, and its handler is about to be called: it runs like the others.
		g, begun := w.gate("work", false), w.stopAt(pointAdmitted, "work")
		posted := make(chan *exchange, 1)
		go func() { posted <- w.post(nil, modernFrame("1", "work")) }()
		begun.await()
		_, done := w.shutdown()
		begun.release()
		h := g.next()
		require.Empty(w.t, h.cause())
		h.finish("done")
		require.NoError(w.t, <-done)
		require.Equal(w.t, []string{resultFrame("1", "done")}, (<-posted).frames())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts())
	}},
	{state: "R", test: func(w *world) {
		quick, polite, deaf := w.gate("quick", false), w.gate("polite", false), w.gate("deaf", true)
		p := w.connect(true)
		p.call("1", "quick")
		p.call("2", "polite")
		p.call("3", "deaf")
		hs := []*held{quick.next(), polite.next(), deaf.next()}
		deadline, done := w.shutdown()
		time.Sleep(2500 * time.Millisecond)
		require.Equal(w.t, 2, w.times("INFO drain.progress"), "each second")
		w.loggedWith("INFO drain.progress", "left=3", "oldest=2s")
		for _, h := range hs {
			require.Empty(w.t, h.cause())
		}
		hs[0].finish("done")
		require.Equal(w.t, []string{resultFrame("1", "done")}, p.frames())

		deadline()
		require.Len(w.t, p.frames(), 2)
		hasError(w.t, p.frames()[1], "2", mcp.CodeInternalError, "server_shutdown")
		w.loggedWith("WARN drain.deadline", "left=2")
		w.loggedWith("WARN drain.left", "id=2", "target=polite", "age=2.5s", "state=running")
		w.loggedWith("WARN drain.left", "id=3", "target=deaf")
		require.Equal(w.t, 2, w.times("WARN drain.left"))
		for _, h := range hs[1:] {
			require.Equal(w.t, "server_shutdown", h.cause())
			require.ErrorIs(w.t, context.Cause(h.ctx), mcp.ErrServerShutdown)
		}
		time.Sleep(w.core.limits.CleanupGrace - time.Nanosecond)
		require.Len(w.t, p.frames(), 2)
		time.Sleep(time.Nanosecond)
		err := <-done
		require.ErrorIs(w.t, err, ErrAbandoned)
		require.ErrorContains(w.t, err, "tools/call deaf (id 3, 3s)")
		require.Len(w.t, p.frames(), 3)
		hasError(w.t, p.frames()[2], "3", mcp.CodeInternalError, "server_shutdown")
		w.loggedWith("WARN handlers.abandoned", "id=3", "cause=server_shutdown")
		w.loggedWith("INFO session.closed", "cause=server_shutdown")
		hs[2].finish("late")
		require.Len(w.t, p.frames(), 3)
		require.Equal(w.t, counts{
			"admitted": 3, "sent": 3, "cancelled/server_shutdown": 2, "abandoned/server_shutdown": 1,
		}, w.counts())
	}},
	{state: "B", test: func(w *world) {
		a := w.asker("work", false)
		p := w.connect(true)
		p.call("1", "work")
		a.blocked()
		p.call("2", "work")
		h := a.blocked()
		deadline, done := w.shutdown()
		time.Sleep(time.Second)
		p.send(replyFrame("1", `{"roots":[]}`)) // the client lives and may answer
		require.NoError(w.t, a.answer().err)
		a.next().finish("done")
		require.Equal(w.t, []string{askFrame("1"), askFrame("2"), resultFrame("1", "done")}, p.frames())

		deadline()
		require.NoError(w.t, <-done)
		require.ErrorIs(w.t, a.answer().err, mcp.ErrServerShutdown)
		require.Equal(w.t, "server_shutdown", h.cause())
		require.Len(w.t, p.frames(), 5)
		require.Equal(w.t, unaskFrame("2"), p.frames()[3])
		hasError(w.t, p.frames()[4], "2", mcp.CodeInternalError, "server_shutdown")
		require.Equal(w.t, counts{"admitted": 2, "sent": 2, "cancelled/server_shutdown": 1}, w.counts())
	}},
	{state: "P", limits: small, test: func(w *world) {
		k := w.stepper("work")
		p := w.connect(true)
		p.call("1", "work")
		w.settle()
		deadline, done := w.shutdown()
		unblock := k.fill(p.sink) // notifications go on during the drain
		require.Empty(w.t, k.cause())
		deadline()
		require.ErrorIs(w.t, k.results()[2], mcp.ErrServerShutdown)
		require.Equal(w.t, "server_shutdown", k.cause())
		unblock()
		require.NoError(w.t, <-done)
		require.Len(w.t, p.frames(), 3)
		require.Equal(w.t, []string{noteFrame(1), noteFrame(2)}, p.frames()[:2])
		hasError(w.t, p.frames()[2], "1", mcp.CodeInternalError, "server_shutdown")
		require.Equal(w.t, counts{
			"admitted": 1, "sent": 1, "cancelled/server_shutdown": 1,
			"notification/closed_writer": 1, "limit/max_queued_messages": 1,
		}, w.counts())
	}},
	{state: "S", test: func(w *world) {
		g := w.gate("work", false)
		at := w.stopAt(pointAfterSettle, "work")
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		x := w.post(nil, modernFrame("1", "work"))
		g.next().finish("modern")
		h.finish("done")
		at.await()
		deadline, done := w.shutdown()
		deadline()
		time.Sleep(w.core.limits.CleanupGrace) // the writers are not closed while an answer is on its way
		require.Empty(w.t, p.frames())
		at.release()
		require.NoError(w.t, <-done)
		require.Equal(w.t, []string{resultFrame("1", "done")}, p.frames())
		require.Equal(w.t, []string{resultFrame("1", "modern")}, x.frames())
		require.Empty(w.t, h.cause())
		require.Equal(w.t, uint64(2), w.counts()["sent"])
	}},
	{state: "W", test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		flushed := make(chan struct{})
		p.sink.onFlush(blockUntil(flushed))
		p.call("1", "work")
		g.next().finish("done")
		x, old := w.post(nil, modernFrame("1", "work")), w.post(w.open("session-1"), callFrame("1", "work"))
		for _, wedged := range []*exchange{x, old} {
			wedged.sink.onFlush(blockUntil(nil)) // never reads
		}
		g.next().finish("unread")
		g.next().finish("unread")
		w.settle()
		began := time.Now()
		deadline, done := w.shutdown()
		time.Sleep(5 * time.Second)
		deadline()
		time.Sleep(w.core.limits.CleanupGrace)
		close(flushed)
		require.NoError(w.t, <-done)
		require.Less(w.t, time.Since(began), 5*time.Second+2*w.core.limits.CleanupGrace, "bounded, and not by the write time-out")
		require.Equal(w.t, []string{resultFrame("1", "done")}, p.frames())
		for _, wedged := range []*exchange{x, old} {
			require.True(w.t, wedged.ended())
			require.Empty(w.t, wedged.frames())
		}
		require.Equal(w.t, counts{"admitted": 3, "sent": 1, "dropped/write_timeout": 2, "limit/write_timeout": 2}, w.counts())
	}},
	{state: "late", test: func(w *world) {
		g := w.gate("work", false)
		p, s := w.connect(true), w.open("session-1")
		listening, _ := w.get(s)
		p.call("1", "work")
		h := g.next()
		_, done := w.shutdown()
		require.True(w.t, listening.ended(), "the GET stream is ended first")
		require.NoError(w.t, listening.err)

		before := w.counts()
		p.call("2", "work")
		x, y := w.post(s, callFrame("2", "work")), w.post(nil, modernFrame("2", "work"))
		g.empty()
		for _, frames := range [][]string{p.frames(), x.frames(), y.frames()} {
			require.Len(w.t, frames, 1)
			hasError(w.t, frames[0], "2", mcp.CodeInternalError, "shutting_down")
		}
		require.True(w.t, x.ended() && y.ended())
		require.Equal(w.t, counts{"rejected/shutting_down": 3}, w.counts().since(before))
		require.Equal(w.t, 3, w.times("INFO request.rejected"))
		h.finish("done")
		require.NoError(w.t, <-done)

		p.call("3", "work") // the stream is closed: no answer, no hang
		require.Len(w.t, p.frames(), 2)
		require.Equal(w.t, counts{"rejected/shutting_down": 4, "sent": 1}, w.counts().since(before))
	}},
	{state: "late-stream", test: func(w *world) {
		g, s := w.gate("work", false), w.open("session-1")
		own, _ := w.get(s)
		w.post(s, callFrame("1", "work"))
		h := g.next()
		_, done := w.shutdown()
		require.True(w.t, own.ended())
		_, ok := w.get(s)
		require.False(w.t, ok, "the transport answers 503")
		s.Detach(own.stream)
		_, ok = w.get(s)
		require.False(w.t, ok, "also when there is none any more")
		h.finish("done")
		require.NoError(w.t, <-done)
	}},
	{state: "isolation", test: func(w *world) {
		g := w.gate("work", true)
		sound, wedged := w.connect(true), w.connect(true)
		sound.call("1", "work")
		h := g.next() // ignores its context, so that the request outlives its answer
		wedged.sink.on(func(*scriptSink) error {
			<-wedged.s.Done() // not even the deadline ends this write
			return &stream.WriteError{Reason: mcp.DropClosedWriter, Err: os.ErrClosed}
		})
		wedged.call("1", "work")
		g.next().finish("unread")
		w.settle()
		deadline, done := w.shutdown()
		deadline()
		require.ErrorIs(w.t, <-done, ErrAbandoned)
		h.finish("late")
		require.Equal(w.t, mcp.DropWriteTimeout, wedged.s.stream.Reason())
		require.Equal(w.t, mcp.DropClosedWriter, sound.s.stream.Reason(), "the wedged one has not cost it its stream")
		require.Zero(w.t, w.times("WARN session.peer_lost"))
	}},
	{state: "keep-alive", test: func(w *world) {
		g := w.gate("work", false)
		st := w.core.Exchange(httpConn, 1, mcp.Modern)
		k := &wedgedKeepAlive{writing: make(chan struct{})}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = st.Pump(k)
		}()
		in, _ := inbound(httpConn, modernFrame("1", "work"))
		w.core.Receive(in, st)
		g.next()
		<-k.writing
		began := time.Now()
		deadline, done := w.shutdown()
		deadline()
		require.NoError(w.t, <-done)
		<-ended
		require.Less(w.t, time.Since(began), 2*w.core.limits.CleanupGrace)
	}},
	{state: "second-signal", test: func(w *world) {
		g := w.gate("work", true)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		began := time.Now()
		_, done := w.shutdown()
		time.Sleep(time.Second)
		w.core.Close()
		w.core.Close()
		err := <-done
		require.ErrorIs(w.t, err, ErrAbandoned)
		require.ErrorContains(w.t, err, "handlers were abandoned: 1")
		require.Equal(w.t, time.Second+100*time.Millisecond, time.Since(began), "a fifth of the clean-up grace")
		require.Equal(w.t, "server_shutdown", h.cause())
		require.Len(w.t, p.frames(), 1)
		hasError(w.t, p.frames()[0], "1", mcp.CodeInternalError, "server_shutdown")
		require.ErrorIs(w.t, w.core.Shutdown(context.Background()), ErrAbandoned, "every caller learns of it")
		require.Equal(w.t, counts{
			"admitted": 1, "sent": 1, "cancelled/server_shutdown": 1, "abandoned/server_shutdown": 1,
		}, w.counts())
		h.finish("late")
	}},
	{state: "new-session", test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		_, done := w.shutdown()
		_, reason, err := w.core.Open(httpConn, "session-1")
		require.Equal(w.t, mcp.RejectShuttingDown, reason)
		require.Equal(w.t, mcp.CodeInternalError, err.Code)
		require.Equal(w.t, mcp.ErrorData{Reason: "shutting_down"}, err.Data)
		require.Nil(w.t, w.core.Session("session-1", nil))

		late := w.connect(false) // a new byte stream is closed at once
		<-late.s.Done()
		late.send(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
		require.Empty(w.t, late.frames())
		require.Empty(w.t, h.cause())
		require.Equal(w.t, counts{"admitted": 1, "rejected/shutting_down": 1}, w.counts())
		h.finish("done")
		require.NoError(w.t, <-done)
	}},
}

// wedgedKeepAlive is a sink whose keep-alive hangs until its deadline.
type wedgedKeepAlive struct {
	scriptSink
	writing chan struct{}
}

func (k *wedgedKeepAlive) KeepAlive() error {
	close(k.writing)
	return blockUntil(nil)(&k.scriptSink)
}

package session

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// With an event store: the session's own stream, and the end of a session.

func ownFrame(name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/%s"}`, name)
}

// announce sends a notification of the session's own.
func (w *world) announce(s *Session, name string) {
	w.t.Helper()
	require.NoError(w.t, s.Notify(w.t.Context(), "notifications/"+name, nil, ""))
}

var storedE8 = []faultCell{
	{state: "no-state/stored", limits: limits.Limits{SessionIdle: time.Minute}, test: func(w *world) {
		store := w.remember()
		s := w.open("session")
		own, _ := w.get(s)
		require.Equal(w.t, told(1, 1, mark), own.events(), "an id from the beginning")
		w.announce(s, "a")
		w.settle()
		free := make(chan struct{})
		own.sink.on(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
		w.announce(s, "b") // is being written
		w.settle()
		w.announce(s, "c") // waits behind it
		own.leave()
		w.hangUp(s, own)
		w.announce(s, "d")
		w.settle()
		require.Empty(w.t, w.counts(), "nothing is dropped")
		require.False(w.t, w.core.Snapshot().Sessions[0].Streaming)

		again := w.resume(s, own.last())
		require.True(w.t, w.core.Snapshot().Sessions[0].Streaming)
		require.Equal(w.t, told(1, 2, mark, ownFrame("b"), ownFrame("c"), ownFrame("d"))[1:], again.events()[1:])
		w.announce(s, "e")
		require.Equal(w.t, told(1, 6, ownFrame("e")), again.events()[4:])
		require.False(w.t, again.ended())
		time.Sleep(2 * time.Minute)
		require.NotNil(w.t, w.core.Session("session", nil), "somebody listens")
		again.vanish()

		// Nobody listens: what is stored does not keep the session, nor it what is stored.
		w.announce(s, "f")
		time.Sleep(time.Minute - 1)
		w.settle()
		require.NotNil(w.t, w.core.Session("session", nil))
		time.Sleep(time.Nanosecond)
		w.settle()
		require.Nil(w.t, w.core.Session("session", nil))
		require.True(w.t, store.empty())
	}},
	{state: "no-state/older", test: func(w *world) {
		w.remember()
		s := w.openAs("session", mcp.Version20250618)
		own, _ := w.get(s)
		require.Empty(w.t, own.events())
		own.vanish() // the client has no id to come back with
		w.hangUp(s, own)
		require.ErrorIs(w.t, s.Notify(w.t.Context(), "notifications/a", nil, ""), mcp.ErrPeerGone)
		own, _ = w.get(s)
		w.announce(s, "b")
		require.Equal(w.t, told(1, 1, ownFrame("b")), own.events())
		own.vanish()
		w.hangUp(s, own)
		w.announce(s, "c")
		require.Equal(w.t, told(1, 2, ownFrame("c")), w.resume(s, own.last()).events())
		require.Equal(w.t, counts{"notification/stream_gone": 1}, w.counts())
	}},
	{state: "B/stored", test: func(w *world) {
		w.remember()
		s := w.open("session")
		own, _ := w.get(s)
		own.vanish()
		w.hangUp(s, own)
		for i, resumed := range []bool{true, false} { // whichever stream the client opens
			n := fmt.Sprint(i + 1)
			got := w.ask(s, w.t.Context())
			w.settle()
			require.Empty(w.t, got)
			var next *exchange
			if resumed {
				again := w.resume(s, own.last())
				next = again.exchange
				require.Equal(w.t, askFrame(n), next.frames()[0])
				again.vanish()
			} else {
				next, _ = w.get(s)
				require.Equal(w.t, askFrame(n), next.frames()[0])
			}
			w.tell(s, replyFrame(n, `{}`))
			require.NoError(w.t, (<-got).err)
		}
		require.Empty(w.t, w.counts())
	}},
	{state: "B/behind-stored", test: func(w *world) {
		w.remember()
		s := w.open("session")
		own, _ := w.get(s)
		w.settle()
		free := make(chan struct{})
		own.sink.on(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
		w.announce(s, "a")
		w.settle()
		got := w.ask(s, w.t.Context()) // behind what is being written
		w.settle()
		own.leave()
		w.hangUp(s, own)
		require.Empty(w.t, got)
		next, _ := w.get(s)
		require.Equal(w.t, []string{askFrame("1")}, next.frames())
		w.tell(s, replyFrame("1", `{}`))
		require.NoError(w.t, (<-got).err)
		require.Equal(w.t, told(1, 2, ownFrame("a")), w.resumed(s, own.last())[1:])
	}},
	{state: "B/written-stored", test: func(w *world) {
		w.remember()
		s := w.open("session")
		own, _ := w.get(s)
		w.settle()
		own.sink.onFlush(failWith(mcp.DropBrokenPeer, errReset))
		got := w.ask(s, w.t.Context())
		w.hangUp(s, own)
		require.Empty(w.t, got, "if it did not arrive, it can be fetched")
		again := w.resume(s, own.last())
		require.Equal(w.t, []string{askFrame("1")}, again.frames())
		w.tell(s, replyFrame("1", `{}`))
		require.NoError(w.t, (<-got).err)
	}},
	{state: "replace/stored", test: func(w *world) {
		w.remember()
		s := w.open("session")
		old, _ := w.get(s)
		old.vanish()
		w.announce(s, "a")
		own, ok := w.get(s)
		require.True(w.t, ok)
		s.Detach(old.stream) // late
		w.announce(s, "b")
		require.Equal(w.t, told(2, 1, mark, ownFrame("b")), own.events())
		// What was sent on the old one can be fetched; then it is over.
		again := w.resume(s, old.last())
		require.Equal(w.t, told(1, 2, ownFrame("a")), again.events()[1:])
		require.True(w.t, again.ended())
		require.NoError(w.t, again.err)
		w.refused(s, again.last(), resume.ErrEventUnknown)
		w.announce(s, "c")
		require.Equal(w.t, told(2, 3, ownFrame("c")), own.events()[2:])
		require.Empty(w.t, w.counts())
	}},
	{state: "conflict/stored", test: func(w *world) {
		w.remember()
		s := w.open("session")
		own, _ := w.get(s)
		w.refused(s, own.last(), resume.ErrStreamTaken)
		own.vanish()
		w.hangUp(s, own)
		again := w.resume(s, own.last())
		_, ok := w.get(s)
		require.False(w.t, ok, "the transport answers 409")
		w.refused(s, own.last(), resume.ErrStreamTaken)
		again.vanish()
		next, ok := w.get(s)
		require.True(w.t, ok)
		require.False(w.t, next.ended())
	}},
	{state: "store-fails", test: func(w *world) {
		store := w.remember()
		s := w.open("session")
		store.on(resume.OpAppend, func() error { return errStore })
		own, _ := w.get(s)
		w.announce(s, "a")
		require.Equal(w.t, []string{ownFrame("a")}, own.events())
		own.vanish()
		w.hangUp(s, own)
		require.ErrorIs(w.t, s.Notify(w.t.Context(), "notifications/b", nil, ""), mcp.ErrPeerGone)

		own, _ = w.get(s)
		own.vanish()
		w.hangUp(s, own)
		store.on(resume.OpAppend, func() error { return errStore })
		w.announce(s, "c")
		w.settle()
		require.ErrorIs(w.t, s.Notify(w.t.Context(), "notifications/d", nil, ""), mcp.ErrPeerGone)
		w.refused(s, own.last(), resume.ErrEventUnknown)
		own, ok := w.get(s)
		require.True(w.t, ok)
		w.announce(s, "e")
		require.Equal(w.t, ownFrame("e"), own.frames()[0])
		require.Equal(w.t, counts{"notification/stream_gone": 3}, w.counts())
	}},
}

var storedE9 = []faultCell{
	{state: "R/stored", test: func(w *world) {
		store := w.remember()
		g, s, other := w.gate("work", true), w.open("session"), w.open("other")
		h, x := w.streaming(s, g, "1")
		busy, y := w.streaming(other, g, "1")
		x.vanish()
		y.vanish()
		before := w.counts()
		s.Close(mcp.CauseSessionDelete)
		w.settle()
		require.Equal(w.t, "session_delete", h.cause())
		require.ErrorIs(w.t, h.note(2), mcp.ErrRequestDone)
		w.refused(s, x.last(), mcp.ErrClosed)
		h.finish("late")
		w.settle()
		require.Equal(w.t, counts{
			"dropped/session_gone": 1, "cancelled/session_delete": 1, "notification/session_gone": 1,
		}, w.counts().since(before))
		require.Equal(w.t, 1, store.kept(), "the other's are there")
		require.Len(w.t, w.resumed(other, y.last()), 1)
		busy.finish("done")
		w.settle()
		other.Close(mcp.CauseSessionEvicted)
		w.settle()
		require.True(w.t, store.empty())
	}},
	{state: "S/stored", test: func(w *world) {
		// The answer is being stored when the session is deleted: it is gone with it, and
		// nothing is left behind.
		kept := w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		x.vanish()
		free := make(chan struct{})
		kept.on(resume.OpAppend, until(free))
		h.finish("done")
		w.settle()
		s.Close(mcp.CauseSessionDelete)
		w.settle()
		require.False(w.t, kept.empty())
		close(free)
		w.settle()
		time.Sleep(time.Second)
		w.settle()
		require.True(w.t, kept.empty())
		require.Equal(w.t, counts{"admitted": 1, "dropped/session_gone": 1}, w.counts())
	}},
	{state: "replay", test: func(w *world) {
		store := w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		h.finish("one")
		require.True(w.t, x.ended())
		seen := eventPrefix(s, "1") + "1"
		first, second := make(chan struct{}), make(chan struct{})
		ended, err := w.resumeOn((&scriptSink{}).on(blockUntil(first)), s, seen)
		require.NoError(w.t, err)
		_, y := w.streaming(s, g, "2")
		y.vanish()
		live, err := w.resumeOn((&scriptSink{}).on(blockUntil(second)), s, y.last())
		require.NoError(w.t, err)
		w.settle()
		s.Close(mcp.CauseSessionDelete)
		close(first)
		close(second)
		require.True(w.t, ended.ended())
		require.True(w.t, live.ended())
		require.Error(w.t, ended.err)
		require.Error(w.t, live.err)
		require.Empty(w.t, append(ended.frames(), live.frames()...))
		time.Sleep(time.Second)
		w.settle()
		require.True(w.t, store.empty())
	}},
	{state: "store-fails", test: func(w *world) {
		store := w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		x.vanish()
		h.finish("done")
		w.settle()
		store.on(resume.OpDelete, func() error { return errStore })
		s.Close(mcp.CauseSessionDelete)
		<-s.Done()
		w.settle()
		require.Equal(w.t, uint64(1), w.core.Snapshot().Counters.EventFailures["delete"])
		require.Equal(w.t, map[mcp.ExpireReason]uint64{mcp.ExpireSessionEnded: 1}, w.expired())
	}},
}

var storedE10 = []faultCell{
	{state: "idle/stored", limits: limits.Limits{SessionIdle: time.Minute, MaxEvents: 3}, test: func(w *world) {
		store := w.remember()
		g, s := w.gate("work", false), w.open("session")
		var exchanges []*exchange
		for i := range 5 {
			h, x := w.streaming(s, g, "1")
			x.vanish()
			h.finish(fmt.Sprint(i))
			w.settle()
			exchanges = append(exchanges, x)
		}
		require.Equal(w.t, map[mcp.ExpireReason]uint64{mcp.ExpireMaxEvents: 2}, w.expired(), "the store cannot have more than three")
		require.Len(w.t, w.resumed(s, exchanges[4].last()), 2)
		time.Sleep(time.Minute)
		w.settle()
		require.True(w.t, store.empty())
		require.Equal(w.t, map[mcp.ExpireReason]uint64{mcp.ExpireMaxEvents: 2, mcp.ExpireSessionIdle: 2}, w.expired(), "one was fetched")
		require.Equal(w.t, counts{"admitted": 5, "stored": 5}, w.counts().but("limit/max_events"))
		w.loggedWith("WARN response.expired", "reason=max_events", "id=1")
	}},
}

var storedE11 = []faultCell{
	{state: "R/stored", test: func(w *world) {
		store := w.remember()
		g, s := w.gate("work", false), w.open("session")
		one, x := w.streaming(s, g, "1")
		two, y := w.streaming(s, g, "2")
		x.vanish()
		y.vanish()
		deadline, done := w.shutdown()
		one.finish("one")
		w.settle()
		require.Equal(w.t, told(1, 3, resultFrame("1", "one")), w.resume(s, x.last()).events()[1:], "it can be fetched")
		again := w.resume(s, y.last())
		deadline()
		require.NoError(w.t, <-done)
		require.Equal(w.t, "server_shutdown", two.cancelled())
		require.True(w.t, again.ended())
		hasError(w.t, again.frames()[0], "2", mcp.CodeInternalError, "server_shutdown")
		require.Equal(w.t, counts{"admitted": 2, "stored": 1, "sent": 1, "cancelled/server_shutdown": 1}, w.counts())
		require.True(w.t, store.empty())
	}},
	{state: "own/stored", test: func(w *world) {
		store := w.remember()
		s := w.open("session")
		own, _ := w.get(s)
		own.vanish()
		w.hangUp(s, own)
		_, done := w.shutdown()
		w.settle()
		require.NoError(w.t, <-done)
		require.True(w.t, store.empty())
	}},
}

package session

import (
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// E7 again: a client comes back for a stream whose exchange was lost.
var resumedE7 = []faultCell{
	{state: "resume", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		x.vanish()
		require.NoError(w.t, h.note(2))
		require.NoError(w.t, h.note(3))
		again := w.resume(s, x.last())
		require.Equal(w.t, told(1, 2, mark, noteFrame(2), noteFrame(3))[1:], again.events()[1:])
		require.Equal(w.t, "1-2", again.events()[0], "where the client is, should it get nothing else")
		require.NoError(w.t, h.note(4))
		require.Equal(w.t, told(1, 5, noteFrame(4)), again.events()[3:])
		again.vanish()
		require.NoError(w.t, h.note(5))

		// From the beginning, as a client may that has lost more than it knows.
		third := w.resume(s, prefixOf(x.stream)+"1")
		require.Equal(w.t, told(1, 2, noteFrame(1), noteFrame(2), noteFrame(3), noteFrame(4), noteFrame(5)), third.events()[1:])
		h.finish("done")
		require.Equal(w.t, told(1, 7, resultFrame("1", "done")), third.events()[6:])
		require.True(w.t, third.ended())
		require.NoError(w.t, third.err)
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts())
		require.Equal(w.t, 3, w.times("DEBUG stream.lost")+w.times("DEBUG stream.resumed")-1)
		require.EqualValues(w.t, 2, w.core.Snapshot().Counters.StreamsResumed)
	}},
	{state: "resume/ended", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		x.vanish()
		h.finish("stored")
		w.settle()
		for range 2 { // as often as the client wants
			again := w.resume(s, x.last())
			require.Equal(w.t, told(1, 3, resultFrame("1", "stored")), again.events()[1:])
			require.True(w.t, again.ended())
			require.NoError(w.t, again.err)
		}
		// What was sent may not have arrived.
		h, x = w.streaming(s, g, "2")
		seen := x.last()
		h.finish("sent")
		require.True(w.t, x.ended())
		require.Equal(w.t, told(2, 3, resultFrame("2", "sent")), w.resume(s, seen).events()[1:])
		require.Equal(w.t, counts{"admitted": 2, "sent": 1, "stored": 1}, w.counts(), "a replay counts for nothing")
		w.refused(s, x.last(), resume.ErrEventUnknown) // nothing follows, now and ever
	}},
	{state: "resume/older", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.openAs("session", mcp.Version20250326)
		h, x := w.streaming(s, g, "1")
		require.Equal(w.t, told(1, 1, noteFrame(1)), x.events(), "ids, and no events without data")
		require.ErrorIs(w.t, h.r.CloseStream(0), errors.ErrUnsupported)
		x.vanish()
		require.NoError(w.t, h.note(2))
		again := w.resume(s, x.last())
		require.Equal(w.t, told(1, 2, noteFrame(2)), again.events())
		h.finish("done")
		require.Equal(w.t, told(1, 3, resultFrame("1", "done")), again.events()[1:])
	}},
	{state: "resume/answer-first", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		x := w.newExchange(1, mcp.Legacy)
		x.stream.EventsOnly()
		x.pump(x.sink)
		w.postOn(x, s, callFrame("1", "work"))
		g.next().finish("done")
		require.Equal(w.t, told(1, 1, mark, resultFrame("1", "done")), x.events())
		require.Len(w.t, w.resumed(s, prefixOf(x.stream)+"1"), 2)
		x = w.newExchange(1, mcp.Legacy)
		x.stream.EventsOnly()
		x.pump(x.sink)
		h := g.w.post(s, callFrame("2", "work"))
		w.postOn(x, s, callFrame("2", "work"))
		require.Contains(w.t, x.events()[0], "duplicate_id", "a request that was not admitted has no event")
		g.next().finish("done")
		require.Len(w.t, h.frames(), 1)
	}},
	{state: "resume/unknown", limits: limits.Limits{MaxEvents: 4}, test: func(w *world) {
		w.remember()
		g, s, other := w.gate("work", false), w.open("session"), w.open("other")
		h, x := w.streaming(s, g, "1")
		_, foreign := w.streaming(other, g, "1")
		x.vanish()
		foreign.vanish()
		for _, id := range []string{
			"", "-", "--", "x", "1-1", foreign.last(), x.last() + "0", x.last() + "x", " " + x.last(),
			prefixOf(x.stream), prefixOf(x.stream) + "-1", prefixOf(x.stream) + "01", prefixOf(x.stream) + "99999999999999999999",
			eventPrefix(s, "2") + "1", eventPrefix(s, "01") + "1", eventPrefix(s, "0") + "1", eventPrefix(s, "") + "1",
		} {
			w.refused(s, id, resume.ErrEventUnknown)
		}
		require.NoError(w.t, h.note(2))
		require.NoError(w.t, h.note(3))
		require.NoError(w.t, h.note(4))
		w.settle() // the mark has gone from the store
		require.Len(w.t, w.resumed(s, prefixOf(x.stream)+"1"), 5)
		require.NoError(w.t, h.note(5)) // and now the first notification
		w.settle()
		w.refused(s, prefixOf(x.stream)+"1", resume.ErrEventUnknown)
		require.Len(w.t, w.resumed(s, x.last()), 5)
		require.Equal(w.t, uint64(2), w.counts()["limit/max_events"])
		h.finish("done")
		w.settle()
		w.refused(s, x.last(), resume.ErrEventUnknown)
		require.Len(w.t, w.resumed(s, prefixOf(x.stream)+"3"), 5, "the stream has ended")
		s.Close(mcp.CauseSessionDelete)
		w.refused(s, prefixOf(x.stream)+"3", mcp.ErrClosed)
	}},
	{state: "resume/conflict", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		w.refused(s, x.last(), resume.ErrStreamTaken)
		x.vanish()
		again := w.resume(s, x.last())
		w.refused(s, x.last(), resume.ErrStreamTaken)
		x.leave() // late: that exchange is not the reader
		require.False(w.t, again.ended())
		h.finish("done")
		require.Equal(w.t, told(1, 3, resultFrame("1", "done")), again.events()[1:])

		// An ended stream has one reader at a time, too.
		free := make(chan struct{})
		slow, err := w.resumeOn((&scriptSink{}).on(blockUntil(free)), s, x.last())
		require.NoError(w.t, err)
		w.settle()
		w.refused(s, x.last(), resume.ErrStreamTaken)
		close(free)
		require.True(w.t, slow.ended())
		require.Len(w.t, w.resumed(s, x.last()), 2)
	}},
	{state: "resume/lost", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		x.vanish()
		require.NoError(w.t, h.note(2))
		require.NoError(w.t, h.note(3))
		// In the middle of the replay; what comes meanwhile waits, and is then stored.
		free := make(chan struct{})
		pass := func(*scriptSink) error { return nil }
		again, err := w.resumeOn((&scriptSink{}).on(pass, pass, inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset))), s, x.last())
		require.NoError(w.t, err)
		w.settle()
		require.NoError(w.t, h.note(4))
		close(free)
		require.True(w.t, again.ended())
		require.Error(w.t, again.err)
		h.finish("done")
		w.settle()
		require.Equal(w.t, stored, w.counts())
		require.Equal(w.t, told(1, 3, noteFrame(2), noteFrame(3), noteFrame(4), resultFrame("1", "done")), w.resume(s, x.last()).events()[1:])
	}},
	{state: "resume/lost-blocked", test: func(w *world) {
		// The client hangs up while the replay waits for it to read: another exchange can
		// take over at once, and nobody has waited for the write time-out.
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		x.vanish()
		require.NoError(w.t, h.note(2))
		never := make(chan struct{})
		again, err := w.resumeOn((&scriptSink{}).on(blockUntil(never)), s, x.last())
		require.NoError(w.t, err)
		w.settle()
		begin := time.Now()
		again.vanish()
		fresh := w.resume(s, x.last())
		h.finish("done")
		require.Equal(w.t, told(1, 3, noteFrame(2), resultFrame("1", "done")), fresh.events()[1:])
		require.Zero(w.t, time.Since(begin))
	}},
	{state: "resume/evicted", limits: limits.Limits{MaxEvents: 3}, test: func(w *world) {
		store := w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		x.vanish()
		// An event is being stored when the client comes, and others push it out before the
		// store is asked for it.
		storing, reading := make(chan struct{}), make(chan struct{})
		store.on(resume.OpAppend, until(storing))
		store.on(resume.OpReplay, until(reading))
		require.NoError(w.t, h.note(2))
		w.settle()
		again := w.resume(s, x.last())
		w.settle()
		close(storing)
		w.settle()
		other, _ := w.streaming(s, g, "2")
		require.NoError(w.t, other.note(2))
		w.settle()
		close(reading)
		require.True(w.t, again.ended(), "rather than with a gap")
		w.loggedWith("DEBUG stream.gap", "session="+s.LogID(), "stream=1")
		require.ErrorContains(w.t, again.err, "the event store does not have what follows")
		require.Equal(w.t, []string{"1-2"}, again.events())
		w.settle()
		w.refused(s, x.last(), resume.ErrEventUnknown)
		require.Empty(w.t, h.cause(), "the request goes on")
		h.finish("done")
		w.settle()
		require.Equal(w.t, uint64(1), w.counts()["stored"])
		require.Len(w.t, w.resumed(s, prefixOf(x.stream)+"3"), 2)
	}},
}

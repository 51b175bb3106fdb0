package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// With an event store: what a lost exchange cannot carry waits for the client.

var (
	stored   = counts{"admitted": 1, "stored": 1}
	errStore = errors.New("the store is down")
)

var storedE1 = []faultCell{
	{state: "R/stored", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		w.tell(s, cancelFrame("1", ""))
		w.settle()
		require.Equal(w.t, "client_cancel", h.cause())
		require.Len(w.t, x.frames(), 2)
		hasError(w.t, x.frames()[1], "1", mcp.CodeRequestCancelled, "")
		require.True(w.t, x.ended())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "cancelled/client_cancel": 1}, w.counts())

		// Nobody reads the stream: the end of it waits in the store.
		before := w.counts()
		h, x = w.streaming(s, g, "2")
		x.vanish()
		w.tell(s, cancelFrame("2", ""))
		w.settle()
		require.Equal(w.t, "client_cancel", h.cause())
		require.Equal(w.t, counts{"admitted": 1, "stored": 1, "cancelled/client_cancel": 1}, w.counts().since(before))
		again := w.resume(s, x.last())
		require.Len(w.t, again.frames(), 1)
		hasError(w.t, again.frames()[0], "2", mcp.CodeRequestCancelled, "")
		require.True(w.t, again.ended())

		// A stream of an older revision has ids from its first message on, and so has its end.
		old := w.openAs("old", mcp.Version20250618)
		x = w.drowsy(old, callFrame("1", "work"))
		g.next()
		time.Sleep(keepAlive)
		require.Empty(w.t, x.events())
		w.tell(old, cancelFrame("1", ""))
		require.Len(w.t, x.frames(), 1)
		hasError(w.t, x.frames()[0], "1", mcp.CodeRequestCancelled, "")
	}},
}

var storedE7 = []faultCell{
	{state: "Q/stored", limits: oneSlot, test: func(w *world) {
		w.remember()
		holder, g, s := w.gate("holder", false), w.gate("work", false), w.open("session")
		first := w.post(s, callFrame("1", "holder"))
		h := holder.next()
		x := w.drowsy(s, callFrame("2", "work"))
		time.Sleep(keepAlive) // a sign of life has made it an event stream
		require.Equal(w.t, told(1, 1, mark), x.events())
		x.vanish()
		g.empty()
		h.finish("one")
		queued := g.next()
		require.Empty(w.t, queued.cause())
		queued.finish("two")
		w.settle()
		require.Equal(w.t, []string{resultFrame("1", "one")}, first.events(), "plain JSON has no id")
		require.Equal(w.t, counts{"admitted": 2, "sent": 1, "stored": 1}, w.counts())
		require.Equal(w.t, told(1, 1, mark, resultFrame("2", "two")), w.resume(s, x.last()).events())
		require.Equal(w.t, 1, w.times("DEBUG stream.lost"))
	}},
	{state: "R/stored", test: func(w *world) {
		store := w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		require.Equal(w.t, told(1, 1, mark, noteFrame(1)), x.events())
		x.vanish()
		require.Empty(w.t, h.cause())
		require.NoError(w.t, h.note(2))
		h.finish("done")
		w.settle()
		require.Equal(w.t, stored, w.counts())
		require.Equal(w.t, told(1, 1, mark, noteFrame(1)), x.events())
		require.Equal(w.t, 1, w.times("DEBUG stream.lost"))
		require.False(w.t, store.empty())

		// A plain answer has no event, and the store nothing of it.
		before, calls := w.counts(), store.calls
		x = w.post(s, callFrame("2", "work"))
		g.next().finish("plain")
		require.Equal(w.t, []string{resultFrame("2", "plain")}, x.events())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts().since(before))
		require.Equal(w.t, calls, store.calls)

		// The deadline still holds, and its error can be fetched.
		before = w.counts()
		h, x = w.streaming(s, g, "3")
		x.vanish()
		time.Sleep(time.Minute)
		w.settle()
		require.Equal(w.t, "deadline", h.cause())
		require.Equal(w.t, counts{
			"admitted": 1, "stored": 1, "cancelled/deadline": 1, "limit/request_timeout": 1,
		}, w.counts().since(before))
		again := w.resume(s, x.last())
		require.Len(w.t, again.frames(), 1)
		hasError(w.t, again.frames()[0], "3", mcp.CodeInternalError, "deadline")
	}},
	{state: "R/no-id", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		x.vanish() // it was no event stream yet
		require.ErrorIs(w.t, h.note(1), mcp.ErrPeerGone)
		h.finish("done")
		w.settle()
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/stream_gone": 1, "notification/stream_gone": 1,
		}, w.counts())

		// Nor has the client of an older revision an id if all it got was a sign of life.
		before := w.counts()
		old := w.openAs("old", mcp.Version20250618)
		x = w.drowsy(old, callFrame("1", "work"))
		h = g.next()
		time.Sleep(keepAlive)
		x.vanish()
		h.finish("done")
		w.settle()
		require.Equal(w.t, orphaned, w.counts().since(before))

		// A revision without event ids, and a client that takes no event stream.
		before = w.counts()
		x = w.post(w.openAs("older", mcp.Version20241105), callFrame("1", "work"))
		h = g.next()
		require.NoError(w.t, h.note(1))
		require.Equal(w.t, []string{noteFrame(1)}, x.events())
		x.vanish()
		h.finish("done")
		w.settle()
		require.Equal(w.t, orphaned, w.counts().since(before))
	}},
	{state: "B/stored", test: func(w *world) {
		w.remember()
		a, s, free := w.asker("work", false), w.open("session"), make(chan struct{})
		ask := w.inner("work")
		w.handle("work", func(ctx context.Context, r *Request) (mcp.Result, error) {
			_ = r.Notify(mcp.NotificationProgress, []byte(`{"n":1}`), "")
			return ask(ctx, r)
		})
		x := w.exchange(1, mcp.Legacy)
		x.sink.on(blockUntil(free))
		w.postOn(x, s, callFrame("7", "work"))
		a.blocked()
		own, _ := w.get(s)
		x.stream.Lost() // the call waits behind what is being written
		require.True(w.t, x.ended())
		require.Empty(w.t, a.answers)
		require.Empty(w.t, own.frames(), "the stream of the request carries it, and no other")
		again := w.resume(s, x.stream.log.prefix+"1")
		require.Equal(w.t, told(1, 1, mark, noteFrame(1), askFrame("1")), again.events())
		w.tell(s, replyFrame("1", `{"roots":[]}`))
		require.NoError(w.t, a.answer().err)
		a.next().finish("done")
		require.Equal(w.t, told(1, 4, resultFrame("7", "done")), again.events()[3:])
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts())
		w.handle("work", ask)
		w.forget("work")

		// A call in the store cannot be taken back: the client is told, also there.
		before := w.counts()
		h := w.ask2(s, a, "8")
		h.exchange.vanish()
		w.tell(s, cancelFrame("8", ""))
		require.ErrorIs(w.t, a.answer().err, mcp.ErrClientCancelled)
		again = w.resume(s, h.exchange.last())
		require.Equal(w.t, unaskFrame("2"), again.frames()[0])
		hasError(w.t, again.frames()[1], "8", mcp.CodeRequestCancelled, "")
		require.Equal(w.t, counts{"admitted": 1, "stored": 1, "cancelled/client_cancel": 1}, w.counts().since(before))
	}},
	{state: "P/stored", limits: small, test: func(w *world) {
		w.remember()
		n, s, free := w.sender("work", 3), w.open("session"), make(chan struct{})
		x := w.exchange(1, mcp.Legacy)
		x.sink.on(blockUntil(free)) // the mark
		w.postOn(x, s, callFrame("1", "work"))
		h := n.blocked(3)
		x.stream.Lost()
		require.NoError(w.t, n.result(), "there is room in the store")
		require.Empty(w.t, h.cause())
		n.next().finish("done")
		require.Empty(w.t, x.events())
		require.Equal(w.t, stored, w.counts().but("limit/max_queued_messages"))
		again := w.resume(s, x.stream.log.prefix+"1")
		require.Equal(w.t, told(1, 1, mark, noteFrame(1), noteFrame(2), noteFrame(3), resultFrame("1", "done")), again.events())
	}},
	{state: "S/stored", test: func(w *world) {
		w.remember()
		at := w.stopAt(pointAfterSettle, "work")
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		h.finish("done")
		at.await()
		x.vanish()
		at.release()
		require.Empty(w.t, h.cancelled())
		require.Equal(w.t, stored, w.counts())

		before := w.counts()
		h, x = w.streaming(s, g, "2")
		x.sink.on(failWith(mcp.DropBrokenPeer, errReset))
		h.finish("two")
		require.True(w.t, x.ended())
		require.Equal(w.t, stored, w.counts().since(before))
		require.Equal(w.t, told(2, 3, resultFrame("2", "two")), w.resume(s, x.last()).events()[1:])
	}},
	{state: "W/stored", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		for i, lost := range []bool{true, false} { // whoever learns it first
			before, free := w.counts(), make(chan struct{})
			h, x := w.streaming(s, g, "1")
			x.sink.onFlush(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
			h.finish("done")
			w.settle()
			if lost {
				x.stream.Lost() // which ends the write that blocks, too
			} else {
				close(free)
			}
			require.True(w.t, x.ended())
			require.Empty(w.t, h.cancelled())
			require.Equal(w.t, stored, w.counts().since(before))
			require.Equal(w.t, told(i+1, 3, resultFrame("1", "done")), w.resume(s, x.last()).events()[1:])
		}
		require.Zero(w.t, w.counts()["limit/write_timeout"])
	}},
	{state: "batch/stored", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.openAs("session", mcp.Version20250326)
		x := w.newExchange(1, mcp.Legacy)
		x.stream.EventsOnly()
		var members []Member
		for _, id := range []string{"1", "2", "3"} {
			in, bad := inbound(httpConn, callFrame(id, "work"))
			require.Nil(w.t, bad)
			members = append(members, Member{In: in})
		}
		s.ReceiveBatchOn(members, x.stream, true)
		x.pump(x.sink)
		all := map[string]*held{}
		for range 3 {
			h := g.next()
			all[h.r.ID.String()] = h
		}
		all["2"].finish("two")
		require.Equal(w.t, told(1, 1, resultFrame("2", "two")), x.events())
		x.vanish()
		all["3"].finish("three")
		w.settle()
		all["1"].finish("one")
		w.settle()
		require.Equal(w.t, counts{"admitted": 3, "sent": 1, "stored": 2}, w.counts())
		again := w.resume(s, x.last())
		require.Equal(w.t, told(1, 2, resultFrame("3", "three"), resultFrame("1", "one")), again.events())
		require.True(w.t, again.ended())
	}},
	{state: "orphan-grace/stored", limits: Limits{OrphanGrace: 10 * time.Second}, test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		x.vanish()
		time.Sleep(9 * time.Second)
		again := w.resume(s, x.last())
		time.Sleep(9 * time.Second) // somebody reads it
		w.settle()
		require.Empty(w.t, h.cause())
		again.vanish()
		time.Sleep(10*time.Second - 1)
		w.settle()
		require.Empty(w.t, h.cause())
		time.Sleep(time.Nanosecond)
		w.settle()
		require.Equal(w.t, "client_disconnect", h.cause())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/stream_gone": 1, "cancelled/client_disconnect": 1,
		}, w.counts())
		w.refused(s, again.last(), ErrEventUnknown)
	}},
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
		third := w.resume(s, x.stream.log.prefix+"1")
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
		w.refused(s, x.last(), ErrEventUnknown) // nothing follows, now and ever
		w.settle()
		require.Empty(w.t, s.state.streams)
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
		require.Len(w.t, w.resumed(s, x.stream.log.prefix+"1"), 2)
		x = w.newExchange(1, mcp.Legacy)
		x.stream.EventsOnly()
		x.pump(x.sink)
		h := g.w.post(s, callFrame("2", "work"))
		w.postOn(x, s, callFrame("2", "work"))
		require.Contains(w.t, x.events()[0], "duplicate_id", "a request that was not admitted has no event")
		g.next().finish("done")
		require.Len(w.t, h.frames(), 1)
	}},
	{state: "resume/unknown", limits: Limits{MaxEvents: 4}, test: func(w *world) {
		w.remember()
		g, s, other := w.gate("work", false), w.open("session"), w.open("other")
		h, x := w.streaming(s, g, "1")
		_, foreign := w.streaming(other, g, "1")
		x.vanish()
		foreign.vanish()
		for _, id := range []string{
			"", "-", "--", "x", "1-1", foreign.last(), x.last() + "0", x.last() + "x", " " + x.last(),
			x.stream.log.prefix, x.stream.log.prefix + "-1", x.stream.log.prefix + "01", x.stream.log.prefix + "99999999999999999999",
			s.events.prefix("2") + "1", s.events.prefix("01") + "1", s.events.prefix("0") + "1", s.events.prefix("") + "1",
		} {
			w.refused(s, id, ErrEventUnknown)
		}
		require.NoError(w.t, h.note(2))
		require.NoError(w.t, h.note(3))
		require.NoError(w.t, h.note(4))
		w.settle() // the mark has gone from the store
		require.Len(w.t, w.resumed(s, x.stream.log.prefix+"1"), 5)
		require.NoError(w.t, h.note(5)) // and now the first notification
		w.settle()
		w.refused(s, x.stream.log.prefix+"1", ErrEventUnknown)
		require.Len(w.t, w.resumed(s, x.last()), 5)
		require.Equal(w.t, uint64(2), w.counts()["limit/max_events"])
		h.finish("done")
		w.settle()
		w.refused(s, x.last(), ErrEventUnknown)
		require.Len(w.t, w.resumed(s, x.stream.log.prefix+"3"), 5, "the stream has ended")
		s.Close(mcp.CauseSessionDelete)
		w.refused(s, x.stream.log.prefix+"3", mcp.ErrClosed)
	}},
	{state: "resume/conflict", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		w.refused(s, x.last(), ErrStreamTaken)
		x.vanish()
		again := w.resume(s, x.last())
		w.refused(s, x.last(), ErrStreamTaken)
		x.stream.Lost() // late: that exchange is not the reader
		require.False(w.t, again.ended())
		h.finish("done")
		require.Equal(w.t, told(1, 3, resultFrame("1", "done")), again.events()[1:])

		// An ended stream has one reader at a time, too.
		free := make(chan struct{})
		slow, err := w.resumeOn((&scriptSink{}).on(blockUntil(free)), s, x.last())
		require.NoError(w.t, err)
		w.settle()
		w.refused(s, x.last(), ErrStreamTaken)
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
	{state: "resume/evicted", limits: Limits{MaxEvents: 3}, test: func(w *world) {
		store := w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		x.vanish()
		// An event is being stored when the client comes, and others push it out before the
		// store is asked for it.
		storing, reading := make(chan struct{}), make(chan struct{})
		store.on(eventAppend, until(storing))
		store.on(eventReplay, until(reading))
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
		require.ErrorIs(w.t, again.err, errEventsMissing)
		require.Equal(w.t, []string{"1-2"}, again.events())
		w.settle()
		w.refused(s, x.last(), ErrEventUnknown)
		require.Empty(w.t, h.cause(), "the request goes on")
		h.finish("done")
		w.settle()
		require.Equal(w.t, uint64(1), w.counts()["stored"])
		require.Len(w.t, w.resumed(s, x.stream.log.prefix+"3"), 2)
	}},
	{state: "store-fails", test: func(w *world) {
		store := w.remember()
		g, s := w.gate("work", false), w.open("session")
		fail := func() error { return errStore }
		// With the first event: the stream is one without ids.
		store.on(eventAppend, fail)
		h, x := w.streaming(s, g, "1")
		require.ErrorIs(w.t, h.r.CloseStream(0), errors.ErrUnsupported)
		h.finish("one")
		require.Equal(w.t, []string{noteFrame(1), resultFrame("1", "one")}, x.events())

		// Later: the rest has none.
		h, x = w.streaming(s, g, "2")
		store.on(eventAppend, fail)
		require.NoError(w.t, h.note(2))
		h.finish("two")
		require.Equal(w.t, []string{"2-1", "2-2 " + noteFrame(1), noteFrame(2), resultFrame("2", "two")}, x.events())
		w.refused(s, x.stream.session.events.prefix("2")+"1", ErrEventUnknown)
		require.Equal(w.t, counts{"admitted": 2, "sent": 2}, w.counts())
		require.Equal(w.t, uint64(2), w.core.Snapshot().Counters.EventFailures["append"])
		w.loggedWith("WARN events.failed", "operation=append", errStore.Error())

		// While nobody reads: there is nobody to tell.
		before := w.counts()
		h, x = w.streaming(s, g, "3")
		x.vanish()
		store.on(eventAppend, func() error { panic("as scripted") })
		require.NoError(w.t, h.note(2))
		w.settle()
		require.ErrorIs(w.t, h.note(3), mcp.ErrPeerGone)
		require.Empty(w.t, h.cause())
		h.finish("three")
		w.settle()
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/stream_gone": 1, "notification/stream_gone": 2,
		}, w.counts().since(before))
		w.refused(s, x.last(), ErrEventUnknown)

		// A store that hangs is waited for once, and then no more.
		before = w.counts()
		hang := make(chan struct{})
		h, x = w.streaming(s, g, "4")
		store.on(eventAppend, func() error { <-hang; return nil })
		began := time.Now()
		go func() { time.Sleep(w.core.limits.EventTimeout); close(hang) }()
		require.NoError(w.t, h.note(2))
		w.settle()
		require.Len(w.t, x.frames(), 1)
		time.Sleep(w.core.limits.EventTimeout)
		require.Len(w.t, x.frames(), 2)
		require.Equal(w.t, w.core.limits.EventTimeout, time.Since(began))
		h.finish("four")
		w.settle()
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts().since(before))

		// A store that cannot say what it has.
		h, x = w.streaming(s, g, "5")
		x.vanish()
		require.NoError(w.t, h.note(2))
		store.on(eventReplay, fail)
		_, err := w.resumeOn(&scriptSink{}, s, x.last())
		require.ErrorIs(w.t, err, errStore)
		h.finish("five")
		require.Len(w.t, w.resumed(s, x.last()), 3, "later it can")
		require.Equal(w.t, uint64(1), w.core.Snapshot().Counters.EventFailures["replay"])
	}},
	{state: "store-full", limits: Limits{MaxEventBytes: 1000}, test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		h, x := w.streaming(s, g, "1")
		big := fmt.Sprintf(`{"n":"%01000d"}`, 0)
		require.NoError(w.t, h.r.Notify(mcp.NotificationProgress, []byte(big), ""))
		h.finish("done")
		require.Equal(w.t, []string{"1-1", "1-2 " + noteFrame(1)}, x.events()[:2])
		require.Equal(w.t, resultFrame("1", "done"), x.events()[3], "the client gets everything, and can resume nothing")
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "limit/max_event_bytes": 1}, w.counts())
		require.Empty(w.t, w.core.Snapshot().Counters.EventFailures["append"])
		require.Zero(w.t, w.times("WARN events.failed"))
	}},
	{state: "close", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		x := w.post(s, callFrame("1", "work"))
		h := g.next()
		require.NoError(w.t, h.r.CloseStream(500*time.Millisecond))
		require.True(w.t, x.ended())
		require.NoError(w.t, x.err)
		require.Equal(w.t, []string{"1-1", "1-2 retry 500ms"}, x.events())
		require.NoError(w.t, h.r.CloseStream(time.Second), "it is closed")
		require.NoError(w.t, h.note(1))
		require.Empty(w.t, h.cause())

		again := w.resume(s, x.last())
		require.NoError(w.t, h.note(2))
		require.Equal(w.t, append([]string{"1-2"}, told(1, 3, noteFrame(1), noteFrame(2))...), again.events())
		require.NoError(w.t, h.r.CloseStream(0)) // the client comes again and again
		require.True(w.t, again.ended())
		require.NoError(w.t, again.err)
		require.Equal(w.t, []string{"1-5"}, again.events()[3:])
		h.finish("done")
		w.settle()
		require.Equal(w.t, stored, w.counts())
		require.Equal(w.t, told(1, 5, mark, resultFrame("1", "done")), w.resume(s, again.last()).events())
		require.ErrorIs(w.t, h.r.CloseStream(0), mcp.ErrRequestDone)
		require.Equal(w.t, append([]string{"1-1"}, told(1, 3, noteFrame(1), noteFrame(2), mark, resultFrame("1", "done"))...),
			slices.Insert(w.resumed(s, s.events.prefix("1")+"1"), 3, "1-5"), "what carries nothing is not replayed")
		require.Zero(w.t, w.times("DEBUG stream.lost"))
		require.Equal(w.t, 2, w.times("DEBUG stream.closed"))
	}},
	{state: "close/queued", test: func(w *world) {
		w.remember()
		s, free := w.open("session"), make(chan struct{})
		w.handle("work", func(_ context.Context, r *Request) (mcp.Result, error) {
			for n := range 2 {
				if err := r.Notify(mcp.NotificationProgress, fmt.Appendf(nil, `{"n":%d}`, n+1), ""); err != nil {
					return nil, err
				}
			}
			err := r.CloseStream(time.Second)
			return &textResult{Text: fmt.Sprint(err)}, nil
		})
		x := w.exchange(1, mcp.Legacy)
		x.sink.on(blockUntil(free))
		w.postOn(x, s, callFrame("1", "work"))
		w.settle()
		close(free)
		// What was queued before the mark is written, and what comes after it stored.
		require.Equal(w.t, append(told(1, 1, mark, noteFrame(1), noteFrame(2)), "1-4 retry 1s"), x.events())
		require.True(w.t, x.ended())
		require.Equal(w.t, stored, w.counts())
		require.Equal(w.t, told(1, 4, mark, resultFrame("1", "<nil>")), w.resume(s, x.last()).events())

		// What others say on behalf of the request comes after the mark, too.
		g, busy := w.gate("busy", false), make(chan struct{})
		x = w.exchange(1, mcp.Legacy)
		x.sink.on(blockUntil(busy))
		w.postOn(x, s, callFrame("2", "busy"))
		h := g.next()
		require.NoError(w.t, h.note(1))
		w.settle()
		closed := make(chan error, 1)
		go func() { closed <- h.r.CloseStream(0) }()
		w.settle()
		require.NoError(w.t, h.note(2))
		close(busy)
		require.Equal(w.t, told(2, 1, mark, noteFrame(1), mark), x.events())
		require.True(w.t, x.ended())
		require.NoError(w.t, <-closed)
		require.Equal(w.t, told(2, 3, mark, noteFrame(2)), w.resumed(s, x.last()))
	}},
	{state: "close/lost", test: func(w *world) {
		w.remember()
		g, s := w.gate("work", false), w.open("session")
		closing := func(h *held) <-chan error {
			got := make(chan error, 1)
			go func() { got <- h.r.CloseStream(time.Second) }()
			w.settle()
			return got
		}
		// The exchange is lost while the mark waits, and while it is written.
		for i, lost := range []bool{true, false} {
			before, free := w.counts(), make(chan struct{})
			h, x := w.streaming(s, g, "1")
			x.sink.on(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
			if lost {
				require.NoError(w.t, h.note(2))
				w.settle()
			}
			got := closing(h)
			require.Empty(w.t, got)
			if lost {
				x.stream.Lost()
			} else {
				close(free)
			}
			require.True(w.t, x.ended())
			require.NoError(w.t, <-got, "which is what was wanted")
			h.finish("done")
			w.settle()
			require.Equal(w.t, stored, w.counts().since(before))
			events := w.resumed(s, x.last())
			require.Contains(w.t, events[len(events)-1], resultFrame("1", "done"))
			require.Equal(w.t, i+1, s.state.streamSeq)
		}
		// The request is cancelled, or its session deleted, while the mark waits.
		free := make(chan struct{})
		h, x := w.streaming(s, g, "2")
		x.sink.on(blockUntil(free))
		require.NoError(w.t, h.note(2))
		got := closing(h)
		w.tell(s, cancelFrame("2", ""))
		require.ErrorIs(w.t, <-got, mcp.ErrClientCancelled)
		h, x = w.streaming(s, g, "3")
		busy := make(chan struct{})
		x.sink.on(blockUntil(busy))
		require.NoError(w.t, h.note(2))
		got = closing(h)
		s.Close(mcp.CauseSessionDelete)
		require.Error(w.t, <-got)
		close(free)
		close(busy)
		require.True(w.t, x.ended())
	}},
	{state: "close/unsupported", test: func(w *world) {
		store := w.remember()
		g, s := w.gate("work", false), w.open("session")
		p := w.connect(true)
		p.call("1", "work")
		modern := w.post(nil, modernFrame("1", "work"))
		older := w.post(w.openAs("older", mcp.Version20250618), callFrame("1", "work"))
		plain := w.exchange(1, mcp.Legacy)
		plain.stream.AnswersOnly()
		w.postOn(plain, s, callFrame("1", "work"))
		var all []*held
		for range 4 {
			all = append(all, g.next())
		}
		for _, h := range all {
			require.ErrorIs(w.t, h.r.CloseStream(time.Second), errors.ErrUnsupported)
			h.finish("done")
		}
		for _, x := range []*exchange{modern, older, plain} {
			require.Equal(w.t, []string{resultFrame("1", "done")}, x.events())
		}
		require.Len(w.t, p.frames(), 1)
		require.Zero(w.t, store.calls[eventAppend])

		// A store that fails just now: the answer comes on the response.
		store.on(eventAppend, func() error { return errStore })
		x := w.post(s, callFrame("2", "work"))
		h := g.next()
		require.ErrorIs(w.t, h.r.CloseStream(time.Second), errors.ErrUnsupported)
		require.False(w.t, x.ended())
		h.finish("done")
		require.Equal(w.t, []string{resultFrame("2", "done")}, x.events())
		require.Equal(w.t, counts{"admitted": 5, "sent": 5}, w.counts())

		// An exchange that is lost meanwhile, with an event and without.
		x = w.post(s, callFrame("3", "work"))
		h = g.next()
		x.vanish()
		require.ErrorIs(w.t, h.r.CloseStream(time.Second), mcp.ErrPeerGone)
		h.finish("done")
	}},
}

// resumed returns the events after one, without the mark, and hangs up.
func (w *world) resumed(s *Session, lastEventID string) []string {
	w.t.Helper()
	x := w.resume(s, lastEventID)
	events := x.events()
	if !x.ended() {
		x.vanish()
	}
	return events
}

// An asking is a request in state B whose call was written.
type asking struct {
	*held
	exchange *exchange
}

func (w *world) ask2(s *Session, a *asker, id string) *asking {
	w.t.Helper()
	x := w.post(s, callFrame(id, "work"))
	h := a.blocked()
	require.Len(w.t, x.frames(), 1)
	return &asking{h, x}
}

package session

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/stream"
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
	{state: "R/stored", limits: limits.Limits{OrphanGrace: -1}, test: func(w *world) {
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
		x.leave() // the call waits behind what is being written
		require.True(w.t, x.ended())
		require.Empty(w.t, a.answers)
		require.Empty(w.t, own.frames(), "the stream of the request carries it, and no other")
		again := w.resume(s, prefixOf(x.stream)+"1")
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
		x.leave()
		require.NoError(w.t, n.result(), "there is room in the store")
		require.Empty(w.t, h.cause())
		n.next().finish("done")
		require.Empty(w.t, x.events())
		require.Equal(w.t, stored, w.counts().but("limit/max_queued_messages"))
		again := w.resume(s, prefixOf(x.stream)+"1")
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
				x.leave() // which ends the write that blocks, too
			} else {
				close(free)
			}
			require.True(w.t, x.ended())
			require.Empty(w.t, h.cancelled())
			require.Equal(w.t, stored, w.counts().since(before))
			require.Equal(w.t, told(i+1, 3, resultFrame("1", "done")), w.resume(s, x.last()).events()[1:])
		}
		require.Zero(w.t, w.counts()["limit/write_timeout"])

		// The client does not read: net/http may take the exchange for lost before the write returns.
		for i, lost := range []bool{false, true} {
			before := w.counts()
			h, x := w.streaming(s, g, "1")
			x.sink.onFlush(func(k *scriptSink) error {
				err := blockUntil(nil)(k)
				if lost {
					x.sink.leave()
					w.settle()
				}
				return err
			})
			h.finish("done")
			w.settle()
			time.Sleep(stream.QuickAnswer + w.core.limits.WriteTimeout)
			require.True(w.t, x.ended())
			require.Equal(w.t, mcp.DropWriteTimeout, x.stream.ExchangeFailure(), "lost: %v", lost)
			require.Equal(w.t, stored.with("limit/write_timeout", 1), w.counts().since(before))
			require.Equal(w.t, told(i+3, 3, resultFrame("1", "done")), w.resume(s, x.last()).events()[1:])
		}
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
	{state: "orphan-grace/stored", limits: limits.Limits{OrphanGrace: 10 * time.Second}, test: func(w *world) {
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
		w.refused(s, again.last(), resume.ErrEventUnknown)
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

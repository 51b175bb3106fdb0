package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// E7 again: the store has no room or fails, and a handler ends its exchange on purpose.
var polledE7 = []faultCell{
	{state: "store-fails", test: func(w *world) {
		store := w.remember()
		g, s := w.gate("work", false), w.open("session")
		fail := func() error { return errStore }
		// With the first event: the stream is one without ids.
		store.on(resume.OpAppend, fail)
		h, x := w.streaming(s, g, "1")
		require.ErrorIs(w.t, h.r.CloseStream(0), errors.ErrUnsupported)
		h.finish("one")
		require.Equal(w.t, []string{noteFrame(1), resultFrame("1", "one")}, x.events())

		// Later: the store may have the event, and the rest has no ids.
		h, x = w.streaming(s, g, "2")
		store.on(resume.OpAppend, fail)
		require.NoError(w.t, h.note(2))
		h.finish("two")
		require.Equal(w.t, []string{"2-1", "2-2 " + noteFrame(1), "2-3 " + noteFrame(2), resultFrame("2", "two")}, x.events())
		w.refused(s, eventPrefix(s, "2")+"1", resume.ErrEventUnknown)
		require.Equal(w.t, counts{"admitted": 2, "sent": 2}, w.counts())
		require.Equal(w.t, uint64(2), w.core.Snapshot().Counters.EventFailures["append"])
		w.loggedWith("WARN events.failed", "session="+s.LogID(), "stream=1", "operation=append", errStore.Error())

		// While nobody reads: there is nobody to tell.
		before := w.counts()
		h, x = w.streaming(s, g, "3")
		x.vanish()
		store.on(resume.OpAppend, func() error { panic("as scripted") })
		require.NoError(w.t, h.note(2))
		w.settle()
		require.ErrorIs(w.t, h.note(3), mcp.ErrPeerGone)
		require.Empty(w.t, h.cause())
		h.finish("three")
		w.settle()
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/stream_gone": 1, "notification/stream_gone": 2,
		}, w.counts().since(before))
		w.refused(s, x.last(), resume.ErrEventUnknown)

		// A store that hangs is waited for once, and then no more.
		before = w.counts()
		hang := make(chan struct{})
		h, x = w.streaming(s, g, "4")
		store.on(resume.OpAppend, func() error { <-hang; return nil })
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
		store.on(resume.OpReplay, fail)
		_, err := w.resumeOn(&scriptSink{}, s, x.last())
		require.ErrorIs(w.t, err, errStore)
		h.finish("five")
		require.Len(w.t, w.resumed(s, x.last()), 3, "later it can")
		require.Equal(w.t, uint64(1), w.core.Snapshot().Counters.EventFailures["replay"])
	}},
	{state: "store-full", limits: limits.Limits{MaxEventBytes: 1000}, test: func(w *world) {
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
			slices.Insert(w.resumed(s, eventPrefix(s, "1")+"1"), 3, "1-5"), "what carries nothing is not replayed")
		require.Zero(w.t, w.times("DEBUG stream.lost"))
		require.Equal(w.t, 2, w.times("DEBUG stream.closed"))
		w.loggedWith("DEBUG stream.closed", "session="+s.LogID(), "stream=1")
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
				x.leave()
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
			require.Contains(w.t, x.last(), eventPrefix(s, strconv.Itoa(i+1)), "each exchange has its stream, and no other")
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
		require.Zero(w.t, store.calls[resume.OpAppend])

		// A store that fails just now: the answer comes on the response.
		store.on(resume.OpAppend, func() error { return errStore })
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

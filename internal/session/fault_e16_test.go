package session

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// E16: a peer that reads slowly or not at all.
var cellsE16 = []faultCell{
	{state: "P", limits: Limits{MaxQueuedMessages: 1}, test: func(w *world) {
		k := w.stepper("work")
		p := w.connect(true)
		p.call("1", "work")
		unblock := k.fill(p.sink)
		time.Sleep(w.core.limits.NotifyTimeout - time.Nanosecond)
		require.Len(w.t, k.results(), 2)
		time.Sleep(time.Nanosecond)
		require.Equal(w.t, []error{nil, nil, nil}, k.results(), "a lost notification is not the handler's fault")
		require.Empty(w.t, k.cause())
		w.logged("DEBUG notification.dropped")
		unblock()
		k.step()
		k.then <- func() (mcp.Result, error) { return &textResult{Text: "done"}, nil }
		require.Equal(w.t, []string{noteFrame(1), noteFrame(2), noteFrame(4), resultFrame("1", "done")}, p.frames())
		require.Equal(w.t, counts{
			"admitted": 1, "sent": 1, "notification/queue_full": 1,
			"limit/max_queued_messages": 1, "limit/notify_timeout": 1,
		}, w.counts())
	}},
	{state: "coalesce", limits: Limits{MaxQueuedBytes: 100}, test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.call("2", "work")
		other := g.next()
		free := make(chan struct{})
		p.sink.on(blockUntil(free))
		progress := func(h *held, n int, key string) {
			require.NoError(w.t, h.r.Notify(mcp.NotificationProgress, fmt.Appendf(nil, `{"n":%d}`, n), key))
			w.settle()
		}
		progress(h, 1, "token") // in the write
		for n := 2; n <= 5; n++ {
			progress(h, n, "token") // each takes the place of the one before
		}
		require.Equal(w.t, counts{
			"admitted": 2, "notification/queue_full": 3, "limit/max_queued_bytes": 3,
		}, w.counts())

		// Another key, and the same key of another request, are other notifications.
		before := w.counts()
		progress(h, 6, "log")
		progress(other, 7, "token")
		require.Equal(w.t, counts{
			"notification/queue_full": 2, "limit/max_queued_bytes": 2, "limit/notify_timeout": 2,
		}, w.counts().since(before))
		close(free)
		require.Equal(w.t, []string{noteFrame(1), noteFrame(5)}, p.frames())
	}},
	{state: "response", test: func(w *world) {
		g, a := w.gate("work", false), w.asker("ask", false)
		p := w.connect(true)
		p.sink.on(blockUntil(nil))
		p.call("1", "work")
		g.next().finish("done") // in the write
		p.call("2", "work")
		running := g.next()
		p.call("3", "work")
		g.next().finish("queued")
		p.call("4", "ask")
		blocked := a.blocked()
		time.Sleep(w.core.limits.WriteTimeout - time.Nanosecond)
		w.settle()
		require.Empty(w.t, running.cause())
		require.Empty(w.t, a.answers)
		time.Sleep(time.Nanosecond)
		<-p.s.Done()
		require.ErrorIs(w.t, a.answer().err, mcp.ErrTransportFailed)
		for _, h := range []*held{running, blocked} {
			require.Equal(w.t, "transport_error", h.cause())
			require.ErrorIs(w.t, context.Cause(h.ctx), mcp.ErrTransportFailed)
		}
		require.Empty(w.t, p.frames(), "a poisoned stream is not written to")
		require.Equal(w.t, counts{
			"admitted": 4, "dropped/write_timeout": 4, "cancelled/transport_error": 2, "limit/write_timeout": 1,
		}, w.counts())
		require.Equal(w.t, 1, w.times("WARN session.peer_lost"))
	}},
	{state: "isolation", test: func(w *world) {
		g := w.gate("work", false)
		s := w.open("session-1")
		stalled := w.post(s, callFrame("1", "work"))
		stalled.sink.on(blockUntil(nil))
		g.next().finish("unread")
		running := w.post(s, callFrame("2", "work"))
		h := g.next()
		silent := w.post(nil, modernFrame("1", "work")) // stalls in a notification
		silent.sink.on(blockUntil(nil))
		modern := g.next()
		require.NoError(w.t, modern.r.Notify(mcp.NotificationProgress, nil, ""))
		w.settle()

		quick := w.post(s, callFrame("3", "work"))
		g.next().finish("quick")
		require.Equal(w.t, []string{resultFrame("3", "quick")}, quick.frames(), "not delayed")
		require.Equal(w.t, counts{"admitted": 4, "sent": 1}, w.counts())

		time.Sleep(w.core.limits.WriteTimeout)
		require.True(w.t, stalled.ended() && silent.ended())
		w.lives(s)
		require.Empty(w.t, h.cause(), "E7: in the legacy era a lost stream cancels nothing")
		require.Equal(w.t, "client_disconnect", modern.cause())
		h.finish("done")
		require.Equal(w.t, []string{resultFrame("2", "done")}, running.frames())
		require.Equal(w.t, counts{
			"admitted": 4, "sent": 2, "dropped/write_timeout": 1, "limit/write_timeout": 2,
			"dropped/cancelled": 1, "cancelled/client_disconnect": 1, "notification/cancelled": 1,
		}, w.counts())
	}},
	{state: "reading-goes-on", limits: small, test: func(w *world) {
		g, a, k := w.gate("work", false), w.asker("ask", false), w.stepper("talk")
		p := w.connect(true)
		p.call("1", "ask")
		a.blocked()
		p.call("2", "work")
		h := g.next()
		p.call("3", "talk")
		w.settle()
		unblock := k.fill(p.sink) // nothing can be written, and a handler hangs in a send
		p.cancel("2", "")
		p.send(replyFrame("1", `{}`))
		w.settle()
		require.Equal(w.t, "client_cancel", h.cause())
		require.NoError(w.t, a.answer().err)
		a.next().finish("done")
		p.cancel("3", "")
		require.ErrorIs(w.t, k.results()[2], mcp.ErrClientCancelled)
		unblock()
		require.Equal(w.t, []string{askFrame("1"), noteFrame(1), resultFrame("1", "done")}, p.frames())
		require.Equal(w.t, counts{
			"admitted": 3, "sent": 1, "dropped/cancelled": 2, "cancelled/client_cancel": 2,
			"notification/cancelled": 2, "limit/max_queued_messages": 1,
		}, w.counts())
	}},
}

package session

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// E16: a peer that reads slowly or not at all.
var cellsE16 = []faultCell{
	{state: "P", limits: limits.Limits{MaxQueuedMessages: 1}, test: func(w *world) {
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
	{state: "coalesce", limits: limits.Limits{MaxQueuedBytes: 100}, test: func(w *world) {
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

		// net/http takes an exchange for lost when a write to it has timed out, and may say
		// so before the write returns.
		for _, lost := range []bool{false, true} {
			before := w.counts()
			x := w.post(nil, modernFrame("1", "work"))
			x.sink.on(func(k *scriptSink) error {
				err := blockUntil(nil)(k)
				if lost {
					x.sink.leave()
				}
				return err
			})
			g.next().finish("unread")
			w.settle()
			time.Sleep(stream.QuickAnswer + w.core.limits.WriteTimeout)
			require.True(w.t, x.ended())
			require.Equal(w.t, counts{"admitted": 1, "dropped/write_timeout": 1, "limit/write_timeout": 1}, w.counts().since(before))
		}
	}},
	{state: "refusals", limits: limits.Limits{MaxQueuedMessages: 1}, test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.sink.on(blockUntil(nil))
		for range 100 {
			p.duplicateUnread("1")
		}
		p.cancel("1", "") // the reader has not stopped
		w.settle()
		require.Equal(w.t, "client_cancel", h.cause())
		require.Equal(w.t, counts{
			"admitted": 1, "rejected/duplicate_id": 100, "dropped/cancelled": 1, "cancelled/client_cancel": 1,
		}, w.counts())
	}},
	{state: "answers", limits: limits.Limits{MaxQueuedBytes: 10_000, MaxInFlight: 4}, test: func(w *world) {
		w.handle("big", func(context.Context, *Request) (mcp.Result, error) {
			return &textResult{Text: strings.Repeat("x", 1000)}, nil
		})
		p := w.connect(true)
		p.sink.on(blockUntil(nil))
		for i := range 30 {
			p.call(fmt.Sprint(i), "big")
			w.settle()
		}
		admitted := w.counts()["admitted"]
		require.InDelta(w.t, 11, admitted, 1, "one is being written, and as many wait as are more than 10 000 bytes")
		require.Equal(w.t, counts{
			"admitted": admitted, "rejected/overload": 30 - admitted, "limit/max_queued_bytes": 30 - admitted,
		}, w.counts())
		queued, _, _ := p.s.stream.Waiting()
		last := string(queued[len(queued)-1].Frame)
		hasError(w.t, last, "29", mcp.CodeInternalError, "overload")
		require.Contains(w.t, last, `"limit":"max_queued_bytes"`)
	}},
	{state: "unread", limits: limits.Limits{MaxInFlightTotal: 2, MaxUnread: 3}, test: func(w *world) {
		w.handle("work", func(context.Context, *Request) (mcp.Result, error) { return &textResult{Text: "unread"}, nil })
		free := make(chan struct{})
		for range 3 {
			x := w.exchange(1, mcp.Modern)
			x.sink.on(blockUntil(free))
			in, _ := inbound(httpConn, modernFrame("1", "work"))
			w.core.Receive(in, x.stream)
			w.settle()
		}
		refused := w.post(nil, modernFrame("1", "work"))
		require.Len(w.t, refused.frames(), 1)
		hasError(w.t, refused.frames()[0], "1", mcp.CodeInternalError, "overload")
		require.Contains(w.t, refused.frames()[0], `"limit":"max_unread"`)
		p := w.connect(true)
		p.call("1", "work") // nobody else is concerned
		require.Equal(w.t, []string{resultFrame("1", "unread")}, p.frames())
		require.Equal(w.t, counts{"admitted": 4, "sent": 1, "rejected/overload": 1, "limit/max_unread": 1}, w.counts())
		close(free)
		w.settle()
		require.Equal(w.t, []string{resultFrame("1", "unread")}, w.post(nil, modernFrame("1", "work")).frames())
	}},
	{state: "withdrawn", limits: limits.Limits{MaxOutbound: 2}, test: func(w *world) {
		w.handle("work", func(ctx context.Context, r *Request) (mcp.Result, error) {
			for range 1000 {
				brief, cancel := context.WithTimeout(ctx, time.Millisecond)
				_, err := r.Ask(brief, "roots/list", nil)
				cancel()
				require.ErrorIs(w.t, err, context.DeadlineExceeded)
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		p := w.connect(true)
		p.sink.on(blockUntil(nil))
		p.call("1", "work")
		time.Sleep(5 * time.Second)
		w.settle()
		queued, _, bytes := p.s.stream.Waiting()
		require.LessOrEqual(w.t, len(queued), 1, "the courtesy for the first, which was handed to the wire")
		require.Less(w.t, bytes, 200)
	}},
	{state: "steady", test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		for range 50 {
			p.sink.on(afterASecond)
		}
		p.call("1", "work")
		h := g.next()
		for n := range 45 { // 44 of them are one batch
			require.NoError(w.t, h.r.Notify(mcp.NotificationProgress, fmt.Appendf(nil, `{"n":%d}`, n), ""))
		}
		time.Sleep(50 * time.Second) // more than the write time-out
		require.Len(w.t, p.frames(), 45)
		require.Empty(w.t, h.cause())
	}},
	{state: "pieces", test: func(w *world) {
		w.handle("big", func(_ context.Context, r *Request) (mcp.Result, error) {
			return &textResult{Text: strings.Repeat("x", 30<<10)}, nil
		})
		p := w.connect(true)
		first, last := make(chan struct{}), make(chan struct{})
		p.sink.onFlush(blockUntil(first), nothing, nothing, blockUntil(last))
		for i := range 10 {
			p.call(fmt.Sprint(i), "big")
			w.settle()
		}
		require.Empty(w.t, p.frames())
		close(first) // of the nine others three leave with each flush, and the third flush hangs
		require.Len(w.t, p.frames(), 7)
		require.Equal(w.t, counts{"admitted": 10, "sent": 7}, w.counts())
		close(last)
		require.Len(w.t, p.frames(), 10)
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

		time.Sleep(stream.QuickAnswer + w.core.limits.WriteTimeout)
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

// duplicateUnread sends a request with an id that is in flight, and looks at no answer.
func (p *peer) duplicateUnread(id string) {
	p.call(id, "work")
	p.w.settle()
}

// afterASecond is a write to a peer that reads slowly.
func afterASecond(k *scriptSink) error {
	time.Sleep(time.Second)
	k.mu.Lock()
	defer k.mu.Unlock()
	if !time.Now().Before(k.deadline) {
		return &stream.WriteError{Reason: mcp.DropWriteTimeout, Err: io.ErrNoProgress}
	}
	return nil
}

// nothing happens to a flush.
func nothing(*scriptSink) error { return nil }

package session

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// What the events do to a subscription that was acknowledged: state L.

// A subscriber is a gate whose handler acknowledges a subscription before it comes to
// the gate, and ends politely when it is told to.
func (w *world) subscriber(name string) *gate {
	g := &gate{w: w, calls: make(chan *held, 64)}
	w.handle(name, func(ctx context.Context, r *Request) (mcp.Result, error) {
		h := &held{ctx: ctx, r: r, release: make(chan func() (mcp.Result, error), 1), returned: make(chan struct{})}
		defer close(h.returned)
		if err := r.Acknowledge(mcp.NotificationSubscriptionsAcknowledged, []byte(`{}`)); err != nil {
			return nil, err
		}
		g.calls <- h
		select {
		case f := <-h.release:
			return f()
		case <-r.Ending():
			return &textResult{Text: "bye"}, nil
		case <-ctx.Done():
			if cause, _ := mcp.CauseOf(ctx); cause == mcp.CauseServerShutdown || cause == mcp.CauseTransportClose {
				return &textResult{Text: "bye"}, nil
			}
			return nil, context.Cause(ctx)
		}
	})
	w.route(name, func(rt *Route) { rt.Subscription = true })
	return g
}

const ackFrame = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}`

// cancelledFrame is what precedes the answer to a subscription on a byte stream.
func cancelledFrame(id string, end mcp.SubscriptionEnd) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":%q,`+
		`"_meta":{"io.modelcontextprotocol/subscriptionId":%[1]s}}}`, id, end)
}

// changeFrame is the n-th notification that post posts.
func changeFrame(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"n":%d}}`, n)
}

// post posts a notification. The channel is closed when it is done with.
func (h *held) post(n int) (done chan struct{}, err error) {
	done = make(chan struct{})
	err = h.r.Post(mcp.NotificationToolsListChanged, fmt.Appendf(nil, `{"n":%d}`, n), func() { close(done) })
	return done, err
}

// isDone checks whether a channel of post is closed.
func (w *world) isDone(done chan struct{}) bool {
	w.settle()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// listening checks how many subscriptions the snapshot has, all of them undisturbed.
func (w *world) listening(n int) {
	w.t.Helper()
	w.settle()
	snap := w.core.Snapshot()
	require.Len(w.t, snap.Subscriptions, n)
	for _, info := range snap.Subscriptions {
		require.Equal(w.t, "listening", info.State)
	}
	require.EqualValues(w.t, n, w.core.subscriptions.Usage().Used)
}

var listenE1 = []faultCell{
	{state: "L", test: func(w *world) {
		g, p := w.subscriber("listen"), w.connect(false)
		p.send(modernFrame("1", "listen"))
		h := g.next()
		w.listening(1)
		posted, err := h.post(1)
		require.NoError(w.t, err)
		require.True(w.t, w.isDone(posted))
		p.cancel("1", "bored")
		w.settle()
		require.Equal(w.t, "client_cancel", h.cancelled())
		late, err := h.post(2)
		require.ErrorIs(w.t, err, mcp.ErrRequestDone)
		require.True(w.t, w.isDone(late))
		require.Equal(w.t, []string{ackFrame, changeFrame(1)}, p.frames(), "nothing follows the cancel")
		require.Equal(w.t, clientCancelled.with("notification/cancelled", 1), w.counts())
		w.loggedWith("INFO request.cancelled", "reason=bored")
		w.listening(0)
		require.Equal(w.t, mcp.EndClientCancel, h.r.End())

		// What is queued when the cancel comes is withdrawn.
		before, free := w.counts(), make(chan struct{})
		p.sink.on(blockUntil(free))
		p.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
		w.settle()
		p.send(modernFrame("1", "listen"))
		h = g.next()
		posted, err = h.post(3)
		require.NoError(w.t, err)
		require.False(w.t, w.isDone(posted))
		p.cancel("1", "")
		close(free)
		require.True(w.t, w.isDone(posted))
		require.Len(w.t, p.frames(), 3, "the answer to the ping")
		require.Equal(w.t, counts{
			"admitted": 2, "sent": 1, "dropped/cancelled": 1, "cancelled/client_cancel": 1, "notification/cancelled": 2,
		}, w.counts().since(before))
	}},
}

var listenE4 = []faultCell{
	{state: "L", test: func(w *world) {
		g, p := w.subscriber("listen"), w.connect(false)
		work := w.gate("work", false)
		p.send(modernFrame("1", "listen"))
		p.send(modernFrame("2", "work"))
		h, busy := g.next(), work.next()
		began := time.Now()
		p.eof()
		require.Equal(w.t, []string{
			ackFrame, cancelledFrame("1", mcp.EndTransportClose), resultFrame("1", "bye"),
		}, p.frames(), "at once: the client waits for our end")
		require.Empty(w.t, h.cancelled())
		require.Equal(w.t, mcp.EndTransportClose, h.r.End())
		busy.finish("done") // the others have their grace
		<-p.s.Done()
		require.Equal(w.t, resultFrame("2", "done"), p.frames()[3])
		require.Zero(w.t, time.Since(began))
		require.Equal(w.t, counts{"admitted": 2, "sent": 2}, w.counts())
	}},
}

var listenE5 = []faultCell{
	{state: "L", test: func(w *world) {
		g, p := w.subscriber("listen"), w.connect(false)
		p.send(modernFrame("1", "listen"))
		h := g.next()
		w.settle()
		p.sink.on(failWith(mcp.DropBrokenPeer, errReset))
		posted, err := h.post(1)
		require.NoError(w.t, err)
		require.True(w.t, w.isDone(posted))
		require.Equal(w.t, "transport_error", h.cancelled())
		require.Equal(w.t, mcp.EndTransportError, h.r.End())
		late, err := h.post(2)
		require.ErrorIs(w.t, err, mcp.ErrPeerGone)
		require.True(w.t, w.isDone(late))
		require.Equal(w.t, []string{ackFrame}, p.frames())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/broken_peer": 1, "cancelled/transport_error": 1, "notification/broken_peer": 2,
		}, w.counts())
		require.Equal(w.t, 1, w.times("WARN session.peer_lost"))
		w.listening(0)
	}},
}

var listenE6 = []faultCell{
	{state: "L", test: func(w *world) {
		g, p := w.subscriber("listen"), w.connect(false)
		p.send(modernFrame("1", "listen"))
		h := g.next()
		p.s.Close(mcp.CauseServerShutdown)
		<-p.s.Done()
		require.Equal(w.t, "server_shutdown", h.cancelled())
		require.Equal(w.t, []string{ackFrame}, p.frames(), "nothing is written any more")
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/closed_writer": 1, "cancelled/server_shutdown": 1,
		}, w.counts())
	}},
}

var listenE7 = []faultCell{
	{state: "L/modern", test: func(w *world) {
		g := w.subscriber("listen")
		x := w.post(nil, modernFrame("1", "listen"))
		h := g.next()
		w.listening(1)
		x.vanish()
		require.Equal(w.t, "client_disconnect", h.cancelled())
		require.Equal(w.t, mcp.EndClientDisconnect, h.r.End())
		late, err := h.post(1)
		require.Error(w.t, err)
		require.True(w.t, w.isDone(late))
		require.Equal(w.t, []string{ackFrame}, x.frames())
		require.Equal(w.t, disconnected.with("notification/cancelled", 1), w.counts())
		w.listening(0)

		// The writer may learn it first.
		before := w.counts()
		x = w.post(nil, modernFrame("1", "listen"))
		h = g.next()
		w.settle()
		x.sink.on(failWith(mcp.DropBrokenPeer, errReset))
		posted, err := h.post(1)
		require.NoError(w.t, err)
		require.True(w.t, w.isDone(posted))
		require.True(w.t, x.ended())
		require.Equal(w.t, "client_disconnect", h.cancelled())
		require.Equal(w.t, disconnected.with("notification/cancelled", 1), w.counts().since(before))
	}},
}

var listenE11 = []faultCell{
	{state: "L", test: func(w *world) {
		g, work := w.subscriber("listen"), w.gate("work", false)
		p, x := w.connect(false), w.post(nil, modernFrame("1", "listen"))
		p.send(modernFrame("1", "listen"))
		first, second := g.next(), g.next()
		p.send(modernFrame("2", "work"))
		busy := work.next()
		w.settle()
		before := w.counts()
		deadline, done := w.shutdown()
		// First of all, and without a deadline or a cause.
		require.Equal(w.t, []string{ackFrame, resultFrame("1", "bye")}, x.frames())
		require.True(w.t, x.ended())
		require.NoError(w.t, x.err)
		require.Equal(w.t, []string{
			ackFrame, cancelledFrame("1", mcp.EndServerShutdown), resultFrame("1", "bye"),
		}, p.frames(), "the cancellation comes first, and nothing follows the answer")
		require.Equal(w.t, counts{"sent": 2}, w.counts().since(before))
		for _, h := range []*held{first, second} {
			require.Empty(w.t, h.cancelled())
			require.Equal(w.t, mcp.EndServerShutdown, h.r.End())
			late, err := h.post(1)
			require.Error(w.t, err)
			require.True(w.t, w.isDone(late))
		}
		require.Len(w.t, p.frames(), 3)
		require.Len(w.t, x.frames(), 2)
		require.Empty(w.t, busy.cause(), "the others go on")
		deadline()
		require.NoError(w.t, <-done)
	}},
	{state: "L/late", test: func(w *world) {
		g, begun := w.subscriber("listen"), w.stopAt(pointAdmitted, "listen")
		go w.post(nil, modernFrame("1", "listen")) // held before its handler runs
		begun.await()
		_, done := w.shutdown()
		begun.release()
		require.NoError(w.t, <-done)
		select {
		case h := <-g.calls: // it was called before the queue was emptied
			require.Equal(w.t, mcp.EndServerShutdown, h.r.End())
		default:
		}
		require.Equal(w.t, uint64(1), w.counts()["sent"])
	}},
	{state: "L/pipe-context", test: func(w *world) {
		g, p := w.subscriber("listen"), w.connect(false)
		p.send(modernFrame("1", "listen"))
		h := g.next()
		p.s.Finish(mcp.CauseServerShutdown) // the context of ServePipe has ended
		require.Equal(w.t, []string{
			ackFrame, cancelledFrame("1", mcp.EndServerShutdown), resultFrame("1", "bye"),
		}, p.frames())
		require.Equal(w.t, mcp.EndServerShutdown, h.r.End())
		require.Equal(w.t, uint64(1), w.counts()["sent"])
	}},
}

var listenE12 = []faultCell{
	{state: "L", limits: limits.Limits{RequestTimeout: time.Second}, test: func(w *world) {
		g := w.subscriber("listen")
		x := w.post(nil, modernFrame("1", "listen"))
		h := g.next()
		time.Sleep(30 * 24 * time.Hour)
		w.listening(1)
		require.Empty(w.t, h.cancelled())
		posted, err := h.post(1)
		require.NoError(w.t, err)
		require.True(w.t, w.isDone(posted))
		require.Equal(w.t, []string{ackFrame, changeFrame(1)}, x.frames())
		require.Zero(w.t, w.core.Snapshot().OldestAge(), "a subscription is not the oldest request")
		h.finish("bye")
		require.Equal(w.t, []string{ackFrame, changeFrame(1), resultFrame("1", "bye")}, x.frames())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts())
	}},
	{state: "L/unacknowledged", limits: limits.Limits{RequestTimeout: time.Second}, test: func(w *world) {
		acknowledged := make(chan error, 1)
		w.handle("listen", func(ctx context.Context, r *Request) (mcp.Result, error) {
			<-ctx.Done()
			acknowledged <- r.Acknowledge(mcp.NotificationSubscriptionsAcknowledged, []byte(`{}`))
			return nil, context.Cause(ctx)
		})
		w.route("listen", func(rt *Route) { rt.Subscription = true })
		x := w.post(nil, modernFrame("1", "listen"))
		time.Sleep(time.Second)
		require.Len(w.t, x.frames(), 1)
		hasError(w.t, x.frames()[0], "1", mcp.CodeInternalError, "deadline")
		require.ErrorIs(w.t, <-acknowledged, mcp.ErrRequestDone)
		w.listening(0)
	}},
}

var listenE13 = []faultCell{
	{state: "L", test: func(w *world) {
		g, p := w.subscriber("listen"), w.connect(false)
		p.send(modernFrame("1", "listen"))
		h := g.next()
		h.panic("oh")
		require.Len(w.t, p.frames(), 3)
		require.Equal(w.t, cancelledFrame("1", mcp.EndError), p.frames()[1])
		hasError(w.t, p.frames()[2], "1", mcp.CodeInternalError, "")
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "panics": 1}, w.counts())
		require.Equal(w.t, mcp.EndError, h.r.End())
		w.listening(0)
	}},
}

var listenE14 = []faultCell{
	{state: "L", test: func(w *world) {
		g, p := w.subscriber("listen"), w.connect(false)
		p.send(modernFrame("1", "listen"))
		h := g.next()
		p.send(modernFrame("1", "listen"))
		g.empty()
		require.Len(w.t, p.frames(), 2)
		hasError(w.t, p.frames()[1], "", mcp.CodeInvalidRequest, "duplicate_id")
		w.listening(1)
		require.Empty(w.t, h.cancelled())
	}},
}

var listenE16 = []faultCell{
	{state: "L", limits: small, test: func(w *world) {
		g, free := w.subscriber("listen"), make(chan struct{})
		x := w.exchange(1, mcp.Modern)
		x.sink.on(func(*scriptSink) error { return nil }, blockUntil(free))
		w.postOn(x, nil, modernFrame("1", "listen"))
		h := g.next()
		w.settle()
		var posted []chan struct{}
		for n := range 5 { // more than the queue has room for; the handler does not wait
			done, err := h.post(n)
			require.NoError(w.t, err)
			posted = append(posted, done)
		}
		require.False(w.t, w.isDone(posted[0]))
		close(free)
		require.True(w.t, w.isDone(posted[4]))
		require.Equal(w.t, []string{
			ackFrame, changeFrame(0), changeFrame(1), changeFrame(2), changeFrame(3), changeFrame(4),
		}, x.frames())
		require.Equal(w.t, counts{"admitted": 1}, w.counts(), "nothing was dropped")

		// A client that does not read at all loses its subscription.
		x.sink.on(blockUntil(nil))
		done, err := h.post(5)
		require.NoError(w.t, err)
		time.Sleep(w.core.limits.WriteTimeout)
		require.True(w.t, w.isDone(done))
		require.Equal(w.t, "client_disconnect", h.cancelled())
		require.Equal(w.t, disconnected.with("notification/cancelled", 1).with("limit/write_timeout", 1), w.counts())
	}},
}

// with returns the counters with one more.
func (c counts) with(name string, n uint64) counts {
	d := counts{name: n}
	for k, v := range c {
		d[k] = v
	}
	return d
}

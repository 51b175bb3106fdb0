package session

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A subscription gives its slots back when it is acknowledged: its session's, its
// class's and the process's.
func TestSubscriptionHoldsNoSlot(t *testing.T) {
	inWorld(t, limits.Limits{MaxInFlight: 1, MaxInFlightTotal: 1}, func(w *world) {
		g, work := w.subscriber("listen"), w.gate("work", false)
		class := NewClass("one", 1)
		w.route("listen", func(rt *Route) { rt.Subscription, rt.Class = true, class })
		w.route("work", func(rt *Route) { rt.Class = class })
		p := w.connect(false)
		for _, id := range []string{"1", "2", "3"} {
			p.send(modernFrame(id, "listen"))
			g.next()
		}
		p.send(modernFrame("4", "work"))
		h := work.next()
		p.send(modernFrame("5", "work"))
		work.empty() // the slots were given back once, not twice
		p.cancel("1", "")
		p.cancel("2", "")
		work.empty()
		h.finish("done")
		work.next().finish("done")
		w.listening(1)
	})
}

// The limit of its own is one for the process.
func TestMaxSubscriptions(t *testing.T) {
	inWorld(t, limits.Limits{MaxSubscriptions: 2}, func(w *world) {
		g, p := w.subscriber("listen"), w.connect(false)
		p.send(modernFrame("1", "listen"))
		x := w.post(nil, modernFrame("1", "listen"))
		g.next()
		g.next()
		before := w.counts()
		for range 2 {
			y := w.post(nil, modernFrame("2", "listen"))
			require.Len(t, y.frames(), 1)
			hasError(t, y.frames()[0], "2", mcp.CodeInternalError, "overload")
			require.Contains(t, y.frames()[0], `"limit":"max_subscriptions"`)
		}
		require.Equal(t, counts{"rejected/overload": 2, "limit/max_subscriptions": 2}, w.counts().since(before))
		w.listening(2)

		// What is no subscription needs no place, nor does one that a transport refuses.
		in, bad := inbound(httpConn, modernFrame("4", "listen"))
		require.Nil(t, bad)
		in.Refusal = mcp.NewError(mcp.CodeHeaderMismatch, "no")
		z := w.exchange(1, mcp.Modern)
		w.core.Receive(in, z.stream)
		hasError(t, z.frames()[0], "4", mcp.CodeHeaderMismatch, "")
		w.handle("work", func(context.Context, *Request) (mcp.Result, error) { return &textResult{Text: "done"}, nil })
		require.Equal(t, []string{resultFrame("5", "done")}, w.post(nil, modernFrame("5", "work")).frames())

		// A place is free again when one has ended, and no refusal has taken one.
		x.vanish()
		w.listening(1)
		y := w.post(nil, modernFrame("3", "listen"))
		g.next()
		require.Equal(t, []string{ackFrame}, y.frames())
		y.vanish()
		p.cancel("1", "")
		w.listening(0)
	})
}

// A duplicate id, or a drain, gives back the place of what is rejected after it had one.
func TestRejectedSubscriptionLeavesNoPlace(t *testing.T) {
	inWorld(t, limits.Limits{MaxSubscriptions: 2}, func(w *world) {
		g, p := w.subscriber("listen"), w.connect(false)
		p.send(modernFrame("1", "listen"))
		g.next()
		for range 5 {
			p.send(modernFrame("1", "listen"))
		}
		w.listening(1)
		_, done := w.shutdown()
		require.NoError(t, <-done)
		w.post(nil, modernFrame("2", "listen"))
		w.listening(0)
	})
}

// Whoever comes first, the deadline or the acknowledgement, decides: a client never
// sees both an acknowledgement and the error of the deadline.
func TestAcknowledgementAgainstDeadline(t *testing.T) {
	var acknowledged, expired int
	for seed := range 200 {
		inWorld(t, limits.Limits{RequestTimeout: time.Second}, func(w *world) {
			rng := rand.New(rand.NewPCG(1, uint64(seed)))
			w.handle("listen", func(ctx context.Context, r *Request) (mcp.Result, error) {
				time.Sleep(time.Second - time.Duration(rng.IntN(2)))
				if err := r.Acknowledge(mcp.NotificationSubscriptionsAcknowledged, []byte(`{}`)); err != nil {
					return nil, err
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			})
			w.route("listen", func(rt *Route) { rt.Subscription = true })
			x := w.post(nil, modernFrame("1", "listen"))
			time.Sleep(2 * time.Second)
			frames := x.frames()
			require.Len(t, frames, 1)
			if frames[0] == ackFrame {
				acknowledged++
				w.listening(1)
				x.vanish()
				return
			}
			expired++
			hasError(t, frames[0], "1", mcp.CodeInternalError, "deadline")
		})
	}
	require.NotZero(t, acknowledged)
	require.NotZero(t, expired)
}

// A deadline whose timer has fired, and that loses against the acknowledgement, changes
// nothing.
func TestDeadlineAfterAcknowledgement(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		g := w.subscriber("listen")
		x := w.post(nil, modernFrame("1", "listen"))
		h := g.next()
		h.r.expire()
		require.Equal(t, []string{ackFrame}, x.frames())
		require.Empty(t, h.cause())
		require.Equal(t, counts{"admitted": 1}, w.counts())
	})
}

// Only routes for subscriptions can be acknowledged: a mistake of the server room.
func TestAcknowledgeNeedsARoute(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		w.handle("work", func(_ context.Context, r *Request) (mcp.Result, error) {
			return nil, r.Acknowledge("notifications/x", nil)
		})
		x := w.post(nil, modernFrame("1", "work"))
		hasError(t, x.frames()[0], "1", mcp.CodeInternalError, "")
		w.loggedWith("ERROR handler.panic", "the route of tools/call is not one for subscriptions")
	})
}

// The snapshot shows subscriptions apart from the other requests, whatever their state.
func TestSnapshotOfSubscriptions(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		g, work := w.subscriber("listen"), w.gate("work", false)
		x := w.post(nil, modernFrame("1", "listen"))
		h := g.next()
		time.Sleep(time.Hour)
		w.post(nil, modernFrame("2", "work"))
		work.next()
		time.Sleep(time.Second)
		free := make(chan struct{})
		for _, state := range []string{"listening", "writing"} {
			snap := w.core.Snapshot()
			require.Len(t, snap.Requests, 1)
			require.Len(t, snap.Subscriptions, 1)
			require.Equal(t, state, snap.Subscriptions[0].State)
			require.Equal(t, time.Hour+time.Second, snap.Subscriptions[0].Age)
			require.Equal(t, time.Second, snap.OldestAge())
			d, ok := h.r.Acknowledged()
			require.True(t, ok && d == 1, "%v", d) // at once, which is not never
			x.sink.on(blockUntil(free))
			h.finish("bye")
			w.settle()
		}
		close(free)
		require.Len(t, x.frames(), 2)
	})
}

// done is called once for each notification, whatever becomes of it, and none of them
// is written after the answer.
func TestPostsAgainstTheEnd(t *testing.T) {
	for seed := range 300 {
		inWorld(t, limits.Limits{}, func(w *world) {
			rng := rand.New(rand.NewPCG(2, uint64(seed)))
			g, p := w.subscriber("listen"), w.connect(false)
			w.core.hooks = func(point, *Request) { time.Sleep(time.Duration(rng.IntN(3))) }
			p.send(modernFrame("1", "listen"))
			h := <-g.calls
			var done atomic.Int64
			var posters sync.WaitGroup
			const posts = 8
			for n := range posts {
				posters.Go(func() {
					time.Sleep(time.Duration(n % 3))
					_ = h.r.Post("notifications/x", fmt.Appendf(nil, `{"n":%d}`, n), func() { done.Add(1) })
				})
			}
			switch end := rng.IntN(5); end {
			case 0:
				p.cancel("1", "")
			case 1:
				h.finish("bye")
			case 2:
				go p.s.EOF()
			case 3:
				p.sink.on(failWith(mcp.DropBrokenPeer, errReset))
			case 4:
				p.s.Close(mcp.CauseServerShutdown)
			}
			posters.Wait()
			time.Sleep(time.Minute)
			require.EqualValues(t, posts, done.Load())
			for i, frame := range p.frames() {
				if frame == resultFrame("1", "bye") {
					require.Len(t, p.frames(), i+1, "something follows the answer")
					require.Contains(t, p.frames()[i-1], "notifications/cancelled")
				}
			}
		})
	}
}

// A legacy session without a stream cannot be told: the drop is counted, and done called.
func TestSessionPost(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		s := w.open("session")
		done := 0
		post := func() { s.Post(mcp.NotificationToolsListChanged, nil, func() { done++ }) }
		post()
		require.Equal(t, 1, done)
		require.Equal(t, counts{"notification/stream_gone": 1}, w.counts())
		x, _ := w.get(s)
		post()
		require.Equal(t, []string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, x.frames())
		require.Equal(t, 2, done)
		x.leave()
		post()
		require.Equal(t, 3, done)
		s.Close(mcp.CauseSessionDelete)
		<-s.Done()
		post()
		require.Equal(t, 4, done)

		p := w.connect(true)
		p.s.Post(mcp.NotificationToolsListChanged, []byte(`{"n":1}`), nil)
		require.Equal(t, []string{changeFrame(1)}, p.frames())
	})
}

func TestOnClosed(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		p := w.connect(true)
		var order []string
		p.s.OnClosed(func() { order = append(order, "first") })
		p.s.OnClosed(func() { order = append(order, "second") })
		p.s.Close(mcp.CauseServerShutdown)
		<-p.s.Done()
		p.s.OnClosed(func() { order = append(order, "late") })
		require.Equal(t, []string{"first", "second", "late"}, order)
	})
}

// Shutdown waits for the background work of the server room.
func TestGo(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		free := make(chan struct{})
		w.core.Go(func() { <-free })
		_, done := w.shutdown()
		select {
		case <-done:
			t.Fatal("Shutdown has not waited")
		default:
		}
		close(free)
		require.NoError(t, <-done)
	})
}

// A stream that can be resumed keeps what is posted while nobody reads it, each thing
// once: however much changes, it does not drive others out of the store. Whoever comes
// back has all of it, and what changes later is posted again.
func TestSessionPostIsKept(t *testing.T) {
	inWorld(t, limits.Limits{MaxEvents: 50}, func(w *world) {
		w.remember()
		s := w.openAs("session", mcp.Version20251125)
		x, _ := w.get(s)
		n := 0
		post := func(i int) { s.Post(mcp.NotificationToolsListChanged, fmt.Appendf(nil, `{"n":%d}`, i), func() { n++ }) }
		post(0)
		last := x.last()
		require.Equal(t, changeFrame(0), x.frames()[len(x.frames())-1])
		x.vanish()
		for i := range 1000 {
			post(i % 3)
			w.settle()
		}
		require.Equal(t, 1001, n)
		again := w.resume(s, last)
		require.Equal(t, []string{changeFrame(0), changeFrame(1), changeFrame(2)}, again.frames())
		post(2)
		require.Equal(t, changeFrame(2), again.frames()[3], "there is a reader")
		last = again.last()
		again.vanish()
		post(2)
		require.Equal(t, []string{changeFrame(2)}, w.resume(s, last).frames(), "nobody has read this one")
		require.Empty(t, w.counts().but("admitted"))
	})
}

// For a client that is away a change is kept once, and what has happened as often as it has.
func TestPostWhileTheClientIsAway(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		w.remember()
		s := w.open("session")
		x, ok := w.get(s)
		require.True(w.t, ok)
		s.Post("notifications/x", []byte(`{"n":0}`), nil)
		last := x.last()
		x.vanish()
		w.settle()
		for _, n := range []string{"1", "2", "1"} {
			s.Post("notifications/x", []byte(`{"n":`+n+`}`), nil)
			s.PostEach("notifications/y", []byte(`{"n":`+n+`}`), nil)
		}
		var heard []string
		for _, e := range w.resume(s, last).events()[1:] {
			_, frame, _ := strings.Cut(e, `"method":"notifications/`)
			heard = append(heard, strings.NewReplacer(`","params":{"n":`, "", "}", "").Replace(frame))
		}
		require.Equal(w.t, []string{"x1", "y1", "x2", "y2", "y1"}, heard)
	})
}

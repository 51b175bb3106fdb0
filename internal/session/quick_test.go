package session

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A livelySink counts its signs of life.
type livelySink struct {
	*scriptSink
	signs *atomic.Int32
}

func (k livelySink) KeepAlive() error {
	k.signs.Add(1)
	return nil
}

// lively posts a request on an exchange that shows signs of life.
func (w *world) lively(frame string) (x *exchange, signs *atomic.Int32) {
	w.t.Helper()
	x, signs = w.newExchange(1, mcp.Modern), new(atomic.Int32)
	w.postOn(x, nil, frame)
	x.pump(livelySink{x.sink, signs})
	w.settle()
	return x, signs
}

// A writer that waits for nothing but a quick answer does so only as long as one can be
// expected, whatever the request is doing meanwhile.
func TestQuickAnswer(t *testing.T) {
	test := func(name string, f func(w *world)) {
		t.Run(name, func(t *testing.T) { inWorld(t, limits.Limits{}, f) })
	}
	test("in the handler", func(w *world) {
		g := w.gate("work", false)
		x, signs := w.lively(modernFrame("1", "work"))
		h := g.next()
		time.Sleep(2 * keepAlive)
		w.settle()
		require.EqualValues(w.t, 2, signs.Load())
		h.finish("done")
		require.Len(w.t, x.frames(), 1)
	})
	test("after the settle", func(w *world) {
		at := w.stopAt(pointAfterSettle, "work")
		g := w.gate("work", false)
		x, signs := w.lively(modernFrame("1", "work"))
		g.next().finish("done") // and its result takes long to be encoded
		at.await()
		time.Sleep(2 * keepAlive)
		w.settle()
		require.EqualValues(w.t, 2, signs.Load())
		at.release()
		require.Len(w.t, x.frames(), 1)
	})
	test("acknowledged at once", func(w *world) {
		g := w.subscriber("listen")
		x, signs := w.lively(modernFrame("1", "listen"))
		h := g.next()
		require.Equal(w.t, []string{ackFrame}, x.frames())
		time.Sleep(2 * keepAlive)
		w.settle()
		require.EqualValues(w.t, 2, signs.Load())
		h.finish("bye")
		require.True(w.t, x.ended())
	})
}

// A write that blocks is bounded, whether it began as that of a quick answer or not, and however
// the alarm of its request falls.
func TestQuickAnswerIsBounded(t *testing.T) {
	test := func(name string, limits limits.Limits, f func(w *world)) {
		t.Run(name, func(t *testing.T) { inWorld(t, limits, f) })
	}
	unread := func(w *world, x *exchange, began time.Time, late time.Duration) {
		w.t.Helper()
		require.True(w.t, x.ended())
		<-x.done
		require.Equal(w.t, late+w.core.limits.WriteTimeout, x.over.Sub(began))
	}
	blocked := func() *scriptSink { return (&scriptSink{}).on(blockUntil(nil)) }
	test("quick", limits.Limits{}, func(w *world) {
		g := w.gate("work", false)
		began := time.Now()
		x := w.postTo(blocked(), nil, modernFrame("1", "work"))
		g.next().finish("done")
		w.settle()
		require.Zero(w.t, x.sink.bound())
		time.Sleep(time.Hour)
		unread(w, x, began, stream.QuickAnswer)
	})
	test("the alarm just before the write", limits.Limits{}, func(w *world) {
		at := w.stopAt(pointBeforeWrite, "work")
		g := w.gate("work", false)
		began := time.Now()
		x := w.postTo(blocked(), nil, modernFrame("1", "work"))
		g.next().finish("done")
		at.await()
		time.Sleep(stream.QuickAnswer)
		at.release()
		time.Sleep(time.Hour)
		unread(w, x, began, stream.QuickAnswer)
	})
	test("slow", limits.Limits{}, func(w *world) {
		g := w.gate("work", false)
		x := w.postTo(blocked(), nil, modernFrame("1", "work"))
		h := g.next()
		time.Sleep(time.Second)
		began := time.Now()
		h.finish("done")
		time.Sleep(time.Hour)
		unread(w, x, began, 0)
	})
	test("a deadline that comes sooner", limits.Limits{RequestTimeout: stream.QuickAnswer / 2}, func(w *world) {
		w.gate("work", false)
		began := time.Now()
		x := w.postTo(blocked(), nil, modernFrame("1", "work"))
		time.Sleep(time.Hour)
		unread(w, x, began, stream.QuickAnswer/2)
	})
	test("not admitted", limits.Limits{MaxInFlightTotal: 1, MaxQueue: 1}, func(w *world) {
		g := w.gate("work", false)
		w.post(nil, modernFrame("1", "work"))
		h := g.next()
		w.post(nil, modernFrame("2", "work"))
		began := time.Now()
		x := w.postTo(blocked(), nil, modernFrame("3", "work"))
		time.Sleep(w.core.limits.WriteTimeout)
		unread(w, x, began, 0)
		h.finish("done")
		g.next().finish("done")
		w.settle()
	})
	test("a batch whose one request has left", limits.Limits{}, func(w *world) {
		w.gate("work", false)
		s := w.openBatching("session-1")
		x := w.newExchange(1, mcp.Legacy)
		x.sink = blocked()
		s.ReceiveBatchOn(batchOf(httpConn, callFrame("1", "work"), cancelFrame("1", ""), callFrame("1", "work")), x.stream, false)
		w.settle()
		began := time.Now()
		x.pump(x.sink)
		time.Sleep(time.Hour)
		unread(w, x, began, 0)
	})
	test("at the end of a drain", limits.Limits{CleanupGrace: stream.QuickAnswer / 5}, func(w *world) {
		g := w.gate("work", false)
		x := w.postTo(blocked(), nil, modernFrame("1", "work"))
		g.next().finish("done")
		w.settle()
		began := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.core.Shutdown(ctx)
		require.True(w.t, x.ended())
		require.Less(w.t, x.over.Sub(began), stream.QuickAnswer)
	})
	test("a subscription", limits.Limits{}, func(w *world) {
		g := w.subscriber("listen")
		began := time.Now()
		x := w.postTo(blocked(), nil, modernFrame("1", "listen"))
		g.next()
		time.Sleep(time.Hour)
		unread(w, x, began, 0)
	})
}

// The alarm of a request rings again at its deadline, even if it has rung for the first time
// before the request knew it.
func TestAlarmRingsTwice(t *testing.T) {
	for _, known := range []bool{true, false} {
		inWorld(t, limits.Limits{}, func(w *world) {
			g := w.gate("work", false)
			x := w.post(nil, modernFrame("1", "work"))
			h := g.next()
			a := h.r.alarm.Load()
			if !known {
				h.r.alarm.Store(nil)
			}
			time.Sleep(stream.QuickAnswer)
			w.settle()
			h.r.alarm.Store(a)
			time.Sleep(w.core.limits.RequestTimeout)
			w.settle()
			require.Equal(w.t, "deadline", h.cause(), "known: %t", known)
			require.Len(w.t, x.frames(), 1)
			h.finish("late")
			w.settle()
		})
	}
}

// postTo posts a request on an exchange with that wire.
func (w *world) postTo(sink *scriptSink, s *Session, frame string) *exchange {
	w.t.Helper()
	x := w.newExchange(1, mcp.Modern)
	x.sink = sink
	w.postOn(x, s, frame)
	x.pump(sink)
	w.settle()
	return x
}

// bound returns the deadline of the latest write, zero for none.
func (k *scriptSink) bound() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.deadline
}

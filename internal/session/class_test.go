package session

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// slowClass routes "work" to a class with one slot.
func (w *world) slowClass() *Class {
	class := NewClass("slow", 1)
	w.core.UseClass(class)
	w.route("work", func(rt *Route) { rt.Class = class })
	return class
}

// A request that finds the queue full learns which class fills it, and so do the log and the metric of
// limits.
func TestFullQueueNamesTheClass(t *testing.T) {
	inWorld(t, limits.Limits{MaxQueue: 2}, func(w *world) {
		g := w.gate("work", false)
		w.slowClass()
		for i := range 3 {
			w.postFrom(from(greedyAddr), nil, modernFrame(fmt.Sprint(i), "work"))
			w.settle()
		}
		state := mcp.ClassState{Name: "slow", Limit: 1, InUse: 1, Queued: 2}
		require.Equal(t, []mcp.ClassState{state}, w.core.Snapshot().Classes)
		x := w.postFrom(from(greedyAddr), nil, modernFrame("3", "work"))
		require.Len(t, x.frames(), 1)
		require.Contains(t, x.frames()[0], `max_queue (2) is reached: class \"slow\" has 1 of 1 slots in use, and 2 requests wait for it`)
		require.Contains(t, x.frames()[0], `"limit":"max_queue","class":{"name":"slow","limit":1,"inUse":1,"queued":2}`)
		require.Equal(t, uint64(1), w.counts()["limit/max_queue"])
		require.Equal(t, uint64(1), w.counts()["limit/class:slow"])
		w.loggedWith("INFO request.rejected", "concurrency_class=slow", "limit=max_queue", "class_limit=1", "class_in_use=1", "class_queued=2")

		displaced := w.postFrom(from(modestAddr), nil, modernFrame("4", "work")) // takes a place of the other caller
		require.Empty(t, displaced.frames())
		require.Equal(t, uint64(2), w.counts()["limit/class:slow"])
		w.loggedWith("INFO request.displaced", "concurrency_class=slow", "limit=max_queue", "class_queued=")
		for range 3 {
			g.next().finish("done")
		}
	})
}

// The deadline of a request that still waits says for which class, and the counters say that its
// handler was not called.
func TestDeadlineOfAQueuedRequestNamesTheClass(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		g := w.gate("work", true) // keeps its slot after its deadline
		w.slowClass()
		w.routes["work"].Deadline = time.Second
		running := w.postFrom(from(greedyAddr), nil, modernFrame("1", "work"))
		held := g.next()
		queued := w.postFrom(from(modestAddr), nil, modernFrame("2", "work"))
		time.Sleep(time.Second)
		w.settle()
		require.Len(t, queued.frames(), 1)
		require.Contains(t, queued.frames()[0], `"phase":"queued"`)
		require.Contains(t, queued.frames()[0], `"class":{"name":"slow","limit":1,"inUse":`)
		require.Len(t, running.frames(), 1)
		require.NotContains(t, running.frames()[0], `"class"`)
		w.loggedWith("WARN request.deadline", "concurrency_class=slow", "started=false", "class_limit=1")
		require.Equal(t, map[CancelledIn]uint64{
			{mcp.CauseDeadline, "queued"}: 1, {mcp.CauseDeadline, "running"}: 1,
		}, w.core.Snapshot().Counters.Series[0].Cancelled)
		held.finish("late")
	})
}

// A cancellation is counted with the phase in which the request was.
func TestCancellationsHaveThePhase(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		g := w.gate("work", false)
		w.handle("ask", func(ctx context.Context, r *Request) (mcp.Result, error) {
			_, err := r.Ask(ctx, mcp.MethodRootsList, nil)
			return nil, err
		})
		w.slowClass()
		p := w.connect(true)
		p.call("1", "work")
		g.next()
		p.call("2", "work")
		p.call("3", "ask")
		w.settle()
		for _, id := range []string{"2", "1", "3"} {
			p.cancel(id, "")
			w.settle()
		}
		got := map[CancelledIn]uint64{}
		for _, s := range w.core.Snapshot().Counters.Series {
			addAll(got, s.Cancelled)
		}
		require.Equal(t, map[CancelledIn]uint64{
			{mcp.CauseClientCancel, "queued"}: 1, {mcp.CauseClientCancel, "running"}: 1, {mcp.CauseClientCancel, "blocked"}: 1,
		}, got)
	})
}

// yieldingClass is slowClass for "ask", which asks its client, and for "work".
func (w *world) yieldingClass(yields bool) (a *asker, g *gate, inUse func() int) {
	a, g = w.asker("ask", false), w.gate("work", false)
	class := w.slowClass()
	w.route("ask", func(rt *Route) { rt.Class, rt.YieldsClass = class, yields })
	return a, g, func() int {
		w.settle()
		return w.core.stateOf(class).InUse
	}
}

// stateOf returns the state of a request in flight.
func (w *world) stateOf(id string) string {
	w.settle()
	for _, r := range w.core.Snapshot().Requests {
		if r.Request.ID.String() == id {
			return r.State
		}
	}
	return "not in flight"
}

// A handler keeps the slot of its class while it asks, unless its route yields.
func TestClassSlotIsKeptWhileAsking(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		a, _, inUse := w.yieldingClass(false)
		p := w.connect(true)
		p.call("1", "ask")
		a.blocked()
		require.Equal(t, 1, inUse())
		p.send(replyFrame("1", `{}`))
		a.answer()
		a.next().finish("done")
		require.Zero(t, inUse())
	})
}

// A handler whose route yields has no slot of its class while it asks, and waits for one before it goes
// on.
func TestYieldedClassSlotIsTakenAgain(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		a, g, inUse := w.yieldingClass(true)
		p := w.connect(true)
		p.call("1", "ask")
		a.blocked()
		require.Zero(t, inUse())
		p.call("2", "work")
		held := g.next()
		require.Equal(t, 1, inUse())
		require.Equal(t, "blocked", w.stateOf("1"))
		p.send(replyFrame("1", `{}`))
		require.Equal(t, "queued", w.stateOf("1"), "another request has the slot")
		require.Equal(t, 1, w.core.Snapshot().Classes[0].Queued)
		held.finish("done")
		require.NoError(t, a.answer().err)
		require.Equal(t, 1, inUse())
		require.Equal(t, "running", w.stateOf("1"))
		a.next().finish("done")
		require.Zero(t, inUse())
	})
}

// A request that is cancelled while it waits for the slot that it has yielded was started, and takes none.
func TestYieldedClassSlotIsNotTakenAfterCancel(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		a, g, inUse := w.yieldingClass(true)
		p := w.connect(true)
		p.call("1", "ask")
		a.blocked()
		p.call("2", "work")
		held := g.next()
		p.send(replyFrame("1", `{}`))
		require.Equal(t, "queued", w.stateOf("1"))
		p.cancel("1", "")
		require.ErrorIs(t, a.answer().err, mcp.ErrClientCancelled)
		w.loggedWith("INFO request.cancelled", "started=true")
		require.Equal(t, 1, inUse())
		held.finish("done")
		require.Zero(t, inUse())
	})
}

// A handler that asks from two goroutines has its slot again when the last of them has its answer, and
// gives it back once.
func TestYieldedClassSlotOfTwoQuestions(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		release := make(chan struct{})
		w.handle("ask", func(ctx context.Context, r *Request) (mcp.Result, error) {
			for range 2 {
				go func() { _, _ = r.Ask(ctx, mcp.MethodRootsList, nil) }()
			}
			<-release
			return &textResult{}, nil
		})
		class := w.slowClass()
		w.route("ask", func(rt *Route) { rt.Class, rt.YieldsClass = class, true })
		inUse := func() int {
			w.settle()
			return w.core.stateOf(class).InUse
		}
		p := w.connect(true)
		for _, answered := range []bool{true, false} { // or the handler returns while both wait
			id := map[bool]string{true: "1", false: "2"}[answered]
			p.call(id, "ask")
			require.Zero(t, inUse())
			if answered {
				p.send(replyFrame("1", `{}`))
				require.Zero(t, inUse())
				p.send(replyFrame("2", `{}`))
				require.Equal(t, 1, inUse())
			}
			release <- struct{}{}
			require.Zero(t, inUse())
			require.Equal(t, "not in flight", w.stateOf(id))
		}
	})
}

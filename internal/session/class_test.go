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

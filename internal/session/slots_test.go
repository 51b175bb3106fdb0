package session

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// TestSlowClassLeavesSlots holds that requests which wait for a class hold no slot of
// their session or of the process (invariant I13).
func TestSlowClassLeavesSlots(t *testing.T) {
	inWorld(t, limits.Limits{MaxInFlight: 2, MaxInFlightTotal: 2}, func(w *world) {
		slow, quick := w.gate("slow", false), w.gate("quick", false)
		class := NewClass("slow", 1)
		w.route("slow", func(rt *Route) { rt.Class = class })
		p := w.connect(true)
		for _, id := range []string{"1", "2", "3"} {
			p.call(id, "slow")
			w.settle()
		}
		h := slow.next()
		slow.empty()
		p.call("4", "quick")
		quick.next().finish("quick")
		require.Equal(t, []string{resultFrame("4", "quick")}, p.frames())
		h.finish("slow")
		slow.next().finish("slow")
		slow.next().finish("slow")
		require.Len(t, p.frames(), 4)
	})
}

func TestSlotsAreAllOrNone(t *testing.T) {
	callers := share.NewTable()
	session, process, c := semaphore.NewWeighted(1), share.NewPool(1), callers.Get(share.KeyOfConnection())
	var first, second slots
	for _, s := range []*slots{&first, &second} {
		s.caller, s.session, s.process = c, session, process
	}
	require.True(t, process.TryAcquire(c))
	require.False(t, first.try())
	require.True(t, session.TryAcquire(1), "the slot that was free was given back")
	session.Release(1)
	process.Release(c)
	require.True(t, first.try())
	require.False(t, second.try())
	first.give()
	first.give()
	require.True(t, second.try())
	second.give()
	require.Zero(t, process.Usage().Used)
}

// TestSlotIsFreeBeforeTheAnswer holds that a client which has read its answer finds
// room for its next request, even with one slot and nowhere to wait.
func TestSlotIsFreeBeforeTheAnswer(t *testing.T) {
	inWorld(t, limits.Limits{MaxInFlight: 1}, func(w *world) {
		free := false
		w.core.hooks = func(p point, r *Request) {
			if p == pointAfterSettle {
				if free = r.slots.try(); free {
					r.slots.give()
				}
			}
		}
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		g.next().finish("done")
		require.Len(t, p.frames(), 1)
		require.True(t, free, "the slot is taken when the answer is queued")
	})
}

// A session with a long queue leaves room for the others.
func TestQueueIsShared(t *testing.T) {
	inWorld(t, limits.Limits{MaxInFlight: 1, MaxQueue: 4, MaxQueuePerSession: 3}, func(w *world) {
		g := w.gate("work", false)
		greedy, modest := w.connect(true), w.connect(true)
		modest.call("0", "work")
		g.next()
		for i := range 6 {
			greedy.call(fmt.Sprint(i), "work")
		}
		w.settle()
		require.Len(t, greedy.frames(), 2)
		for _, frame := range greedy.frames() {
			require.Contains(t, frame, `"limit":"max_queue_per_session"`)
		}
		modest.call("1", "work")
		require.Empty(t, modest.frames())
		modest.call("2", "work") // now it is everybody's queue that is full, and greedy has most of it
		require.Empty(t, modest.frames())
		require.Len(t, greedy.frames(), 3)
		hasError(t, greedy.frames()[2], "3", mcp.CodeInternalError, "overload")
		require.Contains(t, greedy.frames()[2], `"limit":"max_queue"`)
		w.logged("INFO request.displaced")
		modest.call("3", "work")
		require.Len(t, modest.frames(), 1, "they have the same share")
		require.Contains(t, modest.frames()[0], `"limit":"max_queue"`)
	})
}

package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Two callers of the tests, by their addresses.
const (
	greedyAddr = "192.0.2.66"
	modestAddr = "192.0.2.1"
)

// callAndLeave lets a caller make n legacy calls over one session, and hang up at once.
func (w *world) callAndLeave(addr, session string, n int) *Session {
	w.t.Helper()
	s, _, err := w.core.Open(from(addr), session)
	require.Nil(w.t, err)
	s.Initialize(&Peer{Version: mcp.Version20251125})
	s.Initialized()
	for i := range n {
		w.postFrom(from(addr), s, callFrame(fmt.Sprint(i), "work")).vanish()
	}
	return s
}

// E21: the server is full.
var cellsE21 = []faultCell{
	{state: "reserve", limits: limits.Limits{MaxInFlightTotal: 16}, test: func(w *world) {
		g, quick := w.gate("work", false), w.gate("quick", false)
		for range 20 {
			w.postFrom(from(greedyAddr), nil, modernFrame("1", "work"))
		}
		w.settle()
		require.Len(w.t, g.calls, 15)
		x := w.postFrom(from(modestAddr), nil, modernFrame("1", "quick"))
		quick.next().finish("quick")
		require.Equal(w.t, []string{resultFrame("1", "quick")}, x.frames())
		require.Len(w.t, g.calls, 15, "the slot is kept for others again")
	}},
	{state: "orphans", limits: limits.Limits{MaxInFlightTotal: 16, MaxInFlight: 4}, test: func(w *world) {
		g, quick := w.gate("work", false), w.gate("quick", false)
		for i := range 4 {
			w.callAndLeave(greedyAddr, fmt.Sprint("session-", i), 4)
		}
		w.settle()
		require.Len(w.t, g.calls, 15)
		x := w.postFrom(from(modestAddr), nil, modernFrame("1", "quick"))
		quick.next().finish("quick")
		require.Equal(w.t, []string{resultFrame("1", "quick")}, x.frames())
		time.Sleep(w.core.limits.OrphanGrace)
		w.settle()
		require.Zero(w.t, w.core.slots.Usage().Used, "nobody waits for them")
		require.Equal(w.t, uint64(16), w.counts()["cancelled/client_disconnect"])
	}},
	{state: "control", limits: limits.Limits{MaxInFlightTotal: 1, MaxInFlight: 1, MaxQueue: 1}, test: func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		p.call("1", "work")
		g.next()
		p.call("2", "work")
		p.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
		require.Equal(w.t, []string{`{"jsonrpc":"2.0","id":3,"result":{}}`}, p.frames())
		s, _, err := w.core.Open(from(modestAddr), "session")
		require.Nil(w.t, err)
		x := w.postFrom(from(modestAddr), s, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
		require.Equal(w.t, []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}, x.frames())
		p.cancel("1", "")
		require.Equal(w.t, "2", g.next().r.ID.String(), "nor does a cancel wait")
	}},
	{state: "capped", limits: limits.Limits{MaxInFlightTotal: 16, MaxInFlightPerCaller: 2}, test: func(w *world) {
		g, class := w.gate("work", false), NewClass("small", 16)
		class.Cap(1)
		w.core.UseClass(class)
		for i := range 3 {
			w.postFrom(from(greedyAddr), nil, modernFrame(fmt.Sprint(i), "work"))
		}
		w.postFrom(from(modestAddr), nil, modernFrame("3", "work"))
		w.settle()
		require.Len(w.t, g.calls, 3, "two of greedy, and that of modest")
		w.route("work", func(rt *Route) { rt.Class = class })
		for range 2 {
			w.postFrom(from("192.0.2.99"), nil, modernFrame("4", "work"))
		}
		w.settle()
		require.Len(w.t, g.calls, 4)
		shares := map[string]ShareInfo{}
		for _, s := range w.core.Snapshot().Shares {
			shares[s.Limit] = s
		}
		require.Equal(w.t, share.Usage{Size: 16, Used: 4, Holders: 3, Waiting: 1, Waiters: 1}, shares[limits.NameInFlightTotal].Usage)
		require.Equal(w.t, share.Usage{Size: 16, Used: 1, Holders: 1, Waiting: 1, Waiters: 1}, shares["class:small"].Usage)
		require.Equal(w.t, share.Usage{Size: 4096, Used: 2, Holders: 2, Waiting: 2, Waiters: 2}, shares[limits.NameQueue].Usage)
		require.Equal(w.t, 2, shares[limits.NameInFlightTotal].Largest)
		require.Equal(w.t, greedyAddr, shares[limits.NameInFlightTotal].Caller.String())
		for range 6 {
			g.next().finish("done")
		}
	}},
	{state: "Q/turn", limits: limits.Limits{MaxInFlightTotal: 1}, test: func(w *world) {
		g := w.gate("work", false)
		for i := range 5 {
			w.postFrom(from(greedyAddr), nil, modernFrame(fmt.Sprint(i), "work"))
			w.settle()
		}
		for i := range 2 {
			w.postFrom(from(modestAddr), nil, modernFrame(fmt.Sprint("1", i), "work"))
			w.settle()
		}
		var order []string
		for range 7 {
			h := g.next()
			order = append(order, h.r.ID.String())
			h.finish("done")
		}
		require.Equal(w.t, []string{"0", "1", "10", "2", "11", "3", "4"}, order)
	}},
	{state: "Q/late", limits: limits.Limits{MaxInFlightTotal: 1}, test: func(w *world) {
		g := w.gate("work", false)
		var all []*exchange
		for i := range 4 {
			all = append(all, w.postFrom(from(greedyAddr), nil, modernFrame(fmt.Sprint(i), "work")))
			w.settle()
		}
		time.Sleep(limits.Limits{}.WithDefaults().RequestTimeout/2 + time.Nanosecond)
		all = append(all, w.postFrom(from(greedyAddr), nil, modernFrame("4", "work")))
		g.next().finish("done")
		w.settle()
		for i := range 3 {
			require.Len(w.t, all[i+1].frames(), 1)
			hasError(w.t, all[i+1].frames()[0], fmt.Sprint(i+1), mcp.CodeInternalError, "overload")
			require.Contains(w.t, all[i+1].frames()[0], `"limit":"max_queue_wait"`)
		}
		w.loggedWith("INFO request.shed", "caller="+greedyAddr, "limit=max_queue_wait")
		g.next().finish("done")
		require.Contains(w.t, all[4].frames()[0], "done")
		require.Equal(w.t, counts{"admitted": 5, "sent": 5, "limit/max_queue_wait": 3}, w.counts())
	}},
	{state: "Q/late-alone", limits: limits.Limits{MaxInFlightTotal: 1}, test: func(w *world) {
		g := w.gate("work", false)
		for i := range 2 {
			w.postFrom(from(greedyAddr), nil, modernFrame(fmt.Sprint(i), "work"))
			w.settle()
		}
		time.Sleep(limits.Limits{}.WithDefaults().RequestTimeout - time.Second)
		for range 2 {
			g.next().finish("done")
		}
		w.settle()
		require.Equal(w.t, counts{"admitted": 2, "sent": 2}, w.counts())
	}},
	{state: "Q/overload", test: func(w *world) {
		const slots, seconds, calls = 4, 60, 40 // ten times what the class can do in a second
		class := NewClass("slow", slots)
		w.core.UseClass(class)
		w.handle("work", func(ctx context.Context, _ *Request) (mcp.Result, error) {
			select {
			case <-time.After(time.Second):
				return &textResult{Text: "done"}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		w.route("work", func(rt *Route) { rt.Class, rt.Deadline = class, 10*time.Second })
		var greedy, modest []*exchange
		for i := range seconds * calls {
			greedy = append(greedy, w.postFrom(from(greedyAddr), nil, modernFrame(fmt.Sprint(i), "work")))
			if i%(2*calls) == 0 {
				modest = append(modest, w.postFrom(from(modestAddr), nil, modernFrame("0", "work")))
			}
			time.Sleep(time.Second / calls)
		}
		time.Sleep(10 * time.Second)
		done, late, all := 0, uint64(0), uint64(len(greedy)+len(modest))
		for _, x := range greedy {
			frame := x.frames()[0]
			if strings.Contains(frame, "done") {
				done++
			}
			if strings.Contains(frame, `max_queue_wait (50) is reached: class \"slow\" has`) {
				late++
			}
		}
		require.Greater(w.t, done, (slots-1)*seconds*9/10, "one slot is kept for others")
		counted := w.counts()
		delete(counted, "limit/class:slow") // if all of its slots were held at that moment
		require.Equal(w.t, counts{"admitted": all, "sent": all, "limit/max_queue_wait": late}, counted)
		for _, x := range modest {
			require.Contains(w.t, x.frames()[0], "done")
		}
	}},
	{state: "Q/displaced", limits: limits.Limits{MaxInFlightTotal: 1, MaxQueue: 2}, test: func(w *world) {
		g := w.gate("work", false)
		var greedy []*exchange
		for i := range 3 {
			greedy = append(greedy, w.postFrom(from(greedyAddr), nil, modernFrame(fmt.Sprint(i), "work")))
			w.settle()
		}
		modest := w.postFrom(from(modestAddr), nil, modernFrame("1", "work"))
		require.Empty(w.t, modest.frames())
		require.Len(w.t, greedy[2].frames(), 1)
		hasError(w.t, greedy[2].frames()[0], "2", mcp.CodeInternalError, "overload")
		require.Contains(w.t, greedy[2].frames()[0], `"limit":"max_queue"`)
		require.True(w.t, greedy[2].ended())
		require.Equal(w.t, counts{"admitted": 4, "sent": 1, "limit/max_queue": 1}, w.counts())
		require.Equal(w.t, uint64(1), w.core.Snapshot().Counters.Displaced)
		w.loggedWith("INFO request.displaced", "caller="+greedyAddr)
		for range 3 {
			g.next().finish("done")
		}
		require.Len(w.t, modest.frames(), 1)
	}},
	{state: "Q/displaced-batch", limits: limits.Limits{MaxInFlightTotal: 1, MaxQueue: 2}, test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(false)
		p.s.Initialize(&Peer{Version: mcp.Version20250326})
		p.s.Initialized()
		p.s.ReceiveBatch(batchOf(p.s.conn, callFrame("1", "work"), callFrame("2", "work"), callFrame("3", "work")))
		w.settle()
		w.postFrom(from(modestAddr), nil, modernFrame("1", "work"))
		for range 3 {
			g.next().finish("done")
		}
		require.Len(w.t, p.frames(), 1, "its error waits for the rest of the array")
		require.Contains(w.t, p.frames()[0], `"limit":"max_queue"`)
	}},
	{state: "Q/class", limits: limits.Limits{MaxInFlightTotal: 4, MaxQueue: 4}, test: func(w *world) {
		stuck, g := w.gate("stuck", false), w.gate("work", false)
		class := NewClass("stuck", 1)
		w.route("stuck", func(rt *Route) { rt.Class = class })
		for i := range 5 { // of different callers
			w.postFrom(from(fmt.Sprint("192.0.2.", i)), nil, modernFrame("1", "stuck"))
			w.settle()
		}
		stuck.next()
		require.Equal(w.t, 4, w.core.waiting.Len(), "the queue is full")
		var others []*exchange
		for i := range 5 {
			others = append(others, w.postFrom(from(fmt.Sprint("192.0.2.1", i)), nil, modernFrame("1", "work")))
			w.settle()
		}
		require.Len(w.t, g.calls, 3)
		require.Equal(w.t, 4, w.core.waiting.Len())
		require.Empty(w.t, others[4].frames(), "it waits in the place of one that waits for the class")
		require.Equal(w.t, uint64(2), w.core.Snapshot().Counters.Displaced)
	}},
	{state: "unread", limits: limits.Limits{MaxUnread: 16}, test: func(w *world) {
		g := w.gate("work", false)
		for range 20 {
			x := w.postFrom(from(greedyAddr), nil, modernFrame("1", "work"))
			w.settle()
			if len(g.calls) > 0 {
				x.sink.on(blockUntil(nil))
				g.next().finish("unread")
				w.settle()
			}
		}
		require.Equal(w.t, 15, w.core.unread.Total())
		require.Equal(w.t, uint64(5), w.counts()["limit/max_unread"])
		x := w.postFrom(from(modestAddr), nil, modernFrame("1", "work"))
		g.next().finish("read")
		require.Equal(w.t, []string{resultFrame("1", "read")}, x.frames())
	}},
	{state: "L", limits: limits.Limits{MaxSubscriptions: 16}, test: func(w *world) {
		w.calls(nil, 0)
		w.route("work", func(rt *Route) { rt.Subscription = true })
		for range 20 {
			w.postFrom(from(greedyAddr), nil, modernFrame("1", "work"))
		}
		w.settle()
		require.Equal(w.t, 15, w.core.subscriptions.Usage().Used)
		w.postFrom(from(modestAddr), nil, modernFrame("1", "work"))
		w.settle()
		require.Equal(w.t, 16, w.core.subscriptions.Usage().Used)
	}},
	{state: "task", limits: limits.Limits{MaxRunningTasks: 16}, test: func(w *world) {
		g := w.gate("work", false)
		detach := func(addr string) (*Detached, *mcp.Error) {
			w.postFrom(from(addr), nil, modernFrame("1", "work"))
			h := g.next()
			d, err := w.core.Detach(h.ctx, h.r, "task", time.Now().Add(time.Minute))
			h.finish("detached")
			w.settle()
			return d, err
		}
		var running []*Detached
		for range 15 {
			d, err := detach(greedyAddr)
			require.Nil(w.t, err)
			running = append(running, d)
		}
		_, err := detach(greedyAddr)
		require.NotNil(w.t, err)
		d, err := detach(modestAddr)
		require.Nil(w.t, err)
		for _, d := range append(running, d) {
			d.Done(DetachedEnd{})
		}
	}},
	{state: "saturated", limits: limits.Limits{MaxInFlightTotal: 2, MaxQueue: 4}, test: func(w *world) {
		grace := w.core.limits.SaturationGrace
		g := w.gate("work", false)
		for i := range 7 {
			w.postFrom(from(fmt.Sprint("192.0.2.", i)), nil, modernFrame("1", "work"))
			w.settle()
		}
		time.Sleep(grace - time.Nanosecond)
		require.Zero(w.t, w.core.Saturated())
		time.Sleep(time.Nanosecond)
		require.Equal(w.t, grace, w.core.Saturated())
		for range 6 {
			g.next().finish("done")
		}
		w.settle()
		require.NotZero(w.t, w.core.Saturated(), "it may be full again in a moment")
		time.Sleep(grace)
		require.Zero(w.t, w.core.Saturated())
	}},
	{state: "saturated/one-caller", limits: limits.Limits{MaxInFlightTotal: 4, MaxQueue: 4}, test: func(w *world) {
		w.calls(nil, 0)
		for range 10 {
			w.postFrom(from(greedyAddr), nil, modernFrame("1", "work"))
			w.settle()
		}
		time.Sleep(2 * w.core.limits.SaturationGrace)
		require.Zero(w.t, w.core.Saturated(), "there is a slot for others")
	}},
	{state: "saturated/class", limits: limits.Limits{MaxInFlightTotal: 4, MaxQueue: 4}, test: func(w *world) {
		w.calls(nil, 0)
		class := NewClass("stuck", 1)
		w.route("work", func(rt *Route) { rt.Class = class })
		for i := range 10 {
			w.postFrom(from(fmt.Sprint("192.0.2.", i)), nil, modernFrame("1", "work"))
			w.settle()
		}
		time.Sleep(2 * w.core.limits.SaturationGrace)
		require.Zero(w.t, w.core.Saturated(), "the slots are free")
	}},
	{state: "saturated/off", limits: limits.Limits{MaxInFlightTotal: 1, MaxQueue: 1, SaturationGrace: -1}, test: func(w *world) {
		w.calls(nil, 0)
		for i := range 3 {
			w.postFrom(from(fmt.Sprint("192.0.2.", i)), nil, modernFrame("1", "work"))
			w.settle()
		}
		time.Sleep(time.Minute - 1)
		require.Zero(w.t, w.core.Saturated())
	}},
}

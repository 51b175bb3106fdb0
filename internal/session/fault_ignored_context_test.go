package session

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// E18: a handler that ignores its context.
var cellsE18 = []faultCell{
	{state: "abandoned", test: func(w *world) {
		g := w.gate("work", true)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		time.Sleep(time.Second)
		p.s.Close(mcp.CauseServerShutdown)
		time.Sleep(w.core.limits.CleanupGrace - time.Nanosecond)
		w.settle()
		require.NotContains(w.t, w.log.lines(), "WARN handlers.abandoned")
		time.Sleep(time.Nanosecond)
		<-p.s.Done() // the teardown goes on without it
		require.ErrorIs(w.t, p.s.Abandoned(), ErrAbandoned)
		require.ErrorContains(w.t, p.s.Abandoned(), "tools/call work (id 1, 1.5s)")
		w.loggedWith("WARN handlers.abandoned", "method=tools/call", "id=1", "target=work", "age=1.5s", "cause=server_shutdown")
		w.loggedWith("INFO session.closed", "abandoned=1")
		want := counts{
			"admitted": 1, "dropped/closed_writer": 1, "cancelled/server_shutdown": 1, "abandoned/server_shutdown": 1,
		}
		require.Equal(w.t, want, w.counts())
		requests := w.core.Snapshot().Requests
		require.Len(w.t, requests, 1, "the gauge")
		require.True(w.t, requests[0].Abandoned)
		require.Equal(w.t, "cancelled", requests[0].State)

		time.Sleep(time.Hour)
		h.finish("late")
		w.settle()
		require.Empty(w.t, w.core.Snapshot().Requests, "until it returns")
		w.loggedWith("INFO handler.returned", "id=1")
		require.Equal(w.t, want, w.counts(), "counted once")
		require.Equal(w.t, 1, w.times("WARN handlers.abandoned"))
	}},
	{state: "sends", test: func(w *world) {
		g := w.gate("work", true)
		w.route("timed", func(rt *Route) { rt.Deadline, rt.Handle = time.Second, w.inner("work") })
		p, s := w.connect(true), w.open("session-1")
		p.call("1", "work")
		cancelled := g.next()
		p.call("2", "timed")
		expired := g.next()
		x := w.post(s, callFrame("3", "work"))
		deleted := g.next()
		p.cancel("1", "")
		s.Close(mcp.CauseSessionDelete)
		time.Sleep(time.Second)
		w.settle()
		sent := len(p.frames())
		for _, c := range []struct {
			h    *held
			drop string
		}{{cancelled, "cancelled"}, {expired, "after_response"}, {deleted, "session_gone"}} {
			before, now := w.counts(), time.Now()
			require.ErrorIs(w.t, c.h.r.Notify(mcp.NotificationProgress, nil, "token"), mcp.ErrRequestDone)
			_, err := c.h.r.Ask(context.Background(), mcp.MethodRootsList, nil)
			require.Error(w.t, err)
			require.Zero(w.t, time.Since(now), "at once")
			require.Equal(w.t, counts{"notification/" + c.drop: 1}, w.counts().since(before))
		}
		_, err := cancelled.r.Ask(context.Background(), mcp.MethodRootsList, nil)
		require.ErrorIs(w.t, err, mcp.ErrRequestDone)
		require.Len(w.t, p.frames(), sent, "nothing goes out")
		require.Empty(w.t, x.frames())
		for _, h := range []*held{cancelled, expired, deleted} {
			h.finish("late")
		}
	}},
	{state: "late-result", limits: oneSlot, test: func(w *world) {
		g := w.gate("work", true)
		p, s := w.connect(true), w.open("session-1")
		p.call("1", "work")
		h := g.next()
		x := w.post(s, callFrame("2", "work"))
		gone := g.next()
		p.cancel("1", "")
		s.Close(mcp.CauseSessionDelete)
		<-s.Done()
		p.call("3", "work") // the slot is free only when the handler has returned
		g.empty()
		h.finish("late")
		gone.finish("late")
		next := g.next()
		require.Equal(w.t, "3", next.r.ID.Raw())
		next.finish("done")
		require.Equal(w.t, []string{resultFrame("3", "done")}, p.frames())
		require.Empty(w.t, x.frames())
		require.Equal(w.t, counts{
			"admitted": 3, "sent": 1, "dropped/cancelled": 1, "dropped/session_gone": 1,
			"cancelled/client_cancel": 1, "cancelled/session_delete": 1, "abandoned/session_delete": 1,
		}, w.counts())
	}},
	{state: "slow-unwind", test: func(w *world) {
		g := w.gate("work", true)
		p := w.connect(true)
		var hs []*held
		for _, id := range []string{"1", "2", "3"} {
			p.call(id, "work")
			hs = append(hs, g.next())
			p.cancel(id, "")
		}
		hs[0].finish("in time")
		w.settle()
		time.Sleep(w.core.limits.CleanupGrace)
		w.settle()
		require.Equal(w.t, 2, w.times("WARN handler.slow_unwind"))
		w.loggedWith("WARN handler.slow_unwind", "id=2")
		hs[1].finish("late")
		time.Sleep(w.core.limits.AbandonGrace - w.core.limits.CleanupGrace)
		w.settle()
		require.Equal(w.t, 1, w.times("WARN handlers.abandoned"), "although the session lives on")
		w.loggedWith("WARN handlers.abandoned", "id=3", "cause=client_cancel", "age=10s")
		require.Equal(w.t, counts{
			"admitted": 3, "dropped/cancelled": 3, "cancelled/client_cancel": 3, "abandoned/client_cancel": 1,
		}, w.counts())
		p.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
		require.Equal(w.t, []string{`{"jsonrpc":"2.0","id":9,"result":{}}`}, p.frames())
		hs[2].finish("late")
	}},
}

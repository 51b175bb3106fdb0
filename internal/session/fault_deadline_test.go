package session

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// E12: the request's own deadline. The tools of these tests have five seconds.
var cellsE12 = []faultCell{
	{state: "Q", limits: oneSlot, test: func(w *world) {
		running, queued := w.gate("work", false), w.gate("late", false)
		w.fiveSeconds("late")
		p := w.connect(true)
		p.call("1", "work")
		h := running.next()
		p.call("2", "late")
		time.Sleep(5*time.Second - time.Nanosecond)
		require.Empty(w.t, p.frames())
		time.Sleep(time.Nanosecond)
		require.Len(w.t, p.frames(), 1)
		hasError(w.t, p.frames()[0], "2", mcp.CodeInternalError, "deadline")
		require.Contains(w.t, p.frames()[0], `"phase":"queued"`)
		require.Equal(w.t, deadlineCounts.and(counts{"admitted": 1}), w.counts())
		w.loggedWith("WARN request.deadline", "method=tools/call", "id=2", "age=5s")
		require.Empty(w.t, h.cause())

		p.call("3", "late") // its time in the queue counts
		time.Sleep(3 * time.Second)
		h.finish("done")
		h = queued.next()
		require.Equal(w.t, "3", h.r.ID.Raw(), "the second request is never started")
		time.Sleep(2 * time.Second)
		require.Len(w.t, p.frames(), 3)
		hasError(w.t, p.frames()[2], "3", mcp.CodeInternalError, "deadline")
		require.NotContains(w.t, p.frames()[2], "phase")
		require.Equal(w.t, "deadline", h.cause())
	}},
	{state: "M", test: func(w *world) {
		g := w.gate("work", false)
		seen := w.layers("work")
		w.fiveSeconds("work")
		p := w.connect(true)
		p.call("1", "work")
		g.next()
		time.Sleep(5 * time.Second)
		p.missedDeadline()
		require.Equal(w.t, []string{"inner:deadline", "outer:deadline"}, seen.get())
	}},
	{state: "R", test: func(w *world) {
		g := w.gate("work", true)
		w.fiveSeconds("work")
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		end, ok := h.ctx.Deadline()
		require.True(w.t, ok)
		require.Equal(w.t, 5*time.Second, time.Until(end))
		time.Sleep(5 * time.Second)
		p.missedDeadline() // although the handler still runs
		require.Equal(w.t, "deadline", h.cause())
		require.ErrorIs(w.t, context.Cause(h.ctx), mcp.ErrDeadline)
		require.ErrorIs(w.t, h.ctx.Err(), context.DeadlineExceeded)
		time.Sleep(100 * time.Millisecond)
		h.finish("late")
		p.missedDeadline()

		// No route may outlast the hard maximum.
		w.route("endless", func(rt *Route) { rt.Deadline, rt.Handle = time.Hour, w.inner("work") })
		p.call("2", "endless")
		h = g.next()
		time.Sleep(w.core.limits.MaxRequestTimeout - time.Nanosecond)
		require.Empty(w.t, h.cause())
		time.Sleep(time.Nanosecond)
		w.settle()
		require.Equal(w.t, "deadline", h.cause())
		h.finish("late")
	}},
	{state: "B", test: func(w *world) {
		a := w.asker("work", false)
		w.fiveSeconds("work")
		p := w.connect(true)
		p.call("7", "work")
		h := a.blocked()
		time.Sleep(5 * time.Second)
		require.ErrorIs(w.t, a.answer().err, mcp.ErrDeadline)
		require.Equal(w.t, "deadline", h.cause())
		require.Len(w.t, p.frames(), 3)
		require.Equal(w.t, []string{askFrame("1"), unaskFrame("1")}, p.frames()[:2])
		hasError(w.t, p.frames()[2], "7", mcp.CodeInternalError, "deadline")
		require.Equal(w.t, deadlineCounts, w.counts())
		w.logged("WARN request.deadline")
		require.Empty(w.t, w.core.Snapshot().Outbound)
	}},
	{state: "P", limits: small, test: func(w *world) {
		k := w.stepper("work")
		w.fiveSeconds("work")
		p := w.connect(true)
		p.call("1", "work")
		unblock := k.fill(p.sink)
		time.Sleep(5 * time.Second)
		require.ErrorIs(w.t, k.results()[2], mcp.ErrRequestDone)
		require.Equal(w.t, "deadline", k.cause())
		unblock()
		require.Len(w.t, p.frames(), 3)
		require.Equal(w.t, []string{noteFrame(1), noteFrame(2)}, p.frames()[:2])
		hasError(w.t, p.frames()[2], "1", mcp.CodeInternalError, "deadline")
		require.Equal(w.t, deadlineCounts.and(counts{"notification/after_response": 1, "limit/max_queued_messages": 1}), w.counts())
		w.logged("WARN request.deadline")
	}},
	{state: "S", test: func(w *world) {
		g := w.gate("work", false)
		w.fiveSeconds("work")
		at := w.stopAt(pointAfterSettle, "work")
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		h.finish("done")
		r := at.await()
		time.Sleep(time.Minute)
		r.expire() // a timer that fires anyway
		at.release()
		w.inTime(p, h)
	}},
	{state: "W", test: func(w *world) {
		g := w.gate("work", false)
		w.fiveSeconds("work")
		p := w.connect(true)
		flushed := make(chan struct{})
		p.sink.onFlush(blockUntil(flushed))
		p.call("1", "work")
		h := g.next()
		h.finish("done")
		time.Sleep(20 * time.Second)
		h.r.expire()
		close(flushed)
		w.inTime(p, h)
	}},
}

var deadlineCounts = counts{"admitted": 1, "sent": 1, "cancelled/deadline": 1}

// fiveSeconds gives a tool its deadline.
func (w *world) fiveSeconds(tool string) {
	w.route(tool, func(rt *Route) { rt.Deadline = 5 * time.Second })
}

// missedDeadline checks what the client of the one request gets.
func (p *peer) missedDeadline() {
	p.w.t.Helper()
	require.Len(p.w.t, p.frames(), 1)
	hasError(p.w.t, p.frames()[0], "1", mcp.CodeInternalError, "deadline")
	require.Equal(p.w.t, deadlineCounts, p.w.counts())
	p.w.logged("WARN request.deadline")
}

// inTime checks a request that was answered before its deadline.
func (w *world) inTime(p *peer, h *held) {
	w.t.Helper()
	require.Equal(w.t, []string{resultFrame("1", "done")}, p.frames())
	require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts())
	require.Empty(w.t, h.cause())
	require.NotContains(w.t, w.log.lines(), "WARN request.deadline")
}

// and adds up two sets of counters.
func (c counts) and(more counts) counts {
	sum := counts{}
	for _, part := range []counts{c, more} {
		for k, n := range part {
			sum[k] += n
		}
	}
	return sum
}

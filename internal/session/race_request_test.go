package session

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The races of E19, by their number; those about one request are in this file.
var races = map[int][]race{
	1: append(returnVsCancel, batchVsCancel...), 2: returnVsDeadline, 3: causesRace, 4: eofVsQueuedAnswer, 5: eofVsBlocked,
	6: replyVsEnd, 7: replyVsTimeout, 8: deleteVsAdmission, 9: append(idleVsRequest, sealedIdleVsRequest...), 10: shutdownVsSession,
	11: closeTwice, 12: oneStream, 13: cancelInOrder, 14: idReused, 15: append(writerClosed, arrayVsEnd...),
	16: append(reattach, resumption16...), 17: initializeVsModern, 18: panickingHook,
}

// A cancel is lost or won, but its request never has both an answer and none.
var returnVsCancel = []race{
	{name: "return-vs-cancel", endings: []string{"answered", "cancelled"}, script: func(x *explorer) {
		p := x.connect()
		g := x.gate("work", true)
		p.call("1", "work")
		h := g.next()
		x.actor("handler", func() { h.finish("done") })
		x.actor("client", func() { p.cancel("1", "") })
		x.run()
		x.cancelOrAnswer(p.sink, nil)
	}},
	{name: "cancel-wakes-handler", endings: []string{"cancelled"}, script: func(x *explorer) {
		p := x.connect()
		x.handle("work", func(ctx context.Context, _ *Request) (mcp.Result, error) {
			<-ctx.Done()
			return &textResult{Text: "what there is"}, nil
		})
		x.actor("client", func() { p.call("1", "work"); p.cancel("1", "") })
		x.run()
		x.cancelOrAnswer(p.sink, nil)
	}},
	{name: "legacy-http", endings: []string{"answered", "cancelled"}, script: func(x *explorer) {
		s := x.open("s1")
		g := x.gate("work", true)
		e := x.post(s, callFrame("1", "work"))
		h := g.next()
		x.actor("handler", func() { h.finish("done") })
		x.actor("client", func() {
			in, _ := inbound(httpConn, cancelFrame("1", ""))
			s.ReceiveOn(in, nil)
		})
		x.run()
		x.cancelOrAnswer(e.sink, []string{"-32800"})
	}},
	{name: "modern-disconnect", endings: []string{"answered", "cancelled", "lost"}, script: func(x *explorer) {
		g := x.gate("work", true)
		frame := modernFrame("1", "work")
		e := x.exchangeFor(frame)
		in, _ := inbound(httpConn, frame)
		left, before := false, false
		x.actor("server", func() { before = left; x.core.Receive(in, e.stream) })
		x.actor("client", func() { left = true; e.stream.Lost() })
		x.actorWhen("handler", func() bool { return len(g.calls) > 0 }, func() { (<-g.calls).finish("done") })
		x.run()
		fate, reason := x.fate(0)
		if before { // the client had left before the request was admitted
			require.Equal(x.t, mcp.DropCancelled, reason)
		}
		switch {
		case fate == FateSent:
			x.saw("answered")
		case reason == mcp.DropCancelled:
			x.saw("cancelled")
		default: // settled, and then nobody was there
			require.Equal(x.t, mcp.DropBrokenPeer, reason)
			x.saw("lost")
		}
		require.Equal(x.t, fate == FateSent, len(e.sink.frames()) == 1)
	}},
}

func (x *explorer) fate(n int) (Fate, mcp.DropReason) {
	x.t.Helper()
	r, _ := x.request(n)
	return r.Fate()
}

// cancelOrAnswer checks the two ends of a race between a request and its cancel;
// terminator is what is on the wire if the cancel has won.
func (x *explorer) cancelOrAnswer(sink *scriptSink, terminator []string) {
	x.t.Helper()
	c := x.counts()
	if c["cancelled/client_cancel"] == 0 {
		x.saw("answered")
		require.Equal(x.t, counts{"admitted": 1, "sent": 1, "ignored/cancel/unknown_id": 1}, c)
		require.Equal(x.t, []string{"result"}, x.kinds(sink))
		return
	}
	x.saw("cancelled")
	want := counts{"admitted": 1, "cancelled/client_cancel": 1, "dropped/cancelled": 1}
	if terminator != nil {
		want = counts{"admitted": 1, "cancelled/client_cancel": 1, "sent": 1}
	}
	require.Equal(x.t, want, c)
	require.Equal(x.t, terminator, x.kinds(sink))
}

// The deadline answers at the deadline, or not at all.
var returnVsDeadline = []race{
	{name: "return-vs-deadline", endings: []string{"result", "deadline"}, script: func(x *explorer) {
		p := x.connect()
		g := x.gate("work", true)
		p.call("1", "work")
		h := g.next()
		x.actor("handler", func() { h.finish("done") })
		x.clock(x.core.limits.RequestTimeout)
		x.run()
		x.deadlineOrAnswer(p.sink)
	}},
	{name: "queued", limits: limits.Limits{MaxInFlight: 1}, endings: []string{"result", "deadline"}, script: func(x *explorer) {
		p := x.connect()
		first := x.gate("first", true)
		p.call("1", "first")
		h := first.next()
		x.handle("work", func(context.Context, *Request) (mcp.Result, error) { return &textResult{}, nil })
		x.route("work", func(rt *Route) { rt.Deadline = time.Second })
		p.call("2", "work")
		x.actor("slot", func() { h.finish("done") })
		x.clock(time.Second)
		x.run()
		r, rec := x.request(1)
		if r.Error() == nil {
			x.saw("result")
			require.Equal(x.t, 1, rec.started)
			return
		}
		x.saw("deadline")
		require.Equal(x.t, []mcp.Cause{mcp.CauseDeadline}, rec.causes)
		phase := r.Error().Data.(mcp.ErrorData).Phase
		require.Equal(x.t, rec.started == 0, phase == "queued", "phase %q of a handler that was called %d times", phase, rec.started)
	}},
}

func (x *explorer) deadlineOrAnswer(sink *scriptSink) {
	x.t.Helper()
	kinds := x.kinds(sink)
	require.Len(x.t, kinds, 1)
	x.saw(kinds[0])
	want := counts{"admitted": 1, "sent": 1}
	if kinds[0] == "deadline" {
		want["cancelled/deadline"], want["limit/request_timeout"] = 1, 1
	}
	require.Equal(x.t, want, x.counts())
}

// Of three causes the first counts.
var causesRace = []race{{
	name: "cancel-vs-deadline-vs-eof", limits: limits.Limits{EOFGrace: -1, RequestTimeout: 100 * time.Millisecond},
	endings: []string{"client_cancel", "deadline", "transport_close"},
	script: func(x *explorer) {
		p := x.connect()
		g := x.gate("work", false)
		p.call("1", "work")
		h := g.next()
		x.actor("client", func() { p.cancel("1", "") })
		x.clock(x.core.limits.RequestTimeout)
		x.actor("eof", p.s.EOF)
		x.run()
		_, rec := x.request(0)
		require.Len(x.t, rec.causes, 1)
		x.saw(string(rec.causes[0]))
		<-h.returned
		kinds := x.kinds(p.sink)
		switch rec.causes[0] {
		case mcp.CauseClientCancel:
			require.Empty(x.t, kinds)
		case mcp.CauseDeadline:
			require.Equal(x.t, []string{"deadline"}, kinds)
		default: // a cancelled handler can still miss its deadline, or be cancelled again
			require.LessOrEqual(x.t, len(kinds), 1)
		}
	},
}}

// Our patience with the client ends, or its answer comes.
var replyVsTimeout = []race{{
	name: "reply-vs-timeout", endings: []string{"answered", "timed out"}, script: func(x *explorer) {
		p := x.connect()
		x.handle("work", func(ctx context.Context, r *Request) (mcp.Result, error) {
			ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errPatience)
			defer cancel()
			text, err := r.Ask(ctx, "roots/list", nil)
			if err != nil {
				return &textResult{Text: err.Error()}, nil
			}
			return &textResult{Text: string(text)}, nil
		})
		p.call("1", "work")
		x.settle()
		x.actor("client", func() { p.send(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`) })
		x.clock(time.Second)
		x.run()
		c := x.counts()
		frames := p.sink.frames()
		if slices.Contains(frames, resultFrame("1", `{"roots":[]}`)) {
			x.saw("answered")
			require.Equal(x.t, counts{"admitted": 1, "sent": 1}, c)
			require.Equal(x.t, []string{"roots/list"}, x.methods(p.sink), "no courtesy cancel")
			return
		}
		x.saw("timed out")
		require.Contains(x.t, frames, resultFrame("1", errPatience.Error()))
		require.Equal(x.t, counts{"admitted": 1, "sent": 1, "ignored/response/late": 1}, c)
		require.Equal(x.t, []string{"roots/list", "notifications/cancelled"}, x.methods(p.sink))
	},
}}

type patienceError string

func (e patienceError) Error() string { return string(e) }

const errPatience = patienceError("no patience left")

// One loop reads a request and then its cancel: the cancel finds the request,
// wherever it is.
var cancelInOrder = []race{
	{name: "cancel-follows-request", endings: []string{"cancelled"}, script: func(x *explorer) {
		p := x.connect()
		x.gate("work", false)
		x.actor("client", func() { p.call("1", "work"); p.cancel("1", "") })
		x.actor("other", func() { p.call("2", "none") })
		x.run()
		x.saw("cancelled")
		fate, reason := x.fateOf("1")
		require.Equal(x.t, FateDropped, fate)
		require.Equal(x.t, mcp.DropCancelled, reason)
		require.Zero(x.t, x.counts()["ignored/cancel/unknown_id"])
	}},
	{name: "in-the-queue", limits: limits.Limits{MaxInFlight: 1}, endings: []string{"called", "never called"}, script: func(x *explorer) {
		p := x.connect()
		first := x.gate("first", true)
		p.call("1", "first")
		h := first.next()
		x.gate("work", false)
		x.actor("client", func() { p.call("2", "work"); p.cancel("2", "") })
		x.actor("slot", func() { h.finish("done") })
		x.run()
		_, rec := x.request(1)
		x.saw([]string{"never called", "called"}[rec.started])
		require.Equal(x.t, counts{
			"admitted": 2, "sent": 1, "dropped/cancelled": 1, "cancelled/client_cancel": 1}, x.counts())
	}},
}

func (x *explorer) fateOf(id string) (Fate, mcp.DropReason) {
	x.t.Helper()
	for _, r := range x.record.order {
		if string(r.ID.Raw()) == id {
			return r.Fate()
		}
	}
	x.t.Fatalf("there is no request %s", id)
	return 0, ""
}

// An id is free as soon as its request is settled.
var idReused = []race{
	{name: "after-the-flush", endings: []string{"two answers"}, script: func(x *explorer) {
		p := x.connect()
		g := x.gate("work", true)
		p.call("1", "work")
		h := g.next()
		x.actor("handler", func() { h.finish("first") })
		x.actorWhen("client", func() bool { return len(p.sink.frames()) == 1 }, func() { p.call("1", "work") })
		x.actorWhen("second handler", func() bool { return len(g.calls) > 0 }, func() { (<-g.calls).finish("second") })
		x.run()
		x.saw("two answers")
		require.Equal(x.t, []string{resultFrame("1", "first"), resultFrame("1", "second")}, p.sink.frames())
		require.Equal(x.t, counts{"admitted": 2, "sent": 2}, x.counts())
	}},
	{name: "after-a-cancel", endings: []string{"second", "both"}, script: func(x *explorer) {
		p := x.connect()
		g := x.gate("work", true)
		p.call("1", "work")
		h := g.next()
		x.actor("handler", func() { h.finish("first") })
		x.actor("client", func() { p.cancel("1", "") }, func() { p.call("1", "work") })
		x.actorWhen("second handler", func() bool { return len(g.calls) > 0 }, func() { (<-g.calls).finish("second") })
		x.run()
		if frames := p.sink.frames(); len(frames) == 2 {
			x.saw("both")
			// The cancel was lost. The client has not waited for the first answer, so that
			// their order says nothing to it.
			require.ElementsMatch(x.t, []string{resultFrame("1", "first"), resultFrame("1", "second")}, frames)
		} else {
			x.saw("second")
			require.Equal(x.t, []string{resultFrame("1", "second")}, frames)
		}
	}},
}

// Modern requests need no handshake, and a legacy client that waits for its own is
// never told that it has not.
var initializeVsModern = []race{handshakeAtOnce, {
	name: "initialize-vs-modern", random: true, endings: []string{"served"}, script: func(x *explorer) {
		p := x.world.connect(false)
		x.wire(p.s.stream, p.sink)
		x.quickHandler()
		initialized := func() bool { return slices.Contains(x.answeredIDs(p.sink), "1") }
		x.actor("legacy client", func() {
			p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		})
		x.actor("impatient client", func() { p.cancel("1", "") })
		x.actorWhen("legacy client then", initialized, func() {
			p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			p.call("2", "work")
		})
		x.actor("modern client", func() { p.send(modernFrame("10", "work")) }, func() { p.send(modernFrame("11", "work")) })
		x.run()
		x.saw("served")
		require.ElementsMatch(x.t, []string{"1", "2", "10", "11"}, x.answeredIDs(p.sink))
		c := x.counts()
		require.Equal(x.t, uint64(1), c["ignored/cancel/not_cancellable"]+c["ignored/cancel/unknown_id"])
		delete(c, "ignored/cancel/not_cancellable")
		delete(c, "ignored/cancel/unknown_id")
		require.Equal(x.t, counts{"admitted": 4, "sent": 4}, c)
	},
}}

// A legacy client may also not wait: what it sends behind initialize finds the
// handshake made.
var handshakeAtOnce = race{
	name: "handshake-without-waiting", random: true, endings: []string{"served"}, script: func(x *explorer) {
		p := x.world.connect(false)
		x.wire(p.s.stream, p.sink)
		x.quickHandler()
		x.actor("legacy client", func() {
			p.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
			p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			p.call("2", "work")
			p.send(modernFrame("3", "work"))
		})
		x.actor("modern client", func() { p.send(modernFrame("10", "work")) })
		x.run()
		x.saw("served")
		require.ElementsMatch(x.t, []string{"1", "2", "3", "10"}, x.answeredIDs(p.sink))
		require.Equal(x.t, counts{"admitted": 4, "sent": 4}, x.counts())
	},
}

func (x *explorer) answeredIDs(sink *scriptSink) (ids []string) {
	for _, f := range decodeFrames(x.t, sink.frames()) {
		if f.Method == "" {
			ids = append(ids, string(f.ID))
		}
	}
	return ids
}

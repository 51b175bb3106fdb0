package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The races of the ends of a session.

// The end of the input loses no answer: neither one in the writer's hands nor one
// that is settled and not queued yet, however much of the graces has passed.
var eofVsQueuedAnswer = []race{{
	name: "eof-vs-queued-answer", limits: limits.Limits{EOFGrace: -1},
	endings: []string{"result", "transport_close"},
	script: func(x *explorer) {
		p := x.connect()
		p.sink.on(func(*scriptSink) error { x.park("the peer reads"); return nil })
		g := x.gate("work", true)
		p.call("1", "work")
		h := g.next()
		x.actor("handler", func() { h.finish("done") })
		x.actor("eof", p.s.EOF)
		x.clock(x.core.limits.CleanupGrace)
		x.run()
		kinds := x.kinds(p.sink)
		require.Len(x.t, kinds, 1, "the peer can still be reached")
		x.saw(kinds[0])
		require.Equal(x.t, uint64(1), x.counts()["sent"])
	},
}}

// A handler that waits for the client is woken by the end of the input at once:
// the answer can never come.
var eofVsBlocked = []race{blockedAtEOF(0, false), blockedAtEOF(1, false), blockedAtEOF(2, true), blockedAtEOF(100, true)}

func blockedAtEOF(n int, random bool) race {
	points := allPoints
	if n > 2 {
		points = []point{pointBeforeSettle}
	}
	return race{
		name: fmt.Sprintf("eof-vs-blocked-handlers-%d", n), random: random, points: points,
		limits: limits.Limits{MaxOutbound: 2*n + 1}, endings: []string{"woken"},
		script: func(x *explorer) {
			p := x.connect()
			woken := make(chan time.Time, n)
			x.handle("work", func(ctx context.Context, r *Request) (mcp.Result, error) {
				_, err := r.Ask(ctx, "sampling/createMessage", []byte(`{}`))
				if !errors.Is(err, mcp.ErrTransportClosed) || context.Cause(ctx) != nil {
					return nil, fmt.Errorf("woken by %w, cause %w", err, context.Cause(ctx))
				}
				woken <- time.Now()
				return &textResult{Text: "woken"}, nil
			})
			for i := range n {
				p.call(strconv.Itoa(i), "work")
			}
			x.settle()
			require.Len(x.t, p.sink.frames(), n, "all have asked")
			now := time.Now()
			x.actor("eof", p.s.EOF)
			x.run()
			x.saw("woken")
			require.Len(x.t, woken, n, "handlers that were woken")
			for range n {
				x.must((<-woken).Equal(now), "woken only after a grace")
			}
			if n > 0 {
				require.Equal(x.t, counts{"admitted": uint64(n), "sent": uint64(n)}, x.counts())
			}
		},
	}
}

// The client's answer and the end of the session: each waiter has one outcome.
var replyVsEnd = []race{
	replyVs("eof", func(p *peer) { p.s.EOF() }),
	replyVs("close", func(p *peer) { p.s.Close(mcp.CauseServerShutdown) }),
	replyVs("failure", func(p *peer) { p.s.Fail(errors.New("reset")) }),
}

func replyVs(name string, end func(p *peer)) race {
	return race{
		name: "reply-vs-" + name, endings: []string{"answered", "ended", "not asked"}, limits: limits.Limits{EOFGrace: -1},
		points: []point{pointAdmitted, pointBeforeSettle, pointAfterSettle, pointBeforeWrite},
		script: func(x *explorer) {
			p := x.connect()
			var outcome string
			g := x.gate("work", true)
			p.call("1", "work")
			h := g.next()
			x.actor("handler", func() {
				h.release <- func() (mcp.Result, error) {
					_, err := h.r.Ask(h.ctx, "roots/list", nil)
					if err != nil {
						outcome = err.Error()
						return nil, err
					}
					outcome = "answered"
					return &textResult{Text: outcome}, nil
				}
			})
			asked := func() bool { return len(x.methods(p.sink)) > 0 }
			x.actorWhen("client", asked, func() { p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`) })
			x.actor("end", func() { end(p) })
			x.run()
			c := x.counts()
			switch {
			case !asked():
				x.saw("not asked")
				require.NotEqual(x.t, "answered", outcome)
			case outcome == "answered":
				x.saw("answered")
				require.Zero(x.t, c["ignored/response/late"]+c["ignored/response/unknown_id"])
			default:
				x.saw("ended")
				require.Equal(x.t, uint64(1), c["ignored/response/late"])
			}
		},
	}
}

// Close may be called by anybody, at any time and twice: one teardown, the first cause.
var closeTwice = []race{
	{name: "close-twice", endings: []string{"server_shutdown", "transport_error"}, script: func(x *explorer) {
		p := x.connect()
		x.gate("work", false)
		p.call("1", "work")
		x.actor("one", func() { p.s.Close(mcp.CauseServerShutdown) })
		x.actor("other", func() { p.s.Fail(errors.New("reset")) })
		x.run()
		x.saw(x.closedOnce(p.s))
	}},
	{name: "close-from-a-handler", endings: []string{"server_shutdown"}, script: func(x *explorer) {
		p := x.connect()
		x.gate("other", false)
		x.handle("work", func(_ context.Context, r *Request) (mcp.Result, error) {
			r.Session().Close(mcp.CauseServerShutdown)
			return &textResult{}, nil
		})
		x.actor("client", func() { p.call("1", "work") })
		x.actor("other client", func() { p.call("2", "other") })
		x.run()
		x.saw(x.closedOnce(p.s))
		x.quick(p.s)
	}},
	{name: "close-from-a-hook", random: true, endings: []string{"server_shutdown"}, script: func(x *explorer) {
		p := x.connect()
		g := x.gate("work", false)
		x.record.also = func(_ string, _ *Request, s *Session) {
			if s != nil {
				s.Close(mcp.CauseServerShutdown) // in each callback, also in SessionClosed
			}
		}
		x.actor("client", func() { p.call("1", "work") }, func() { p.cancel("1", "") })
		x.actorWhen("handler", func() bool { return len(g.calls) > 0 }, func() { (<-g.calls).finish("done") })
		x.run()
		x.saw(x.closedOnce(p.s))
		x.quick(p.s)
	}},
	{name: "close-with-handlers-running", endings: []string{"closed"}, points: []point{pointBeforeSettle}, script: func(x *explorer) {
		p := x.connect()
		g := x.gate("work", false)
		for i := range 3 {
			p.call(strconv.Itoa(i), "work")
		}
		h := g.next()
		x.actor("handler", func() { h.finish("done") })
		x.actor("close", func() { p.s.Close(mcp.CauseServerShutdown) })
		x.run()
		x.saw("closed")
		x.closedOnce(p.s)
		x.quick(p.s)
		c := x.counts()
		require.Equal(x.t, uint64(3), c["sent"]+c["dropped/closed_writer"])
		require.GreaterOrEqual(x.t, c["cancelled/server_shutdown"], uint64(2), "no handler is left running at close")
	}},
}

// closedOnce returns the one cause for which the session was closed.
func (x *explorer) closedOnce(s *Session) string {
	x.t.Helper()
	causes := x.record.closedFor(s)
	require.Len(x.t, causes, 1, "the session's end is announced once")
	for _, r := range x.record.order {
		if err, _ := r.Cancellation(); err != nil && err.Cause != mcp.CauseClientCancel {
			require.Equal(x.t, causes[0], err.Cause, "the first cause wins")
		}
	}
	return string(causes[0])
}

// quick checks that the teardown has not used up its grace waiting for itself.
func (x *explorer) quick(s *Session) {
	x.t.Helper()
	require.Equal(x.t, 0, x.times("WARN handlers.abandoned"))
	require.Equal(x.t, 0, x.times("WARN handler.slow_unwind"))
	select {
	case <-s.Done():
	default:
		x.t.Error("the session is not closed")
	}
}

// The writer is closed between the settle and the write.
var writerClosed = []race{
	{name: "own-end", endings: []string{"sent", "closed_writer"}, script: func(x *explorer) {
		p := x.connect()
		x.watchWriter(p)
		g := x.gate("work", true)
		p.call("1", "work")
		h := g.next()
		x.actor("handler", func() { h.finish("done") })
		x.actor("close", func() { p.s.Close(mcp.CauseServerShutdown) })
		x.run()
		x.sentOr(p, mcp.DropClosedWriter)
	}},
	{name: "own-end-wakes-handler", endings: []string{"closed_writer"}, random: true, script: func(x *explorer) {
		p := x.connect()
		x.watchWriter(p)
		x.handle("work", func(ctx context.Context, r *Request) (mcp.Result, error) {
			_, err := r.Ask(ctx, "roots/list", nil)
			return &textResult{Text: fmt.Sprint(err)}, nil
		})
		p.call("1", "work")
		p.call("2", "work")
		x.settle()
		x.actor("client", func() { p.send(`{"jsonrpc":"2.0","id":1,"result":{}}`) })
		x.actor("close", func() { p.s.Close(mcp.CauseServerShutdown) })
		x.run()
		x.sentOr(p, mcp.DropClosedWriter)
	}},
	{name: "peer-end", endings: []string{"sent", "broken_peer"}, script: func(x *explorer) {
		p := x.connect()
		gone := x.peerCanGo(p)
		g := x.gate("work", true)
		p.call("1", "work")
		h := g.next()
		x.actor("handler", func() { h.finish("done") })
		x.actor("peer", func() { gone.Store(true) })
		x.run()
		x.sentOr(p, mcp.DropBrokenPeer)
	}},
	{name: "peer-end-before-own-end", endings: []string{"sent", "broken_peer", "closed_writer"}, script: func(x *explorer) {
		p := x.connect()
		gone := x.peerCanGo(p)
		g := x.gate("work", true)
		p.call("1", "work")
		h := g.next()
		x.actor("handler", func() { h.finish("done") })
		x.actor("peer", func() { gone.Store(true) })
		x.actor("close", func() { p.s.Close(mcp.CauseServerShutdown) })
		x.run()
		// Who was first is one story, told by the session and by the answer.
		want := mcp.DropClosedWriter
		if x.closedOnce(p.s) == string(mcp.CauseTransportError) {
			want = mcp.DropBrokenPeer
		}
		require.Equal(x.t, want == mcp.DropBrokenPeer, x.times("WARN session.peer_lost") == 1)
		x.sentOr(p, want)
	}},
}

// watchWriter fails the test if a write is tried on a stream that has failed.
func (x *explorer) watchWriter(p *peer) {
	watch := func(*scriptSink) error {
		if reason := p.s.stream.Reason(); reason != "" {
			x.t.Errorf("a write after the stream has failed with %s", reason)
		}
		return nil
	}
	for range 8 {
		p.sink.on(watch).onFlush(watch)
	}
}

// peerCanGo gives the peer's end a switch: once it is gone, writes fail as they do on a pipe.
func (x *explorer) peerCanGo(p *peer) *atomic.Bool {
	gone := &atomic.Bool{}
	fail := func(*scriptSink) error {
		if gone.Load() {
			return &stream.WriteError{Reason: mcp.DropBrokenPeer, Err: syscall.EPIPE}
		}
		return nil
	}
	for range 8 {
		p.sink.on(fail).onFlush(fail)
	}
	return gone
}

// sentOr checks that each answer was either sent or dropped for this reason.
func (x *explorer) sentOr(p *peer, want mcp.DropReason) {
	x.t.Helper()
	dropped := mcp.DropReason("")
	for _, r := range x.record.order {
		if fate, reason := r.Fate(); fate == FateDropped {
			require.Equal(x.t, want, reason)
			dropped = reason
		}
	}
	if dropped != "" {
		x.saw(string(dropped))
	} else {
		x.saw("sent")
	}
	if want == mcp.DropClosedWriter {
		require.Equal(x.t, 0, x.times("WARN session.peer_lost"), "our own close is no loss of the peer")
	}
	require.Equal(x.t, 0, x.times("ERROR write.unclassified"))
}

// A hook that panics, in each of its callbacks, changes nothing.
var panickingHook = []race{
	panicDuring("eof", "sent", func(p *peer) { p.s.EOF() }),
	panicDuring("close", "dropped", func(p *peer) { p.s.Close(mcp.CauseServerShutdown) }),
	panicDuring("failure", "dropped", func(p *peer) { p.s.Fail(errors.New("reset")) }),
	panicDuring("shutdown", "sent", func(p *peer) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.w.core.Shutdown(ctx)
	}),
}

func panicDuring(name, fate string, end func(p *peer)) race {
	endings := []string{fate}
	if fate != "sent" {
		endings = append(endings, "sent")
	}
	return race{
		name: "panic-in-a-hook-during-" + name, endings: endings, random: true,
		script: func(x *explorer) {
			var mu sync.Mutex
			callbacks := map[string]bool{}
			x.record.also = func(callback string, _ *Request, _ *Session) {
				mu.Lock()
				callbacks[callback] = true
				mu.Unlock()
				if callback != "Notified" || name == "eof" { // or its other half would not come
					panic("a hook")
				}
			}
			p := x.connect()
			g := x.gate("work", false)
			p.call("1", "work")
			h := g.next()
			x.handle("blocked", func(ctx context.Context, r *Request) (mcp.Result, error) {
				_, err := r.Ask(ctx, "roots/list", nil)
				return nil, err
			})
			p.call("2", "blocked")
			x.settle()
			x.actor("handler", func() { h.finish("done") })
			x.actor("end", func() { end(p) })
			x.actor("client", func() { p.cancel("1", "") })
			x.run()
			require.Len(x.t, x.record.closedFor(p.s), 1)
			<-p.s.Done()
			for _, callback := range []string{"Begin", "Started", "Finished", "Notified", "SessionOpened", "SessionClosed"} {
				require.True(x.t, callbacks[callback], callback)
			}
			require.Equal(x.t, name != "eof", callbacks["Notified end"])
			snap := x.core.Snapshot()
			require.Equal(x.t, int(snap.Counters.ObserverPanics), x.times("ERROR observer.panic"))
			require.GreaterOrEqual(x.t, snap.Counters.ObserverPanics, uint64(8))
			if x.counts()["sent"] > 0 {
				x.saw("sent")
			} else {
				x.saw("dropped")
			}
		},
	}
}

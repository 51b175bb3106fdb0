package session

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The races of streams and of legacy HTTP sessions.

// Nothing is admitted to a session that is gone.
var deleteVsAdmission = []race{{
	name: "delete-vs-admission", random: true, endings: []string{"session_unknown", "session_gone"}, script: func(x *explorer) {
		s := x.open("s1")
		x.gate("work", false) // ends only with its context
		x.record.also = func(callback string, _ *Request, _ *Session) {
			if callback == "Begin" {
				x.park("on the way to admission")
			}
		}
		busy := x.gate("busy", true) // keeps the teardown from being over at once
		x.post(s, callFrame("2", "busy"))
		h := busy.next()
		var e *exchange
		x.actor("busy handler", func() { h.finish("done") })
		x.actor("client", func() { e = x.post(s, callFrame("1", "work")) })
		x.actor("delete", func() { s.Close(mcp.CauseSessionDelete) })
		x.run()
		require.Len(x.t, x.record.closedFor(s), 1)
		r, rec := x.request(1)
		if rec.rejected != "" {
			x.saw(string(rec.rejected))
			require.Equal(x.t, []string{"session_unknown"}, x.kinds(e.sink))
			return
		}
		fate, reason := r.Fate()
		require.Equal(x.t, FateDropped, fate)
		x.saw(string(reason))
		if rec.started > 0 {
			require.Equal(x.t, []mcp.Cause{mcp.CauseSessionDelete}, rec.causes)
		}
		require.Zero(x.t, x.times("WARN handlers.abandoned"))
	},
}}

// A request that was accepted never finds its session gone.
var idleVsRequest = []race{
	{name: "idle-timer-vs-request", limits: limits.Limits{SessionIdle: 10 * time.Second}, endings: []string{"served", "expired", "session_unknown"}, script: func(x *explorer) {
		s := x.open("s1")
		x.quickHandler()
		x.actor("client", func() { x.lookUpAndPost("s1") })
		x.clock(x.core.limits.SessionIdle)
		x.run()
		x.idleEnding(s)
	}},
	{name: "eviction-vs-request", limits: limits.Limits{MaxSessions: 1}, endings: []string{"served", "expired", "session_unknown"}, script: func(x *explorer) {
		s := x.open("s1")
		x.quickHandler()
		var rejected mcp.RejectReason
		x.actor("client", func() { x.lookUpAndPost("s1") })
		x.actor("initialize", func() { _, rejected, _ = x.core.Open(httpConn, "s2") })
		x.run()
		x.idleEnding(s)
		if rejected != "" {
			require.Equal(x.t, mcp.RejectOverload, rejected)
			require.Empty(x.t, x.record.closedFor(s))
		} else {
			require.Len(x.t, x.record.closedFor(s), 1)
		}
	}},
}

func (x *explorer) quickHandler() {
	x.handle("work", func(context.Context, *Request) (mcp.Result, error) { return &textResult{Text: "done"}, nil })
}

// lookUpAndPost posts as a transport does: first the session, then the request.
func (x *explorer) lookUpAndPost(id string) {
	s := x.core.Session(id, nil)
	if s == nil {
		return
	}
	x.park("the session was found")
	x.post(s, callFrame("1", "work"))
}

func (x *explorer) idleEnding(s *Session) {
	x.t.Helper()
	closed := x.record.closedFor(s)
	require.LessOrEqual(x.t, len(closed), 1)
	if len(x.record.order) == 0 {
		x.saw("expired") // before the client came
		require.Len(x.t, closed, 1)
		return
	}
	r, rec := x.request(0)
	if rec.rejected != "" {
		x.saw(string(rec.rejected))
		require.Len(x.t, closed, 1)
		return
	}
	x.saw("served")
	fate, _ := r.Fate()
	require.Equal(x.t, FateSent, fate)
	require.Empty(x.t, rec.causes)
	require.Nil(x.t, r.Error())
}

// No session outlives the shutdown.
var shutdownVsSession = []race{{
	name: "shutdown-vs-session", random: true, endings: []string{"opened", "shutting_down"}, script: func(x *explorer) {
		x.quickHandler()
		x.record.also = func(callback string, _ *Request, _ *Session) {
			if callback == "SessionOpened" {
				x.park("session opened")
			}
		}
		done := make(chan struct{})
		ending := "shutting_down"
		var p *peer
		x.actor("shutdown", func() { x.shutdownNow(); close(done) })
		x.actor("http client", func() {
			s, reason, _ := x.core.Open(httpConn, "s1")
			if s == nil {
				require.Equal(x.t, mcp.RejectShuttingDown, reason)
				return
			}
			ending = "opened"
			s.Initialize(&Peer{Version: mcp.Version20251125})
			x.post(s, callFrame("1", "work"))
		})
		x.actor("pipe client", func() {
			p = x.connect()
			p.call("1", "work")
		})
		x.run()
		x.saw(ending)
		<-done
		require.Empty(x.t, x.core.allSessions(), "sessions after the shutdown")
		require.Nil(x.t, x.core.Session("s1", nil))
		<-p.s.Done()
		require.LessOrEqual(x.t, len(p.sink.frames()), 1)
	},
}}

func (x *explorer) shutdownNow() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = x.core.Shutdown(ctx)
}

// Answer, notifications and signs of life share one stream and one writer.
var oneStream = []race{
	{name: "answer-vs-notification-vs-keep-alive", random: true, endings: []string{"0 notified", "1 notified", "2 notified"}, script: func(x *explorer) {
		s := x.open("s1")
		e, sink := x.exchangeOn()
		g := x.gate("work", true)
		in, _ := inbound(httpConn, callFrame("1", "work"))
		s.ReceiveOn(in, e.stream)
		h := g.next()
		x.actor("handler", func() { h.finish("done") })
		for i := range 2 {
			x.actor(fmt.Sprintf("helper %d", i), func() { _ = h.r.Notify("notifications/progress", progress("1", i), "") })
		}
		x.clock(x.core.limits.KeepAlive)
		x.run()
		c := x.counts()
		require.Equal(x.t, []string{"result"}, x.kinds(e.sink))
		sent := len(x.methods(e.sink))
		require.Equal(x.t, 2, sent+int(c["notification/after_response"]))
		x.saw(fmt.Sprintf("%d notified", sent))
		require.Zero(x.t, sink.clashes.Load(), "two writers at once")
	}},
	{name: "full-queue", limits: limits.Limits{MaxQueuedMessages: 1}, random: true, endings: []string{"0 notified", "1 notified", "2 notified"}, script: func(x *explorer) {
		p := x.connect()
		p.sink.on(func(*scriptSink) error { x.park("the peer reads"); return nil })
		g := x.gate("work", true)
		p.call("1", "work")
		h := g.next()
		x.actor("handler", func() { h.finish("done") })
		for i := range 2 {
			x.actor(fmt.Sprintf("helper %d", i), func() { _ = h.r.Notify("notifications/progress", progress("1", i), "") })
		}
		x.run()
		c := x.counts()
		require.Equal(x.t, []string{"result"}, x.kinds(p.sink))
		sent := len(x.methods(p.sink))
		require.Equal(x.t, 2, sent+int(c["notification/after_response"]))
		x.saw(fmt.Sprintf("%d notified", sent))
	}},
}

func progress(token string, n int) []byte {
	return fmt.Appendf(nil, `{"progressToken":%s,"progress":%d}`, token, n)
}

// A jealousSink is a wire that counts who comes while another is there.
type jealousSink struct {
	*scriptSink
	x       *explorer
	busy    atomic.Bool
	clashes atomic.Int32
}

func (k *jealousSink) alone(what string, f func() error) error {
	if !k.busy.CompareAndSwap(false, true) {
		k.clashes.Add(1)
		return f()
	}
	defer k.busy.Store(false)
	k.x.park(what)
	return f()
}

func (k *jealousSink) Write(m *stream.Message) error {
	return k.alone("in Write", func() error { return k.scriptSink.Write(m) })
}

func (k *jealousSink) Flush() error { return k.alone("in Flush", k.scriptSink.Flush) }

func (k *jealousSink) KeepAlive() error {
	return k.alone("in KeepAlive", func() error { return nil })
}

// exchangeOn opens a legacy exchange whose sink keeps alive.
func (x *explorer) exchangeOn() (*exchange, *jealousSink) {
	sink := &jealousSink{scriptSink: &scriptSink{}, x: x}
	e := &exchange{w: x.world, sink: sink.scriptSink, done: make(chan struct{})}
	e.stream = x.core.Exchange(httpConn, 1, mcp.Legacy)
	go func() {
		defer close(e.done)
		e.err = e.stream.Pump(sink)
	}()
	return x.keep(e), sink
}

// The answer to a request leaves on its own exchange, whatever becomes of the
// session's stream; what is bound for that is written once.
var reattach = []race{
	{name: "answer-vs-reattach", endings: []string{"answered"}, script: func(x *explorer) {
		s := x.open("s1")
		g := x.gate("work", true)
		e := x.post(s, callFrame("1", "work"))
		h := g.next()
		old, _ := x.get(s)
		var again *exchange
		x.actor("handler", func() { h.finish("done") })
		x.actor("old stream", old.stream.Lost, func() { s.Detach(old.stream) })
		x.actorWhen("new stream", func() bool { return old.stream.Reason() != "" }, func() {
			var ok bool
			again, ok = x.get(s)
			require.True(x.t, ok, "a dead stream is replaced")
		})
		x.run()
		x.saw("answered")
		require.Equal(x.t, []string{"result"}, x.kinds(e.sink))
		require.Empty(x.t, old.sink.frames())
		require.Empty(x.t, again.sink.frames())
		var stays *stream.Stream
		s.update(func(st *state) { stays = st.standalone })
		require.Same(x.t, again.stream, stays, "the new stream stays")
	}},
	{name: "call-vs-reattach", random: true, endings: []string{"old stream", "new stream"}, script: func(x *explorer) {
		s := x.open("s1")
		old, _ := x.get(s)
		var again *exchange
		var err error
		x.actor("server", func() { _, err = s.Ask(context.Background(), "ping", nil) })
		x.actor("old stream", old.stream.Lost, func() { s.Detach(old.stream) })
		x.actorWhen("new stream", func() bool { return old.stream.Reason() != "" }, func() { again, _ = x.get(s) })
		calls := func() (n int) {
			for _, sink := range x.wires {
				n += len(sink.frames())
			}
			return n
		}
		x.actorWhen("client", func() bool { return calls() > 0 }, func() {
			in, _ := inbound(httpConn, `{"jsonrpc":"2.0","id":1,"result":{}}`)
			s.ReceiveOn(in, nil)
		})
		x.run()
		require.Equal(x.t, 1, calls(), "the call is written once")
		require.NoError(x.t, err)
		if len(old.sink.frames()) == 1 {
			x.saw("old stream")
		} else {
			x.saw("new stream")
			require.Equal(x.t, []string{"ping"}, x.methods(again.sink))
		}
	}},
	{name: "conflict", endings: []string{"refused", "replaced"}, script: func(x *explorer) {
		s := x.open("s1")
		g := x.gate("work", true)
		e := x.post(s, callFrame("1", "work"))
		h := g.next()
		old, _ := x.get(s)
		attached := false
		x.actor("handler", func() { h.finish("done") })
		x.actor("old stream", func() { s.Detach(old.stream) })
		x.actor("new stream", func() { _, attached = x.get(s) })
		x.run()
		require.Equal(x.t, []string{"result"}, x.kinds(e.sink))
		x.saw(map[bool]string{true: "replaced", false: "refused"}[attached])
	}},
}

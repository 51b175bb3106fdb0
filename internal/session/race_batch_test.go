package session

import (
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Two requests of one batch, of which one is cancelled, in every order: the array has
// the answers that count as sent, and leaves once.
var batchVsCancel = []race{
	{name: "batch", random: true, endings: []string{"1 in the array", "2 in the array"}, script: func(x *explorer) {
		p := x.connect()
		g := x.gate("work", true)
		h1, h2 := p.twoCalls(g)
		x.actor("first handler", func() { h1.finish("done") })
		x.actor("second handler", func() { h2.finish("done") })
		x.actor("client", func() { p.cancel("1", "") })
		x.run()
		require.Len(x.t, p.sink.frames(), 1)
		x.sawArray(p.sink)
	}},
	{name: "batch-legacy-http", random: true, endings: []string{"0 in the array", "1 in the array", "2 in the array"}, script: func(x *explorer) {
		s := x.open("s1")
		g := x.gate("work", true)
		e := x.keep(x.exchangeOf(func(st *stream.Stream) {
			s.ReceiveBatchOn(batchOf(httpConn, callFrame("1", "work"), callFrame("2", "work")), st, false)
		}))
		h1, h2 := g.next(), g.next()
		x.actor("handlers", func() { h1.finish("done"); h2.finish("done") })
		for _, id := range []string{"1", "2"} {
			x.actor("cancel of "+id, func() {
				in, _ := inbound(httpConn, cancelFrame(id, ""))
				s.ReceiveOn(in, nil)
			})
		}
		x.run()
		require.LessOrEqual(x.t, len(e.sink.frames()), 1)
		x.sawArray(e.sink)
	}},
}

// exchangeOf opens an exchange that begins to be written when its batch was received.
func (x *explorer) exchangeOf(receive func(*stream.Stream)) *exchange {
	e := &exchange{w: x.world, sink: &scriptSink{}, done: make(chan struct{})}
	e.stream = x.core.Exchange(httpConn, 1, mcp.Legacy)
	receive(e.stream)
	go func() {
		defer close(e.done)
		e.err = e.stream.Pump(e.sink)
	}()
	return e
}

// sawArray notes how many answers have left in the array, which the books must know.
func (x *explorer) sawArray(sink *scriptSink) {
	x.t.Helper()
	n := len(x.kinds(sink))
	require.Equal(x.t, uint64(n), x.counts()["sent"])
	require.Equal(x.t, uint64(2-n), x.counts()["dropped/cancelled"])
	x.saw(map[int]string{0: "0 in the array", 1: "1 in the array", 2: "2 in the array"}[n])
}

// The stream ends, from either side, while an array is made and written: its answers
// have one fate, unless the end came while one was still missing.
var arrayVsEnd = []race{
	{name: "array-own-end", random: true, endings: []string{"sent", "closed_writer"}, script: func(x *explorer) {
		p := x.connect()
		x.watchWriter(p)
		h1, h2 := p.twoCalls(x.gate("work", true))
		x.actor("handlers", func() { h1.finish("done") }, func() { h2.finish("done") })
		x.actor("close", func() { p.s.Close(mcp.CauseServerShutdown) })
		x.run()
		x.oneFate()
		x.sentOr(p, mcp.DropClosedWriter)
	}},
	{name: "array-peer-end", random: true, endings: []string{"sent", "broken_peer"}, script: func(x *explorer) {
		p := x.connect()
		gone := x.peerCanGo(p)
		h1, h2 := p.twoCalls(x.gate("work", true))
		x.actor("handlers", func() { h1.finish("done") }, func() { h2.finish("done") })
		x.actor("peer", func() { gone.Store(true) })
		x.run()
		x.oneFate()
		x.sentOr(p, mcp.DropBrokenPeer)
	}},
	{name: "array-vs-eof", random: true, limits: limits.Limits{EOFGrace: -1}, endings: []string{"sent"}, script: func(x *explorer) {
		p := x.connect()
		h1, h2 := p.twoCalls(x.gate("work", true))
		x.actor("handlers", func() { h1.finish("done") }, func() { h2.finish("done") })
		x.actor("peer", func() { p.s.EOF() })
		x.run()
		x.oneFate()
		require.Len(x.t, p.sink.frames(), 1)
		x.sentOr(p, "")
	}},
}

// oneFate checks that all answers are sent, or none.
func (x *explorer) oneFate() {
	x.t.Helper()
	sent := x.counts()["sent"]
	require.True(x.t, sent == 0 || sent == 2, "%d answers of an array were sent", sent)
}

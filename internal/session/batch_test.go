package session

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// batching opens a byte stream of the revision that has batches.
func (w *world) batching() *peer {
	p := w.connect(true)
	p.s.Initialize(&Peer{Version: mcp.Version20250326})
	return p
}

// openBatching opens a legacy HTTP session of that revision.
func (w *world) openBatching(id string) *Session {
	s := w.open(id)
	s.Initialize(&Peer{Version: mcp.Version20250326})
	return s
}

// batchOf decodes the members of a batch, as transports do.
func batchOf(conn *Conn, frames ...string) (members []Member) {
	split, err := wire.SplitBatch([]byte("["+strings.Join(frames, ",")+"]"), wire.DefaultLimits())
	if err != nil {
		panic(err)
	}
	for _, f := range split {
		in, bad := inbound(conn, string(f))
		if in != nil {
			in.Era, in.Version = mcp.Legacy, "" // the envelope tells what the member wants to be
		}
		members = append(members, Member{In: in, Bad: bad})
	}
	return members
}

// batch sends a batch on a byte stream.
func (p *peer) batch(frames ...string) { p.s.ReceiveBatch(batchOf(p.s.conn, frames...)) }

// postBatch sends a batch by HTTP; apart is what a client that takes an event stream gets.
func (w *world) postBatch(s *Session, apart bool, frames ...string) (x *exchange, admitted int) {
	x = &exchange{w: w, sink: &scriptSink{}, done: make(chan struct{})}
	x.stream = w.core.Exchange(httpConn, 1, mcp.Legacy)
	admitted = s.ReceiveBatchOn(batchOf(httpConn, frames...), x.stream, apart)
	go func() {
		defer close(x.done)
		x.err = x.stream.Pump(x.sink)
	}()
	return x, admitted
}

// array is the frame of several answers.
func array(frames ...string) string { return "[" + strings.Join(frames, ",") + "]" }

// twoCalls sends a batch of two requests whose handlers the test holds.
func (p *peer) twoCalls(g *gate) (first, second *held) {
	p.w.t.Helper()
	p.batch(callFrame("1", "work"), callFrame("2", "work"))
	first, second = g.next(), g.next()
	if first.r.ID.Raw() == "2" {
		first, second = second, first
	}
	return first, second
}

// sentTogether checks that the stream has carried one array with these answers, in any order.
func (p *peer) sentTogether(answers ...string) {
	p.w.t.Helper()
	frames := p.frames()
	require.Len(p.w.t, frames, 1)
	require.ElementsMatch(p.w.t, answers, strings.Split(strings.Trim(strings.ReplaceAll(frames[0], "},{", "}\x00{"), "[]"), "\x00"))
}

// Nothing waits for a handshake that is refused: with all slots taken, the reader goes
// on to the cancel that frees one.
func TestRefusedHandshakeHoldsNobody(t *testing.T) {
	inWorld(t, oneSlot, func(w *world) {
		g, p := w.gate("work", false), w.batching()
		p.call("9", "work")
		h := g.next()
		p.batch(initializeFrame, cancelFrame("9", ""))
		require.Equal(w.t, "client_cancel", h.cause())
		require.Equal(w.t, []string{array(errorFrame("1", -32600, "initialize must not be part of a batch"))}, p.frames())
	})
}

// While answers wait for the rest of their array, everything else passes.
func TestNothingWaitsForAnArray(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		a, n, p := w.asker("ask", false), w.sender("tell", 2), w.batching()
		p.batch(callFrame("1", "ask"), callFrame("2", "tell"), callFrame("3", "ping"), replyFrame("9", "{}"))
		a.blocked()
		n.next().finish("told")
		require.ElementsMatch(w.t, []string{askFrame("1"), noteFrame(1), noteFrame(2)}, p.frames())
		p.call("4", "ping")
		require.Equal(w.t, `{"jsonrpc":"2.0","id":4,"result":{}}`, p.last())
		p.call("2", "ping") // the id is free: its first request is settled
		require.Equal(w.t, `{"jsonrpc":"2.0","id":2,"result":{}}`, p.last())
		for _, info := range w.core.Snapshot().Requests {
			require.Equal(w.t, map[string]string{"1": "blocked", "2": "writing", "3": "writing"}[info.Request.ID.Raw()], info.State)
		}
		p.batch(replyFrame("1", `{}`)) // the client's answers may come in a batch too
		require.NoError(w.t, a.answer().err)
		a.next().finish("asked")
		last := p.last()
		for _, answer := range []string{resultFrame("1", "asked"), resultFrame("2", "told"), `{"jsonrpc":"2.0","id":3,"result":{}}`} {
			require.Contains(w.t, last, answer)
		}
		require.Equal(w.t, counts{"admitted": 5, "sent": 5, "ignored/response/unknown_id": 1}, w.counts())
	})
}

// The array waits for what its reader has not come to yet.
func TestArrayWaitsForItsReader(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		p, free := w.batching(), make(chan struct{})
		w.notified = func(*Inbound) { <-free }
		go p.batch(callFrame("1", "ping"), `{"jsonrpc":"2.0","method":"notifications/x"}`, callFrame("2", "ping"))
		require.Empty(w.t, p.frames())
		close(free)
		require.Len(w.t, p.frames(), 1)
		require.Contains(w.t, p.last(), `"id":1`)
		require.Contains(w.t, p.last(), `"id":2`)

		// What asks for no answer gets none, and not an empty array either.
		p.batch(`{"jsonrpc":"2.0","method":"notifications/x"}`, replyFrame("9", "{}"), `{"jsonrpc":"1.0","method":"x"}`)
		require.Len(w.t, p.frames(), 1)
	})
}

// A writer that is there already learns of answers that leave one by one.
func TestPartsWakeTheWriter(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		g, s, x := w.gate("work", false), w.openBatching("session-1"), w.exchange(1, mcp.Legacy)
		w.settle()
		s.ReceiveBatchOn(batchOf(httpConn, `7`, callFrame("1", "work")), x.stream, true)
		require.Equal(w.t, []string{nullError(-32600, "a message must be an object")}, x.frames())
		require.False(w.t, x.ended())
		g.next().finish("done")
		require.Len(w.t, x.frames(), 2)
		require.True(w.t, x.ended())
	})
}

// The end of a session takes its arrays along and waits for none of their answers twice.
func TestLastArrayIsNotWaitedForTwice(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		p := w.batching()
		h1, h2 := p.twoCalls(w.gate("work", false))
		h1.finish("done")
		h2.finish("done")
		w.settle()
		begin := time.Now()
		p.s.EOF()
		require.Zero(w.t, time.Since(begin))
		require.Len(w.t, p.frames(), 1)
	})
}

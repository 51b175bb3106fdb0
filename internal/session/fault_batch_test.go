package session

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// What the events do to the requests of a JSON-RPC batch. An answer that is there and
// waits for the others of its array is in state S.

var batchE1 = []faultCell{
	{state: "R/batch", test: func(w *world) {
		g, p := w.gate("work", false), w.batching()
		h1, h2 := p.twoCalls(g)
		p.cancel("1", "")
		require.Equal(w.t, "client_cancel", h1.cause())
		require.Empty(w.t, p.frames())
		h2.finish("done")
		p.sentTogether(resultFrame("2", "done"))
		require.Equal(w.t, counts{
			"admitted": 2, "sent": 1, "dropped/cancelled": 1, "cancelled/client_cancel": 1,
		}, w.counts())

		// The last one that is missing is cancelled: the array goes.
		h1, h2 = p.twoCalls(g)
		h1.finish("done")
		require.Len(w.t, p.frames(), 1)
		p.cancel("2", "")
		require.Equal(w.t, "client_cancel", h2.cause())
		require.Equal(w.t, array(resultFrame("1", "done")), p.last())

		// None is left: there is no array, and not an empty one either.
		w.gate("other", false)
		p.batch(callFrame("1", "other"), cancelFrame("1", ""))
		require.Len(w.t, p.frames(), 2)

		// What is there is not taken back.
		before := w.counts()
		h1, h2 = p.twoCalls(g)
		h1.finish("done")
		w.settle()
		p.cancel("1", "")
		h2.finish("done")
		require.Len(w.t, p.frames(), 3)
		require.Contains(w.t, p.last(), resultFrame("1", "done"))
		require.Equal(w.t, counts{"admitted": 2, "sent": 2, "ignored/cancel/unknown_id": 1}, w.counts().since(before))
	}},
	{state: "R/batch-http", test: func(w *world) {
		g, s := w.gate("work", false), w.openBatching("session-1")
		for _, apart := range []bool{false, true} {
			before := w.counts()
			x, admitted := w.postBatch(s, apart, callFrame("1", "work"), callFrame("2", "work"))
			require.Equal(w.t, 2, admitted)
			require.Equal(w.t, []string{"", ""}, []string{g.next().cause(), g.next().cause()})
			w.tell(s, cancelFrame("1", ""))
			require.False(w.t, x.ended(), "the other one is still to be answered")
			w.tell(s, cancelFrame("2", ""))
			require.True(w.t, x.ended())
			require.NoError(w.t, x.err)
			require.Empty(w.t, x.frames(), "no terminator: what ends the exchange is the transport's")
			require.Equal(w.t, counts{
				"admitted": 2, "dropped/cancelled": 2, "cancelled/client_cancel": 2,
			}, w.counts().since(before))
		}
	}},
}

var batchE4 = []faultCell{
	{state: "R/batch", test: func(w *world) {
		g, p := w.gate("work", true), w.batching()
		h1, h2 := p.twoCalls(g)
		h1.finish("done")
		p.eof()
		time.Sleep(w.core.limits.EOFGrace)
		require.Empty(w.t, p.frames())
		<-p.s.Done()
		require.Len(w.t, p.frames(), 1)
		require.Contains(w.t, p.last(), resultFrame("1", "done"))
		require.Contains(w.t, p.last(), `"reason":"transport_close"`)
		require.Equal(w.t, counts{
			"admitted": 2, "sent": 2, "cancelled/transport_close": 1, "abandoned/transport_close": 1,
		}, w.counts())
		h2.finish("late")
	}},
}

var batchE5 = []faultCell{
	{state: "S/batch", test: func(w *world) {
		g := w.gate("work", false)
		eachLoss(w, func(p *peer, lose verdictFunc, on breakOn) {
			h1, h2 := p.twoCalls(g)
			h1.finish("done")
			w.settle()
			require.Len(w.t, w.core.Snapshot().Requests, 2, "an answer that waits has no fate")
			on(p, lose)
			p.notice()
			w.settle()
			require.Equal(w.t, "transport_error", h2.cause())
			require.Empty(w.t, w.core.Snapshot().Requests)
		}, counts{
			"admitted": 2, "dropped/broken_peer": 2, "cancelled/transport_error": 1, "notification/broken_peer": 1,
		})
	}},
	{state: "W/batch", test: func(w *world) {
		g := w.gate("work", false)
		p, free := w.batching(), make(chan struct{})
		p.sink.onFlush(inTurn(blockUntil(free), failWith(mcp.DropBrokenPeer, errReset)))
		h1, h2 := p.twoCalls(g)
		h1.finish("done")
		h2.finish("done")
		w.settle()
		require.Equal(w.t, counts{"admitted": 2}, w.counts(), "written is not sent")
		close(free)
		<-p.s.Done()
		require.Equal(w.t, counts{"admitted": 2, "dropped/broken_peer": 2}, w.counts())
		require.Equal(w.t, 1, w.times("WARN session.peer_lost"))
	}},
}

var batchE7 = []faultCell{
	{state: "S/batch", test: func(w *world) {
		g, s := w.gate("work", false), w.openBatching("session-1")
		x, _ := w.postBatch(s, false, callFrame("1", "work"), callFrame("2", "work"))
		h1, h2 := g.next(), g.next()
		h1.finish("done")
		require.Empty(w.t, x.frames(), "an array is whole")
		x.vanish()
		w.settle()
		require.Equal(w.t, counts{"admitted": 2, "dropped/stream_gone": 1}, w.counts(), "at once")
		require.Empty(w.t, h2.cause(), "a legacy loss is not a cancel")
		h2.finish("done")
		w.settle()
		require.Equal(w.t, counts{"admitted": 2, "dropped/stream_gone": 2}, w.counts())
		require.Empty(w.t, x.frames())
	}},
}

var batchE9 = []faultCell{
	{state: "S/batch", test: func(w *world) {
		g, s := w.gate("work", false), w.openBatching("session-1")
		x, _ := w.postBatch(s, false, callFrame("1", "work"), callFrame("2", "work"))
		h1, h2 := g.next(), g.next()
		h1.finish("done")
		w.settle()
		s.Close(mcp.CauseSessionDelete)
		require.True(w.t, x.ended())
		require.ErrorIs(w.t, x.err, mcp.ErrClosed)
		require.Empty(w.t, x.frames())
		require.Equal(w.t, "session_delete", h2.cause())
		require.Equal(w.t, counts{"admitted": 2, "dropped/session_gone": 2, "cancelled/session_delete": 1}, w.counts())
	}},
}

var batchE11 = []faultCell{
	{state: "R/batch", limits: limits.Limits{MaxInFlight: 2}, test: func(w *world) {
		quick, deaf, late := w.gate("quick", false), w.gate("deaf", true), w.gate("late", false)
		p := w.batching()
		p.batch(callFrame("1", "quick"), callFrame("2", "deaf"), callFrame("3", "late"))
		h, stuck := quick.next(), deaf.next()
		deadline, done := w.shutdown()
		late.empty()
		h.finish("done")
		require.Empty(w.t, p.frames(), "refused in the queue, and answered, but not in the array of all")
		deadline()
		require.ErrorIs(w.t, <-done, ErrAbandoned)
		require.Len(w.t, p.frames(), 1)
		for _, part := range []string{resultFrame("1", "done"), `"reason":"server_shutdown"`, `"reason":"shutting_down"`} {
			require.Contains(w.t, p.frames()[0], part)
		}
		require.Equal(w.t, counts{
			"admitted": 3, "sent": 3, "cancelled/server_shutdown": 2, "abandoned/server_shutdown": 1,
		}, w.counts())
		stuck.finish("late")
	}},
}

var batchE12 = []faultCell{
	{state: "R/batch", test: func(w *world) {
		brief, g := w.gate("brief", true), w.gate("work", false)
		w.fiveSeconds("brief")
		p := w.batching()
		p.batch(callFrame("1", "brief"), callFrame("2", "work"))
		h1, h2 := brief.next(), g.next()
		time.Sleep(5 * time.Second)
		require.Empty(w.t, p.frames(), "the error waits for the rest of its array")
		require.Equal(w.t, "deadline", h1.cause())
		h1.finish("late")
		h2.finish("done")
		require.Len(w.t, p.frames(), 1)
		require.Contains(w.t, p.last(), `"reason":"deadline"`)
		require.Contains(w.t, p.last(), resultFrame("2", "done"))
		require.Equal(w.t, counts{"admitted": 2, "sent": 2, "cancelled/deadline": 1}, w.counts())
	}},
}

var batchE14 = []faultCell{
	{state: "batch", test: func(w *world) {
		g, other, p := w.gate("work", false), w.gate("other", false), w.batching()
		p.call("9", "other")
		running := other.next()
		// The second 1 is refused although the first may be done by then, the 9 because of
		// another frame's.
		p.batch(callFrame("1", "ping"), callFrame("1.0", "work"), callFrame("9", "work"), callFrame("2", "work"))
		h := g.next()
		require.Equal(w.t, "2", h.r.ID.Raw())
		g.empty()
		require.Empty(w.t, running.cause())
		require.Empty(w.t, p.frames())
		h.finish("done")
		p.sentTogether(`{"jsonrpc":"2.0","id":1,"result":{}}`, nullDuplicate("1.0"), nullDuplicate("9"), resultFrame("2", "done"))
		require.Equal(w.t, counts{"admitted": 3, "sent": 2, "rejected/duplicate_id": 2}, w.counts())

		// In the next batch, 1 is free.
		p.batch(callFrame("1", "ping"))
		require.Equal(w.t, `[{"jsonrpc":"2.0","id":1,"result":{}}]`, p.last())
		running.finish("other")
		require.Equal(w.t, resultFrame("9", "other"), p.last())
	}},
	{state: "batch-http", test: func(w *world) {
		g, s := w.gate("work", false), w.openBatching("session-1")
		first := w.post(s, callFrame("1", "work"))
		h := g.next()
		// The 1 is another exchange's: its error may carry the id. The second 2 shares the
		// exchange with the first.
		x, admitted := w.postBatch(s, false, callFrame("1", "work"), callFrame("2", "ping"), callFrame("2", "ping"))
		require.Equal(w.t, 1, admitted)
		frames := x.frames()
		require.Len(w.t, frames, 1)
		hasError(w.t, frames[0][1:], "1", mcp.CodeInvalidRequest, "duplicate_id")
		require.Contains(w.t, frames[0], nullDuplicate("2"))
		require.Contains(w.t, frames[0], `{"jsonrpc":"2.0","id":2,"result":{}}`)
		g.empty()
		require.Empty(w.t, first.frames())
		h.finish("first")
		require.Equal(w.t, []string{resultFrame("1", "first")}, first.frames())
		require.Equal(w.t, counts{"admitted": 2, "sent": 2, "rejected/duplicate_id": 2}, w.counts())
	}},
}

// nullDuplicate is duplicateFrame for clients up to 2025-06-18.
func nullDuplicate(id string) string {
	return strings.Replace(duplicateFrame(id), `"2.0",`, `"2.0","id":null,`, 1)
}

var batchE15 = []faultCell{
	{state: "batch", test: func(w *world) {
		g, p := w.gate("work", false), w.batching()
		p.batch(`1`, `{"jsonrpc":"1.0","id":5,"method":"ping"}`, `{"jsonrpc":"1.0","id":7,"method":"ping"}`, callFrame("7", "work"),
			`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, `{"jsonrpc":"1.0","method":"notifications/x"}`,
			`{"jsonrpc":"1.0","id":7,"method":"ping"}`, `{"jsonrpc":"2.0","id":"a","id":"b","method":"ping"}`,
			initializeFrame, modernFrame("8", "work"), `{"jsonrpc":"2.0","method":"notifications/x"}`)
		h := g.next()
		g.empty()
		require.Empty(w.t, h.cause())
		require.Empty(w.t, p.frames())
		h.finish("done")
		p.sentTogether(
			nullError(-32600, "a message must be an object"),
			errorFrame("5", -32600, `member "jsonrpc" must be "2.0"`),
			nullError(-32600, `member "jsonrpc" must be "2.0"`), // 7 is another member's,
			nullError(-32600, `member "jsonrpc" must be "2.0"`), // before it and after it
			nullError(-32700, "duplicate member name at /id"),
			errorFrame("1", -32600, "initialize must not be part of a batch"),
			errorFrame("8", -32600, "this protocol version has no batches"),
			resultFrame("7", "done"),
		)
		require.Equal(w.t, counts{
			"admitted": 3, "sent": 3, "ignored/frame/not_jsonrpc": 5, "ignored/response/malformed": 1, "rejected/parse_error": 1,
		}, w.counts())
		k := w.core.Snapshot().Counters.Received
		require.Equal(w.t, map[string]uint64{"request": 3, "notification": 1, "response": 1, "invalid": 6}, k)
	}},
	{state: "batch-http", test: func(w *world) {
		s := w.openBatching("session-1")
		x, admitted := w.postBatch(s, true, `1`, `{"jsonrpc":"1.0","id":5,"method":"ping"}`, `{"jsonrpc":"1.0","method":"x"}`)
		require.Zero(w.t, admitted)
		require.Equal(w.t, []string{array(
			nullError(-32600, "a message must be an object"), errorFrame("5", -32600, `member "jsonrpc" must be "2.0"`),
		)}, x.frames(), "what is refused altogether is one array")
		require.True(w.t, x.ended())
		require.Equal(w.t, counts{"ignored/frame/not_jsonrpc": 3}, w.counts())

		x, admitted = w.postBatch(s, true, `{"jsonrpc":"1.0","id":1,"method":"ping"}`, callFrame("1", "ping"))
		require.Equal(w.t, 1, admitted)
		require.Equal(w.t, []string{nullError(-32600, `member "jsonrpc" must be "2.0"`), `{"jsonrpc":"2.0","id":1,"result":{}}`}, x.frames(),
			"the id is another member's")
		require.True(w.t, x.ended())
		for range w.core.limits.MaxConsecutiveMalformed {
			x, _ = w.postBatch(s, false, `1`)
			require.Len(w.t, x.frames(), 1, "neither counted nor rate-limited: each costs an exchange")
		}
	}},
	{state: "batch-consecutive", limits: limits.Limits{MaxConsecutiveMalformed: 5}, test: func(w *world) {
		g, p := w.gate("work", false), w.batching()
		p.batch(`1`, `2`, `3`, `4`, callFrame("1", "work")) // not five in a row
		h := g.next()
		p.batch(`1`, `2`, `3`, `4`)
		require.Len(w.t, p.frames(), 1)
		require.Empty(w.t, h.cause())
		p.batch(`5`, `6`, callFrame("2", "work"))
		<-p.s.Done()
		g.empty()
		require.Equal(w.t, "transport_error", h.cause())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/closed_writer": 1, "cancelled/transport_error": 1,
			"ignored/frame/not_jsonrpc": 9, "limit/max_consecutive_malformed": 1,
		}, w.counts())
	}},
	{state: "batch-wedged", limits: limits.Limits{MaxQueuedBytes: 400, MaxConsecutiveMalformed: 1000}, test: func(w *world) {
		p := w.batching()
		p.sink.on(blockUntil(nil))
		var sent atomic.Int32
		send := func() {
			p.batch(`{"jsonrpc":"1.0","id":5,"method":"ping"}`, `{"jsonrpc":"1.0","id":6,"method":"ping"}`)
			sent.Add(1)
		}
		send()
		w.settle() // the writer hangs on it
		go func() {
			for range 50 {
				send()
			}
		}()
		w.settle()
		require.EqualValues(w.t, 3, sent.Load(), "one is being written, two wait, and so does the reader after the third")
		require.Equal(w.t, counts{"ignored/frame/not_jsonrpc": 8, "limit/max_queued_bytes": 1}, w.counts())
		time.Sleep(w.core.limits.WriteTimeout)
		<-p.s.Done()
		require.Equal(w.t, 1, w.times("WARN session.peer_lost"))
	}},
	{state: "batch-frame", limits: limits.Limits{MaxBatch: 2}, test: func(w *world) {
		p := w.batching()
		limits := w.core.limits.Wire()
		for frame, want := range map[string]string{
			`[]`:      nullError(-32600, "a batch must not be empty"),
			`[1,2`:    nullError(-32700, "invalid JSON: unexpected EOF at byte 4"),
			`[1,2,3]`: `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a batch must not have more than 2 messages","data":{"limit":"max_batch"}}}`,
		} {
			_, err := wire.SplitBatch([]byte(frame), limits)
			p.s.Malformed(err.(*wire.Error))
			require.Equal(w.t, want, p.last())
		}
		require.Equal(w.t, counts{"ignored/frame/batch": 2, "rejected/parse_error": 1, "limit/max_batch": 1}, w.counts())
		for version, want := range map[mcp.Version]bool{
			mcp.Version20241105: false, mcp.Version20250326: true, mcp.Version20250618: false, mcp.Version20251125: false,
		} {
			p.s.Initialize(&Peer{Version: version})
			require.Equal(w.t, want, p.s.TakesBatches(), version)
		}
		require.False(w.t, w.connect(false).s.TakesBatches(), "before initialize")
	}},
}

// nullError is errorFrame without an id, for clients up to 2025-06-18.
func nullError(code mcp.Code, message string) string { return errorFrame("null", code, message) }

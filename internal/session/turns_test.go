package session

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A largeResult returns a result that needs a turn to be encoded. encoded counts how often it is.
func largeResult(encoded *int) mcp.Result {
	text := &mcp.TextContent{Text: strings.Repeat("x", 2*stream.LargeFrame)}
	text.Meta = mcp.Meta{"n": counting{encoded}}
	return &mcp.CallToolResult{Content: []mcp.Content{text}}
}

// counting is a value that counts how often it is encoded.
type counting struct{ n *int }

func (c counting) MarshalJSON() ([]byte, error) {
	*c.n++
	return []byte("1"), nil
}

// answer lets the handler return a result.
func (h *held) answer(result mcp.Result) {
	h.release <- func() (mcp.Result, error) { return result, nil }
}

// takeTurn takes the one turn of a core on behalf of somebody else.
func (w *world) takeTurn() *share.Turn {
	w.t.Helper()
	caller, turn := w.core.Caller(from("192.0.2.1")), new(share.Turn)
	w.t.Cleanup(caller.Release)
	require.NoError(w.t, w.core.TakeTurn(w.t.Context(), turn, caller))
	return turn
}

// turnsNow is the snapshot of the turns.
func (w *world) turnsNow() share.Usage {
	w.settle()
	for _, s := range w.core.Snapshot().Shares {
		if s.Limit == limits.NameTurns {
			return s.Usage
		}
	}
	w.t.Fatal("the snapshot does not have the turns")
	return share.Usage{}
}

func TestLargeAnswerWaitsForItsTurn(t *testing.T) {
	inWorld(t, limits.Limits{MaxTurns: 1}, func(w *world) {
		g, encoded := w.gate("work", false), 0
		turn := w.takeTurn()
		x := w.post(nil, modernFrame("1", "work"))
		g.next().answer(largeResult(&encoded))
		require.Equal(w.t, share.Usage{Size: 1, Used: 1, Holders: 1, Waiting: 1, Waiters: 1}, w.turnsNow())
		require.Zero(w.t, encoded)
		time.Sleep(time.Millisecond)
		turn.Give()
		require.Len(w.t, x.frames(), 1)
		require.Equal(w.t, 1, encoded)
		require.Equal(w.t, share.Usage{Size: 1}, w.turnsNow())
		require.Equal(w.t, share.TurnWaits{Waits: 1, Waited: time.Millisecond}, w.core.Snapshot().Turns)
	})
}

// Small answers are encoded at once.
func TestSmallAnswerNeedsNoTurn(t *testing.T) {
	inWorld(t, limits.Limits{MaxTurns: 1}, func(w *world) {
		g, turn := w.gate("work", false), w.takeTurn()
		x := w.post(nil, modernFrame("1", "work"))
		g.next().finish("small")
		require.Len(w.t, x.frames(), 1)
		turn.Give()
	})
}

// A client that goes while its answer waits for a turn leaves the queue, and nothing is encoded.
func TestAnswerThatNobodyWantsIsNotEncoded(t *testing.T) {
	inWorld(t, limits.Limits{MaxTurns: 1}, func(w *world) {
		g, encoded := w.gate("work", false), 0
		x := w.post(nil, modernFrame("1", "work"))
		h := g.next()
		w.settle()
		time.Sleep(stream.QuickAnswer)
		turn := w.takeTurn()
		h.answer(largeResult(&encoded))
		require.Equal(w.t, 1, w.turnsNow().Waiters)
		x.sink.leave()
		require.Equal(w.t, share.Usage{Size: 1, Used: 1, Holders: 1}, w.turnsNow())
		require.Equal(w.t, counts{"admitted": 1, "cancelled/client_disconnect": 1, "dropped/cancelled": 1}, w.counts())
		turn.Give()
		w.settle()
		require.Zero(w.t, encoded)
	})
}

// The deadline of a request goes on while its answer waits for a turn.
func TestDeadlineEndsTheWaitForATurn(t *testing.T) {
	inWorld(t, limits.Limits{MaxTurns: 1, RequestTimeout: turnSlice / 2}, func(w *world) {
		g, encoded := w.gate("work", true), 0
		turn := w.takeTurn()
		x := w.post(nil, modernFrame("1", "work"))
		g.next().answer(largeResult(&encoded))
		time.Sleep(turnSlice / 2)
		frames := x.frames()
		require.Len(w.t, frames, 1)
		hasError(w.t, frames[0], "1", mcp.CodeInternalError, "deadline")
		require.Zero(w.t, w.turnsNow().Waiters)
		require.Zero(w.t, encoded)
		turn.Give()
	})
}

// A result for which there is no room is not encoded first.
func TestAnswerWithoutRoomIsNotEncoded(t *testing.T) {
	inWorld(t, limits.Limits{MaxQueuedBytesTotal: 3 * stream.LargeFrame}, func(w *world) {
		g, encoded := w.gate("work", false), 0
		first := w.post(nil, modernFrame("1", "work"))
		first.sink.on(blockUntil(nil))
		g.next().answer(largeResult(&encoded))
		w.settle()
		require.Equal(w.t, 1, encoded)
		second := w.post(nil, modernFrame("2", "work"))
		g.next().answer(largeResult(&encoded))
		frames := second.frames()
		require.Len(w.t, frames, 1)
		hasError(w.t, frames[0], "2", mcp.CodeInternalError, "overload")
		require.Contains(w.t, frames[0], limits.NameQueuedBytesTotal)
		require.Equal(w.t, 1, encoded)
		first.leave()
	})
}

func TestLeastSizeIsNotMoreThanTheAnswer(t *testing.T) {
	text := strings.Repeat("x", 100)
	for want, result := range map[int]mcp.Result{
		0:   nil,
		300: &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}, &mcp.ImageContent{Data: []byte(text)}, &mcp.AudioContent{Data: []byte(text)}, &mcp.ResourceLink{URI: text}}},
		200: &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{Text: text}, {Blob: []byte(text)}}},
	} {
		require.Equal(t, want, leastSize(result))
	}
	require.Zero(t, leastSize((*mcp.CallToolResult)(nil)))
	require.Zero(t, leastSize((*mcp.ReadResourceResult)(nil)))
}

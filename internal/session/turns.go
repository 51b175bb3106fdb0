package session

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// turnSlice is how long a turn lasts at least while others wait. It is as long as Go's scheduler lets
// one goroutine run.
const turnSlice = 10 * time.Millisecond

// newTurns returns the turns of the callers of a table.
func newTurns(t *share.Table, l *limits.Limits) *share.Turns {
	if l.MaxTurns > 0 {
		return t.Turns(l.MaxTurns, turnSlice)
	}
	return t.Turns(runtime.GOMAXPROCS(0), turnSlice).SpareOne()
}

// TakeTurn takes a turn for a message of a caller, see [share.Turns]. It waits at most for
// request_timeout. An error that matches [share.ErrNoTurn] says that the limit is reached, any other one
// that ctx has ended.
func (c *Core) TakeTurn(ctx context.Context, turn *share.Turn, of *share.Caller) error {
	err := c.turns.Take(ctx, turn, of, c.limits.RequestTimeout)
	if errors.Is(err, share.ErrNoTurn) {
		c.ledger.limitReached(limits.NameTurns)
	}
	return err
}

// SeveralTakeTurns reports whether several callers wanted turns lately.
func (c *Core) SeveralTakeTurns() bool { return c.turns.Several() }

// GiveTurn gives back the turn that the message was taken with, if it has one. It must be called by
// the goroutine that has the request, before the request waits or code of others is called that may wait.
func (in *Inbound) GiveTurn() {
	in.Turn.Give()
	in.Turn = nil // it would keep the exchange
}

// encodingTurn takes a turn for encoding a result that has so many bytes or more, and returns it; nil if
// the result is small. The deadline of the request bounds the wait. Without a turn the request is over,
// or its answer is encoded all the same.
func (r *Request) encodingTurn(size int) *share.Turn {
	if size <= stream.LargeFrame {
		return nil
	}
	turn := new(share.Turn)
	_ = r.core.turns.Take(r.ctx, turn, r.caller, r.core.limits.MaxRequestTimeout)
	return turn
}

// leastSize returns a number of bytes that a result has at least when it is encoded. It counts the texts and
// data of tools and resources, which is where large results have their bytes. It must not panic: nothing contains that.
func leastSize(result mcp.Result) (n int) {
	switch result := result.(type) {
	case *mcp.CallToolResult:
		if result == nil {
			return 0
		}
		for _, c := range result.Content {
			n += leastSizeOf(c)
		}
	case *mcp.ReadResourceResult:
		if result == nil {
			return 0
		}
		for i := range result.Contents {
			n += len(result.Contents[i].Text) + len(result.Contents[i].Blob)
		}
	}
	return n
}

// leastSizeOf is leastSize for a block of content, which may be a nil pointer.
func leastSizeOf(content mcp.Content) int {
	switch c := content.(type) {
	case *mcp.TextContent:
		if c != nil {
			return len(c.Text)
		}
	case *mcp.ImageContent:
		if c != nil {
			return len(c.Data)
		}
	case *mcp.AudioContent:
		if c != nil {
			return len(c.Data)
		}
	}
	return 0
}

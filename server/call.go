package server

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
	"github.com/vitrine-mcp/vitrine/server/internal/task"
)

// A Call is what a handler knows of the request that it serves, and the way
// to speak to the client before the answer. It may be used from any goroutine
// until the handler has returned; later its methods return [mcp.ErrRequestDone].
type Call struct {
	*middleware.Request
	core   *session.Request
	logger *slog.Logger
	dialog ask.Dialog // with the client

	run *task.Run // of a tool with Tool.Task; set before the handler is called

	mu       sync.Mutex // guards the rest, and the order in which progress is queued
	reported bool
	progress float64
}

// A callHandler is the handler of a feature.
type callHandler func(ctx context.Context, call *Call) (mcp.Result, error)

// Deadline returns when the caller is answered with an error if the handler has not
// returned.
func (c *Call) Deadline() time.Time { return c.core.Deadline() }

// ProgressToken returns the token under which the client wants progress, or nil. A
// token that is neither a string nor an integer, which only legacy clients get
// through, counts as none.
func (c *Call) ProgressToken() mcp.ProgressToken {
	if !c.core.Meta.ProgressTokenOK {
		return nil
	}
	return c.core.Meta.ProgressToken
}

// Progress tells the client how far the call has come: progress out of total (0 if
// that is unknown), and a message that may be empty. A value that does not exceed
// the one before is left out, because the protocol wants it to grow. If the
// client did not ask for progress, nothing is sent and the result is nil.
//
// Progress may wait a moment for a slow reader: not longer than the notify time-out,
// and before that for the goroutines that report at the same time, one after the other,
// each of which waits as long. Once the call is settled (cancelled, past its deadline, or answered) it
// returns [mcp.ErrRequestDone], or the cause if it was waiting at that moment, so that
// a loop may stop on its error.
//
// A call that goes on as a task has no progress: its message, if it is not empty,
// becomes the message of the task, at most once a second.
func (c *Call) Progress(progress, total float64, message string) error {
	if math.IsNaN(progress) || math.IsInf(progress, 0) || math.IsNaN(total) || math.IsInf(total, 0) {
		return fmt.Errorf("server: progress %v of %v is not a number", progress, total)
	}
	if c.run.Detached() {
		return c.run.Say(message)
	}
	token := c.ProgressToken()
	if token == nil {
		c.core.DropNotification(mcp.NotificationProgress, mcp.DropNoProgressToken)
		if c.core.Settled() {
			return mcp.ErrRequestDone
		}
		return nil
	}
	// Held until the notification is queued: of two goroutines that report at the
	// same time, the smaller value could else be written last.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reported && progress <= c.progress {
		return nil
	}
	c.reported, c.progress = true, progress
	params := make([]byte, 0, 64+len(token)+len(message))
	params = append(append(params, `{"progressToken":`...), token...)
	params = appendNumber(append(params, `,"progress":`...), progress)
	if total != 0 {
		params = appendNumber(append(params, `,"total":`...), total)
	}
	if message != "" {
		params = wire.AppendString(append(params, `,"message":`...), message)
	}
	return c.core.Notify(mcp.NotificationProgress, append(params, '}'), "progress")
}

// appendNumber appends a finite number, and a whole one without an exponent, as
// people count.
func appendNumber(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// CloseStream ends the HTTP response to this call, so that a long call does not hold a
// connection. What the call sends from then on, its result included, waits for the
// client to come and get it (specification 2025-11-25: "Sending Messages to the
// Server", SEP-1699). retry is how long the client should wait before it comes; 0
// leaves that to the client. A call may close each connection over which the client
// comes.
//
// CloseStream returns when the response has ended, and at once if it has ended before.
// Only legacy HTTP clients from revision 2025-11-25 on know how to come back: for all
// others, without an event store, and if that fails, nothing happens and the error
// matches [errors.ErrUnsupported]. A call that can go on without need not look at it.
// Once the call is settled the error is [mcp.ErrRequestDone], or the cause of its
// cancellation if it was waiting at that moment.
func (c *Call) CloseStream(retry time.Duration) error { return c.core.CloseStream(retry) }

package server

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/task"
)

// A Call is the request that a handler serves. Its methods send notifications and questions to
// the client before the answer. They are safe for concurrent use until the handler has returned;
// after that they return [mcp.ErrRequestDone].
type Call struct {
	*middleware.Request
	dialog ask.Dialog // with the client

	run *task.Run // nil unless the tool has Tool.Task; set before the handler is called

	mu       sync.Mutex // guards progress, and the order in which it is queued
	progress float64    // the last value; negative infinity before the first one
}

// A callHandler is the handler of a feature.
type callHandler func(ctx context.Context, call *Call) (mcp.Result, error)

// run calls the handler. When it returns, its run has ended, unless the handler goes on as a task.
func (h callHandler) run(ctx context.Context, call *Call) (mcp.Result, error) {
	defer func() {
		if !call.run.Detached() {
			call.dialog.EndRun()
		}
	}()
	return h(ctx, call)
}

// Deadline returns the time at which the caller gets an error if the handler has not returned.
func (c *Call) Deadline() time.Time { return c.dialog.Core.Deadline() }

// ProgressToken returns the token with which the client has asked for progress, or nil. It also
// returns nil for a token that is neither a string nor an integer, which only legacy clients can
// send.
func (c *Call) ProgressToken() mcp.ProgressToken {
	if !c.dialog.Core.Meta.ProgressTokenOK {
		return nil
	}
	return c.dialog.Core.Meta.ProgressToken
}

// Progress tells the client how far the call has come: progress out of total, which is 0 if it is
// unknown, and a message, which may be empty. A value that is not greater than the one before is
// not sent, because the protocol demands growing values. If the client did not ask for progress,
// nothing is sent and the error is nil. For clients of 2024-11-05, which do not know it, the member message is left out.
//
// Progress waits for a slow reader, at most for the notify time-out. Goroutines that report at the
// same time wait one after the other. Once the call is settled (cancelled, past its deadline, or
// answered) the error is [mcp.ErrRequestDone], or the cause of the cancellation if Progress was
// waiting at that moment. So a loop can stop at the first error.
//
// A call that goes on as a task has no progress. A message that is not empty becomes the message
// of the task, at most once a second.
func (c *Call) Progress(progress, total float64, message string) error {
	if math.IsNaN(progress) || math.IsInf(progress, 0) || math.IsNaN(total) || math.IsInf(total, 0) {
		return fmt.Errorf("server: progress %v of %v is not a number", progress, total)
	}
	if c.run.Detached() {
		return c.run.Say(message)
	}
	token := c.ProgressToken()
	if token == nil {
		c.dialog.Core.DropNotification(mcp.NotificationProgress, mcp.DropNoProgressToken)
		if c.dialog.Core.Settled() {
			return mcp.ErrRequestDone
		}
		return nil
	}
	// The lock is held until the notification is queued. Otherwise two goroutines could queue
	// their values in the wrong order.
	c.mu.Lock()
	defer c.mu.Unlock()
	if progress <= c.progress {
		return nil
	}
	c.progress = progress
	params := make([]byte, 0, 64+len(token)+len(message))
	params = append(append(params, `{"progressToken":`...), token...)
	params = appendNumber(append(params, `,"progress":`...), progress)
	if total != 0 {
		params = appendNumber(append(params, `,"total":`...), total)
	}
	if message != "" && era.ProgressHasMessage(c.dialog.Core) {
		params = wire.AppendString(append(params, `,"message":`...), message)
	}
	return c.dialog.Core.Notify(mcp.NotificationProgress, append(params, '}'), "progress")
}

// appendNumber appends a finite number. A whole number has no exponent.
func appendNumber(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// CloseStream ends the HTTP response to this call, so that a long call does not hold a connection.
// Later messages of the call, and its result, are stored until the client fetches them
// (specification 2025-11-25: "Sending Messages to the Server", SEP-1699). retry is how long the
// client should wait before it reconnects; 0 leaves that to the client. A call may close each
// connection over which the client reconnects.
//
// CloseStream returns when the response has ended, and at once if it has ended before. Only legacy
// HTTP clients from revision 2025-11-25 on can reconnect. For all others, without an event store,
// and if the store fails, nothing happens and the error matches [errors.ErrUnsupported]; a call may
// ignore it. Once the call is settled the error is [mcp.ErrRequestDone], or the cause of the
// cancellation if CloseStream was waiting at that moment.
func (c *Call) CloseStream(retry time.Duration) error { return c.dialog.Core.CloseStream(retry) }

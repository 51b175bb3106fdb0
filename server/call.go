package server

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A Call is what a handler knows of the request that it serves, and the way
// to speak to the client before the answer. It may be used from any goroutine
// until the handler has returned; later its methods return [mcp.ErrRequestDone].
type Call struct {
	*middleware.Request
	core   *session.Request
	server *Server
	// ctx is what the handler was called with; questions wait no longer than it lives.
	ctx context.Context

	asking sync.Mutex // guards input and kept
	// input answers the handler's questions. Nil stands for the source of the request's
	// own era, which is made when the first question is asked.
	input inputSource
	kept  jsontext.Value // what the handler has kept for its next run

	run *taskRun // of a tool with Tool.Task; set before the handler is called

	mu       sync.Mutex // guards the rest, and the order in which progress is queued
	reported bool
	progress float64
}

// A callHandler is the handler of a feature.
type callHandler func(ctx context.Context, call *Call) (mcp.Result, error)

// serve gives a feature's handler the form that the chain wraps.
func (s *Server) serve(h callHandler) middleware.Handler {
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		call := s.newCall(ctx, req)
		result, err := h(ctx, call)
		if err == nil && !call.hasAsked() {
			return result, nil
		}
		return s.converse(call, h, result, err)
	}
}

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
	if t := c.task(); t != nil {
		return t.say(message)
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

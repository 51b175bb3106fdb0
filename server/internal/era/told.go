package era

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Errors of handlers pass the middlewares unchanged. The code in this file runs outside of them.
// It decides what the caller is told of an error, and logs the whole error.

// A Fault is an error of the server, or of a program that breaks its own schemas. For a tool it
// becomes a protocol error, because the model cannot correct it with other arguments.
type Fault struct{ Err error }

// Error returns the text of the error.
func (e Fault) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e Fault) Unwrap() error { return e.Err }

// A Teller makes answers of what handlers return. It is safe for concurrent use.
type Teller struct {
	Logger *slog.Logger
	// Details tells callers the whole text of every error.
	Details atomic.Bool
}

// Answer returns the answer for what the chain of middlewares has returned.
func (t *Teller) Answer(ctx context.Context, r *session.Request, result mcp.Result, err error) (mcp.Result, error) {
	if err == nil {
		if tool, ok := result.(*mcp.CallToolResult); ok && tool != nil {
			observe.Result(r, tool)
		}
		return result, nil
	}
	if cause := CancelledBy(ctx, err); cause != nil {
		return nil, cause
	}
	tool, told := t.Tell(ctx, r, err)
	if told != nil {
		return nil, Translate(r.Era, r.Version, told)
	}
	observe.Result(r, tool)
	return tool, nil
}

// Tell logs an error and returns what the caller is told: the result of a tool, or a protocol
// error, which Translate has to be applied to.
func (t *Teller) Tell(ctx context.Context, r *session.Request, err error) (*mcp.CallToolResult, *mcp.Error) {
	t.show(ctx, r, err)
	if rpc := t.protocolError(r, err); rpc != nil {
		return nil, rpc
	}
	return mcp.ToolErrorResult(t.text(r, err, "the tool failed")), nil
}

// CancelledBy returns the cause of the cancellation of ctx if err is about nothing else, or nil.
func CancelledBy(ctx context.Context, err error) error {
	if _, cancelled := mcp.CauseOf(ctx); !cancelled {
		return nil
	}
	cause := context.Cause(ctx)
	if errors.Is(err, cause) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return cause // err is ctx.Err(), perhaps wrapped by a library
	}
	return nil
}

// protocolError returns the error with which a request is answered, or nil if a tool's
// result reports it.
func (t *Teller) protocolError(r *session.Request, err error) *mcp.Error {
	switch e := wire.ForCaller(err).(type) {
	case *mcp.Error:
		if mcp.IsCallerFault(err) {
			return e.WithCallerFault()
		}
		return e
	case *mcp.Refusal:
		return e.RPC()
	}
	code := mcp.CodeInternalError
	if mcp.IsCallerFault(err) {
		code = mcp.CodeInvalidParams
	}
	var fault Fault
	programs := errors.As(err, &fault) || errors.Is(err, mcp.ErrInputRequired) // the second: in a handler that cannot ask
	if r.Method == mcp.MethodToolsCall && !programs {
		return nil
	}
	return mcp.NewError(code, "%s", t.text(r, err, "internal error"))
}

// text returns what the caller is told of an error that is no protocol error.
func (t *Teller) text(r *session.Request, err error, sentence string) string {
	if made, ok := mcp.AsToolError(err); ok {
		return made.Text
	}
	if t.Details.Load() {
		return err.Error()
	}
	if id := observe.TraceID(r); id != "" {
		return sentence + "; its operator can look it up by the trace id " + id
	}
	return sentence
}

// Hidden returns err if the answer does not have its whole text, else nil.
func Hidden(err error) error {
	if rpc, plain := err.(*mcp.Error); plain && rpc.Unwrap() == nil {
		return nil
	}
	return err
}

// show logs an error with its whole text. It does nothing if the answer has that text.
func (t *Teller) show(ctx context.Context, r *session.Request, err error) {
	if Hidden(err) == nil {
		return
	}
	observe.Error(r, err)
	level := slog.LevelError
	if wire.ForCaller(err) != nil || mcp.IsCallerFault(err) {
		level = slog.LevelInfo // made for the caller, or the caller's fault
	}
	if t.Logger.Enabled(ctx, level) {
		t.Logger.Log(ctx, level, "handler.error", append(r.LogAttrs(), "error", err)...)
	}
}

// Translate returns an error with the code that the caller's revision has for it. Inside the
// server, and in the legacy era, a missing resource has a code of its own. The code for pages to
// open exists in 2025-11-25 only; package ask has replaced such errors by questions where the
// caller can be asked.
func Translate(era mcp.Era, version mcp.Version, err error) error {
	rpc, _ := mcp.AsError(err)
	switch {
	case rpc == nil:
		return err
	case rpc.Code == mcp.CodeURLElicitationRequired && (era == mcp.Modern || !version.AtLeast(mcp.Version20251125)):
		return fmt.Errorf("server: the error %q has a code that has gone out of use (%d), and is not of a handler that could ask",
			rpc.Message, rpc.Code)
	case rpc.Code != mcp.CodeResourceNotFound || era == mcp.Legacy:
		return err
	}
	modern := *rpc
	modern.Code = mcp.CodeInvalidParams
	return &modern
}

// TaskError translates the error of a task. Only modern clients can see it.
func TaskError(err error) error { return Translate(mcp.Modern, mcp.LatestVersion, err) }

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

// What a handler returns goes through the chain as it is. This file is outside the chain:
// it decides what the caller is told of an error, and shows the operator all of it.

// A Fault is an error of the server itself, or of a program that breaks its own
// schemas. A tool answers with a protocol error then, because no other arguments would help.
type Fault struct{ Err error }

// Error returns the text of the error.
func (e Fault) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e Fault) Unwrap() error { return e.Err }

// A Teller makes the answer of what a handler has returned. It is safe for concurrent use.
type Teller struct {
	Logger *slog.Logger
	// Details tells callers the whole text of every error.
	Details atomic.Bool
}

// Answer makes the answer of what the chain has returned.
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
	if !mcp.IsCallerFault(err) {
		observe.Result(r, tool)
	}
	return tool, nil
}

// Tell shows an error to the operator and returns what the caller is told of it: a tool's
// result, or a protocol error that is still to be translated.
func (t *Teller) Tell(ctx context.Context, r *session.Request, err error) (*mcp.CallToolResult, *mcp.Error) {
	t.show(ctx, r, err)
	if rpc := t.protocolError(r, err); rpc != nil {
		return nil, rpc
	}
	return mcp.ToolErrorResult(t.text(r, err, "the tool failed")), nil
}

// CancelledBy returns why ctx was cancelled if an error says nothing else, or nil.
func CancelledBy(ctx context.Context, err error) error {
	if _, cancelled := mcp.CauseOf(ctx); !cancelled {
		return nil
	}
	cause := context.Cause(ctx)
	if errors.Is(err, cause) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return cause // ctx.Err(), or what a library makes of it
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
	programs := errors.As(err, &fault) || errors.Is(err, mcp.ErrInputRequired) // where nobody can be asked
	if r.Method == mcp.MethodToolsCall && !programs {
		return nil
	}
	return mcp.NewError(code, "%s", t.text(r, err, "internal error"))
}

// text is what the caller is told of an error that is no protocol error.
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

// Hidden returns an error that does not show in the answer as it is, and nil for any other.
func Hidden(err error) error {
	if rpc, plain := err.(*mcp.Error); plain && rpc.Unwrap() == nil {
		return nil
	}
	return err
}

// show shows the operator an error as its handler has returned it. One that is told
// to the caller as it is shows in the answer already.
func (t *Teller) show(ctx context.Context, r *session.Request, err error) {
	if Hidden(err) == nil {
		return
	}
	observe.Error(r, err)
	level := slog.LevelError
	if wire.ForCaller(err) != nil || mcp.IsCallerFault(err) {
		level = slog.LevelInfo // it was made for the caller, or is the caller's
	}
	if t.Logger.Enabled(ctx, level) {
		t.Logger.Log(ctx, level, "handler.error", append(r.LogAttrs(), "error", err)...)
	}
}

// Translate gives an error the code that it has for its caller. A resource that does not
// exist has one of its own in the legacy era alone, and so here inside. An error that asks
// for pages has one for clients of 2025-11-25 alone: where it could be put as a question,
// package ask has done that.
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

// TaskError is the error of a task, which only modern clients can ask for.
func TaskError(err error) error { return Translate(mcp.Modern, mcp.LatestVersion, err) }

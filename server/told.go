package server

import (
	"context"
	"errors"
	"log/slog"

	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// What a handler returns goes through the chain as it is. This file is outside the chain:
// it decides what the caller is told of an error, and shows the operator all of it.

// WithErrorDetails tells callers the whole text of every error that a handler or a
// middleware returns. It is for development: such texts may have names of tables, paths
// and addresses in them. See [mcp.ToolError] for what callers are told without it.
func WithErrorDetails() Option { return optionFunc(func(c *config) { c.errorDetails = true }) }

// SetErrorDetails is [WithErrorDetails] for a server that is made already, as package
// service does for an operator. It may be called at any time.
func (s *Server) SetErrorDetails(on bool) { s.errorDetails.Store(on) }

// A serverFault is an error of the server itself, or of a program that breaks its own
// schemas. A tool answers with a protocol error then, because no other arguments would help.
type serverFault struct{ error }

func (e serverFault) Unwrap() error { return e.error }

// conclude makes the answer of what the chain has returned.
func (s *Server) conclude(ctx context.Context, r *session.Request, result mcp.Result, err error) (mcp.Result, error) {
	if err != nil {
		return s.failed(ctx, r, err)
	}
	if tool, ok := result.(*mcp.CallToolResult); ok && tool != nil {
		observe.Result(r, tool)
	}
	return result, nil
}

// failed makes the answer of an error: a tool's result, or what the core answers with.
func (s *Server) failed(ctx context.Context, r *session.Request, err error) (mcp.Result, error) {
	if cause := cancelledBy(ctx, err); cause != nil {
		return nil, cause
	}
	s.showError(ctx, r, err)
	if rpc := s.protocolError(r, err); rpc != nil {
		return nil, translateFor(r, rpc)
	}
	tool := mcp.ToolErrorResult(s.errorText(r, err, "the tool failed"))
	if !mcp.IsCallerFault(err) {
		observe.Result(r, tool)
	}
	return tool, nil
}

// cancelledBy returns why ctx was cancelled if an error says nothing else, or nil.
func cancelledBy(ctx context.Context, err error) error {
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
func (s *Server) protocolError(r *session.Request, err error) *mcp.Error {
	switch e := outermost(err).(type) {
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
	var fault serverFault
	programs := errors.As(err, &fault) || errors.Is(err, mcp.ErrInputRequired) // where nobody can be asked
	if r.Method == mcp.MethodToolsCall && !programs {
		return nil
	}
	return mcp.NewError(code, "%s", s.errorText(r, err, "internal error"))
}

// outermost returns the outermost error in a tree of which the caller may know, or nil.
func outermost(err error) error {
	switch e := err.(type) {
	case *mcp.Error, *mcp.ToolError, *mcp.Refusal:
		return e
	case interface{ Unwrap() error }:
		return outermost(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if found := outermost(err); found != nil {
				return found
			}
		}
	}
	return nil
}

// errorText is what the caller is told of an error that is no protocol error.
func (s *Server) errorText(r *session.Request, err error, sentence string) string {
	if made, ok := mcp.AsToolError(err); ok {
		return made.Text
	}
	if s.errorDetails.Load() {
		return err.Error()
	}
	if id := observe.TraceID(r); id != "" {
		return sentence + "; its operator can look it up by the trace id " + id
	}
	return sentence
}

// hiddenError returns an error that does not show in the answer as it is, and nil for any other.
func hiddenError(err error) error {
	if rpc, plain := err.(*mcp.Error); plain && rpc.Unwrap() == nil {
		return nil
	}
	return err
}

// showError shows the operator an error as its handler has returned it. One that is told
// to the caller as it is shows in the answer already.
func (s *Server) showError(ctx context.Context, r *session.Request, err error) {
	if hiddenError(err) == nil {
		return
	}
	observe.Error(r, err)
	level := slog.LevelError
	if outermost(err) != nil || mcp.IsCallerFault(err) {
		level = slog.LevelInfo // it was made for the caller, or is the caller's
	}
	if s.logger.Enabled(ctx, level) {
		s.logger.Log(ctx, level, "handler.error", append(r.LogAttrs(), "error", err)...)
	}
}

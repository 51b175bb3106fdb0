package adapt

import (
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An SDKError is an error of an SDK for middlewares. They can use it as an [mcp.Error].
type SDKError struct {
	Err  error // the SDK's
	Wire *mcp.Error
}

// Error returns the text of the SDK's error.
func (e *SDKError) Error() string { return e.Err.Error() }

// ForCaller returns the SDK's error, which may wrap an error that was made for callers.
func (e *SDKError) ForCaller() error { return e.Err }

// Unwrap returns both.
func (e *SDKError) Unwrap() []error { return []error{e.Wire, e.Err} }

// Ours reports whether an error of a handler is an error of package mcp for callers. [Call.Told]
// makes the answer for it; the SDK makes the answer for all others.
func Ours(err error) bool { return wire.ForCaller(err) != nil }

// Plain returns the error with a code for an error without one: an internal error, or invalid params
// if it is marked as the caller's fault.
func Plain(err error) *mcp.Error {
	if mcp.IsCallerFault(err) {
		return mcp.NewError(mcp.CodeInvalidParams, "%s", err.Error())
	}
	return mcp.NewError(mcp.CodeInternalError, "%s", err.Error())
}

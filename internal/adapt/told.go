package adapt

import (
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An SDKError is an error of an SDK on its way through the middlewares, to which it is an
// [mcp.Error].
type SDKError struct {
	Err  error // the SDK's
	Wire *mcp.Error
}

// Error returns what the SDK says.
func (e *SDKError) Error() string { return e.Err.Error() }

// ForCaller returns the SDK's error, in which what was made for callers is looked for.
func (e *SDKError) ForCaller() error { return e.Err }

// Unwrap returns both.
func (e *SDKError) Unwrap() []error { return []error{e.Wire, e.Err} }

// Ours reports whether an error of a handler is one that package mcp makes for callers. It
// is answered as [Call.Told] says; the SDK answers all others.
func Ours(err error) bool { return wire.ForCaller(err) != nil }

// Plain returns what counts for an error without a code: a fault of the server, unless it is
// marked as the caller's.
func Plain(err error) *mcp.Error {
	if mcp.IsCallerFault(err) {
		return mcp.NewError(mcp.CodeInvalidParams, "%s", err.Error())
	}
	return mcp.NewError(mcp.CodeInternalError, "%s", err.Error())
}

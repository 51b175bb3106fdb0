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

// Told returns what the caller is told of an error, as our server tells it: the result of a
// tool, or else an error.
func (c *Call) Told(err error) (*mcp.CallToolResult, *mcp.Error) {
	switch e := wire.ForCaller(err).(type) {
	case *mcp.Error:
		return nil, e
	case *mcp.Refusal:
		return nil, e.RPC()
	}
	sentence, tool := "internal error", c.Request.Method == mcp.MethodToolsCall
	if tool {
		sentence = "the tool failed"
	}
	if made, ok := mcp.AsToolError(err); ok {
		sentence = made.Text
	} else if id := c.Operation().TraceID(); id != "" {
		sentence += "; its operator can look it up by the trace id " + id
	}
	switch {
	case tool:
		return mcp.ToolErrorResult(sentence), nil
	case mcp.IsCallerFault(err):
		return nil, mcp.NewError(mcp.CodeInvalidParams, "%s", sentence)
	}
	return nil, mcp.NewError(mcp.CodeInternalError, "%s", sentence)
}

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

package mcp

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// A Code is a JSON-RPC error code. The codes -32020 to -32099 are reserved by
// the protocol: an application takes its own outside -32768 to -32000.
type Code int

const (
	CodeParseError     Code = -32700 // the frame is not valid JSON
	CodeInvalidRequest Code = -32600 // not a valid request object
	CodeMethodNotFound Code = -32601 // unknown method, or its capability is off
	CodeInvalidParams  Code = -32602 // missing metadata, unknown tool, bad cursor
	CodeInternalError  Code = -32603 // the server's fault

	CodeHeaderMismatch            Code = -32020 // an HTTP header contradicts the body
	CodeMissingRequiredCapability Code = -32021 // data.requiredCapabilities
	CodeUnsupportedVersion        Code = -32022 // data.supported, data.requested

	CodeResourceNotFound Code = -32002 // legacy only; modern uses CodeInvalidParams
	// CodeURLElicitationRequired is of 2025-11-25 alone, with [URLElicitationRequiredData].
	// A handler that returns it has the server ask all other clients for the same pages.
	CodeURLElicitationRequired Code = -32042
	CodeRequestCancelled       Code = -32800 // ends a cancelled legacy HTTP exchange, nothing else
)

// The codes of refusals are the status codes of HTTP.
const (
	CodeBadRequest      Code = 400
	CodeUnauthorized    Code = 401
	CodeForbidden       Code = 403
	CodeTooManyRequests Code = 429
	CodeUnavailable     Code = 503
)

// An Error is a JSON-RPC error. A handler that returns one (or wraps one) sends
// exactly its code, message and data to the peer. For other errors see [ToolError].
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitzero"`

	refusal error // the [*Refusal] that became this error; may be nil
	caller  bool  // it is the caller's fault, whatever the code says
}

// NewError returns an Error with a formatted message and no data.
func NewError(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithData returns a copy of e that carries data, which must encode as JSON.
func (e *Error) WithData(data any) *Error {
	c := *e
	c.Data = data
	return &c
}

// WithCallerFault returns a copy of e that is the caller's fault ([IsCallerFault]), whatever
// its code says.
func (e *Error) WithCallerFault() *Error {
	c := *e
	c.caller = true
	return &c
}

// Error returns the message and the code.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Unwrap returns the [*Refusal] that became this error, or nil.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.refusal
}

// AsError finds the Error in err's tree.
func AsError(err error) (*Error, bool) {
	return errors.AsType[*Error](err)
}

// A ClientError is the error with which a client answered a request of the server.
// It is deliberately not an [Error]: a handler that returns it reports a fault of
// its own and does not send the client's error back.
type ClientError struct {
	Code    Code
	Message string         // untrusted
	Data    jsontext.Value // nil if absent
}

// Error returns the message and the code.
func (e *ClientError) Error() string {
	return fmt.Sprintf("the client answered with an error: %s (%d)", e.Message, e.Code)
}

// ErrorData is the data member of the errors that Vitrine makes itself.
type ErrorData struct {
	// Reason is a value of [RejectReason], [Cause] or [StateFault].
	Reason string `json:"reason,omitempty"`
	// Phase is "queued" when the handler had not been called.
	Phase string `json:"phase,omitempty"`
	// Limit names the limit that was reached, as in docs/limits.md.
	Limit string `json:"limit,omitempty"`
	// Class is the concurrency class of a request whose handler had not been called.
	Class *ClassState `json:"class,omitzero"`
	// RetryAfter is the number of seconds after which a retry makes sense, or 0.
	RetryAfter int `json:"retryAfter,omitzero"`
	// ID is the id of the offending request when the error cannot carry it as its own.
	ID any `json:"id,omitzero"`
}

// ClassState is the state of a concurrency class of the server at one moment.
type ClassState struct {
	Name string `json:"name"`
	// Limit is how many handlers of the class may run at once, InUse how many do.
	Limit int `json:"limit"`
	InUse int `json:"inUse"`
	// Queued is how many requests wait for the class.
	Queued int `json:"queued"`
}

// CallerFault reports whether an error with this code is the caller's doing, so
// that it does not count against the service: malformed or unknown requests,
// bad parameters, header and version mismatches, and refusals.
func (c Code) CallerFault() bool {
	switch c {
	case CodeParseError, CodeInvalidRequest, CodeMethodNotFound, CodeInvalidParams,
		CodeResourceNotFound, CodeHeaderMismatch, CodeMissingRequiredCapability,
		CodeUnsupportedVersion, CodeURLElicitationRequired, CodeRequestCancelled,
		CodeBadRequest, CodeUnauthorized, CodeForbidden, CodeTooManyRequests, CodeUnavailable:
		return true
	}
	return false
}

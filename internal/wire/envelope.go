// Package wire is the JSON-RPC envelope codec: one pass over a frame on the way
// in, appended bytes on the way out.
//
// [Decode] reads what a server needs in order to route, admit and trace a
// message (kind, id, method, target name, request metadata) and leaves the rest
// as raw bytes that alias the frame. So an [Envelope] keeps its frame in memory, and
// the frame must not be written to or reused while the envelope is in use.
//
// The codec is strict, because two parsers that read a message differently are a
// security problem: member names are case-sensitive, a duplicate name anywhere is an
// error, and so are invalid UTF-8 and bytes after the message. Unknown members are ignored.
//
// The functions of this package are safe for concurrent use.
package wire

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Kind is what a JSON-RPC message is.
type Kind uint8

const (
	// Invalid is the zero Kind: not a message, or one whose kind cannot be determined.
	Invalid Kind = iota
	// Request has a method and an id, and gets one answer.
	Request
	// Notification has a method and no id, and gets no answer.
	Notification
	// Response has a result or an error.
	Response
)

// String returns "invalid", "request", "notification" or "response".
func (k Kind) String() string {
	return [...]string{"invalid", "request", "notification", "response"}[k]
}

// An Envelope is one decoded JSON-RPC message (specification: Base Protocol,
// Messages). Its raw values alias the frame that was decoded; its strings do not.
type Envelope struct {
	// Kind is Request, Notification or Response.
	Kind Kind
	// ID is the zero ID for a notification, and for an error response whose sender
	// could not read the id of the request.
	ID mcp.ID
	// Method is empty for a response.
	Method string
	// Params is the raw object or array, nil if absent.
	Params jsontext.Value

	// Name is the target of a method that has one, if that is a string:
	// params.name, params.uri or params.taskId (see [mcp.NameMember]). It is what the
	// Mcp-Name header repeats.
	Name string
	// HasName tells an empty Name from an absent or ill-typed one.
	HasName bool

	// Arguments is the raw params.arguments, of any JSON type; nil if absent.
	Arguments jsontext.Value

	// Meta is what was decoded of params._meta.
	Meta Meta

	// Cancel is set for notifications/cancelled and nil for all other messages.
	Cancel *Cancel

	// Result is the raw result of a response, of any JSON type; nil if absent.
	Result jsontext.Value
	// Error is the raw error object of a response; nil if absent.
	Error jsontext.Value
}

// Cancel is what was decoded of the params of notifications/cancelled. A malformed
// cancel decodes without error, because it is ignored and counted.
type Cancel struct {
	// RequestID is the request to cancel; the zero ID if absent or malformed.
	RequestID mcp.ID
	// HasRequestID reports that there is a params.requestId of any type.
	HasRequestID bool
	// RequestIDOK reports that params.requestId is a string or an integer.
	RequestIDOK bool
	// Reason is params.reason if that is a string. It is the peer's free text, of
	// any length, for logs only.
	Reason string
}

// Meta is what was decoded of params._meta. Raw values alias the frame, and absent ones
// are nil.
type Meta struct {
	// Present reports that the params have a _meta member of any type.
	Present bool
	// IsObject reports that it is an object, as it must be.
	IsObject bool
	// Raw is the whole member.
	Raw jsontext.Value

	// ProtocolVersion is the revision that the request names.
	ProtocolVersion string
	// HasProtocolVersion reports that the key is present, which marks a modern request.
	HasProtocolVersion bool
	// ProtocolVersionOK reports that its value is a string.
	ProtocolVersionOK bool

	// ClientInfo is the raw Implementation, of any JSON type.
	ClientInfo jsontext.Value
	// ClientCapabilities is the raw ClientCapabilities, of any JSON type.
	ClientCapabilities jsontext.Value
	// LogLevel is the raw level, of any JSON type.
	LogLevel jsontext.Value

	// ProgressToken is the raw token, of any JSON type. It is echoed as it is.
	ProgressToken jsontext.Value
	// ProgressTokenOK reports that it is a string or an integer.
	ProgressTokenOK bool

	// TraceParent, TraceState and Baggage are the W3C trace context and baggage,
	// unchecked; empty if absent or not strings.
	TraceParent, TraceState, Baggage string
}

package wire

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Reason says in one word why a frame is invalid, for counters and logs. The
// values are those of [mcp.IgnoreReason] and [mcp.RejectReason] where these have one.
type Reason string

const (
	// ReasonParseError: the frame is not one JSON value.
	ReasonParseError Reason = "parse_error"
	// ReasonInvalidUTF8: the frame is not UTF-8.
	ReasonInvalidUTF8 Reason = "invalid_utf8"
	// ReasonTooDeep: the frame nests deeper than [Limits.MaxDepth].
	ReasonTooDeep Reason = "too_deep"
	// ReasonTooLarge: the frame is larger than [Limits.MaxBytes].
	ReasonTooLarge Reason = "too_large"
	// ReasonBatch: the frame is an array, and messages are objects; or it is a
	// batch that [SplitBatch] does not accept.
	ReasonBatch Reason = "batch"
	// ReasonBatchTooLarge: the batch has more messages than [Limits.MaxBatch].
	ReasonBatchTooLarge Reason = "batch_too_large"
	// ReasonNotJSONRPC: the frame is JSON, but no message, and no id can be read.
	ReasonNotJSONRPC Reason = "not_jsonrpc"
	// ReasonInvalidRequest: the frame breaks a rule of messages, but its id can be
	// read, so that the sender can tell which request the answer belongs to.
	ReasonInvalidRequest Reason = "invalid_request"
)

// An Error says why a frame is invalid. Code and Message are for the peer.
type Error struct {
	// Code is [mcp.CodeParseError] if the frame is not acceptable JSON, otherwise
	// [mcp.CodeInvalidRequest].
	Code mcp.Code
	// Reason is for counters.
	Reason Reason
	// Message says what is wrong and where. It quotes at most a few bytes of the frame.
	Message string
	// ID is the id to answer with, or the zero ID if none could be trusted.
	ID mcp.ID
	// Kind is the kind of message that the frame looks like. A malformed Response or
	// Notification is not answered.
	Kind Kind
}

// Error returns the message and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("wire: %s (%s)", e.Message, e.Reason)
}

// RPC returns the error as it is sent to the peer.
func (e *Error) RPC() *mcp.Error { return &mcp.Error{Code: e.Code, Message: e.Message} }

func tooDeepMessage(lim Limits) string {
	return fmt.Sprintf("the message nests deeper than %d levels", lim.MaxDepth)
}

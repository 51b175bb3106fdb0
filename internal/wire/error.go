package wire

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Reason says in one word why a frame was refused, for counters and logs. The
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
	// batch that [SplitBatch] refuses.
	ReasonBatch Reason = "batch"
	// ReasonBatchTooLarge: the batch has more messages than [Limits.MaxBatch].
	ReasonBatchTooLarge Reason = "batch_too_large"
	// ReasonNotJSONRPC: the frame is JSON, but no message, and no id can be read.
	ReasonNotJSONRPC Reason = "not_jsonrpc"
	// ReasonInvalidRequest: the frame breaks a rule of messages, but its id can be
	// read, so that an answer reaches the one who asked.
	ReasonInvalidRequest Reason = "invalid_request"
)

// An Error says why a frame was refused. Code and Message are for the peer.
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
	// Kind is what the frame was meant to be, as far as its members tell. A
	// malformed Response or Notification is not answered.
	Kind Kind
}

// Error returns the message and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("wire: %s (%s)", e.Message, e.Reason)
}

// RPC returns the error as it is sent to the peer.
func (e *Error) RPC() *mcp.Error { return &mcp.Error{Code: e.Code, Message: e.Message} }

// syntaxError turns an error of the JSON decoder into ours. It runs on refused
// frames only, so it may look at the frame again.
func syntaxError(frame []byte, err error, lim Limits) *Error {
	e := &Error{Code: mcp.CodeParseError, Reason: ReasonParseError}
	var syn *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF): // not io.ErrUnexpectedEOF: white space at most
		e.Message = "the message is empty"
	case !utf8.Valid(frame):
		e.Reason = ReasonInvalidUTF8
		e.Message = fmt.Sprintf("the message is not valid UTF-8 at byte %d", invalidUTF8Offset(frame))
	case depthExceeds(frame, lim.MaxDepth):
		e.Reason = ReasonTooDeep
		e.Message = tooDeepMessage(lim)
	case !errors.As(err, &syn):
		e.Message = "the message is not valid JSON"
	case errors.Is(err, jsontext.ErrDuplicateName):
		e.Message = fmt.Sprintf("duplicate member name at %s", shorten(string(syn.JSONPointer)))
	default:
		e.Message = fmt.Sprintf("invalid JSON: %s at byte %d", shorten(syn.Err.Error()), syn.ByteOffset)
	}
	return e
}

func tooDeepMessage(lim Limits) string {
	return fmt.Sprintf("the message nests deeper than %d levels", lim.MaxDepth)
}

// invalidUTF8Offset returns the offset of the first byte that is not UTF-8.
func invalidUTF8Offset(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// maxQuoted bounds what a message repeats of the peer's own bytes.
const maxQuoted = 80

// shorten cuts s to maxQuoted bytes at a rune boundary.
func shorten(s string) string {
	if len(s) <= maxQuoted {
		return s
	}
	cut := maxQuoted
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

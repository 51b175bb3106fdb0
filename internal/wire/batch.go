package wire

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// IsBatch reports whether a frame looks like a batch: an array and not an object.
func IsBatch(frame []byte) bool {
	rest := bytes.TrimLeft(frame, " \t\r\n")
	return len(rest) > 0 && rest[0] == '['
}

// SplitBatch returns the bytes of each message of a JSON-RPC batch, which only
// protocol revision 2025-03-26 has. The members alias the frame. They are JSON
// values, but not yet messages: [Decode] checks each of them, with its depth, its names
// and its UTF-8, so that one bad member does not affect the others. An empty batch
// is an error, and so is one of more than [Limits.MaxBatch] members. The error is
// always an [*Error].
func SplitBatch(frame []byte, lim Limits) ([][]byte, error) {
	lim = lim.withDefaults()
	if err := checkSize(frame, lim); err != nil {
		return nil, err
	}
	if !IsBatch(frame) {
		s := newScanner(frame, lim.MaxDepth)
		defer s.release()
		if !s.message() {
			return nil, invalid(frame, lim)
		}
		return nil, batchError("a batch must be an array")
	}
	members, err := batchMembers(frame, lim.MaxBatch)
	switch {
	case err != nil:
		return nil, syntaxError(frame, err, lim)
	case len(members) == 0:
		return nil, batchError("a batch must not be empty")
	case len(members) > lim.MaxBatch:
		return nil, &Error{
			Code: mcp.CodeInvalidRequest, Reason: ReasonBatchTooLarge,
			Message: fmt.Sprintf("a batch must not have more than %d messages", lim.MaxBatch),
		}
	}
	return members, nil
}

// batchMembers reads the array and stops at the first member beyond limit. Without that,
// a frame of one-byte members would take many times its size in memory. It skips the members
// token by token, because the decoder reads a whole value by recursion.
func batchMembers(frame []byte, limit int) ([][]byte, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(frame), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var members [][]byte
	for d.PeekKind() != ']' {
		between := d.InputOffset()
		if err := d.SkipValue(); err != nil {
			return nil, err
		}
		end := int(d.InputOffset())
		start := end - len(bytes.TrimLeft(frame[between:end], ", \t\r\n"))
		members = append(members, frame[start:end:end])
		if len(members) > limit {
			return members, nil
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	return members, checkTrailing(frame, d.InputOffset())
}

func batchError(message string) *Error {
	return &Error{Code: mcp.CodeInvalidRequest, Reason: ReasonBatch, Message: message}
}

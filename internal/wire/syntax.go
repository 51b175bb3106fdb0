package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/mcp"
)

var errTrailing = errors.New("unexpected data after the message")

// invalid returns the error for a frame that is invalid to the scanner. The decoder reads by
// recursion, so it must not see a frame that is too deep.
func invalid(frame []byte, lim Limits) *Error {
	if depthExceeds(frame, lim.MaxDepth) {
		return syntaxError(frame, nil, lim)
	}
	return syntaxError(frame, explain(frame), lim)
}

// explain returns the error of a jsontext.Decoder for a frame that is invalid to the scanner.
// It reads names and values of the message, its params and their _meta one by one and
// others as a whole, because the decoder words some faults differently in the two cases.
func explain(frame []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(frame))
	if err := explainValue(d, wholeMessage); err != nil {
		return err
	}
	return checkTrailing(frame, d.InputOffset())
}

func explainValue(d *jsontext.Decoder, f field) error {
	if f != wholeMessage && f != fieldParams && f != fieldMeta || d.PeekKind() != '{' {
		_, err := d.ReadValue()
		return err
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := explainValue(d, f.member(jsonvalue.Unquote(name))); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// checkTrailing checks that nothing but white space follows the message.
func checkTrailing(frame []byte, end int64) error {
	if i := space(frame, int(end)); i < len(frame) {
		return &jsontext.SyntacticError{ByteOffset: int64(i), Err: errTrailing}
	}
	return nil
}

// syntaxError turns an error of the JSON decoder into an [Error]. The error may be nil for a
// frame that is too deep. It runs on invalid frames only, so it may look at the frame again.
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

// depthExceeds reports whether a frame, which need not be valid JSON, nests deeper than
// limit.
func depthExceeds(frame []byte, limit int) bool {
	depth := 0
	for i := 0; i < len(frame); i++ {
		switch frame[i] {
		case '"':
			for i++; i < len(frame) && frame[i] != '"'; i++ {
				if frame[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > limit {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
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

// maxQuoted bounds the bytes of the peer that a message repeats.
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

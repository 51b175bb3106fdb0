package wire

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Limits bounds what [Decode] and [SplitBatch] accept. A field that is zero or negative
// stands for its default.
type Limits struct {
	// MaxBytes is the largest frame, in bytes. Default 4 MiB.
	MaxBytes int
	// MaxDepth is the deepest nesting of objects and arrays in one message; the
	// message itself is level 1. Default 64.
	MaxDepth int
	// MaxBatch is the largest number of messages in one batch. Default 100.
	MaxBatch int
}

// DefaultLimits returns the default limits.
func DefaultLimits() Limits {
	return Limits{MaxBytes: 4 << 20, MaxDepth: 64, MaxBatch: 100}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.MaxBytes > 0 {
		d.MaxBytes = l.MaxBytes
	}
	if l.MaxDepth > 0 {
		d.MaxDepth = l.MaxDepth
	}
	if l.MaxBatch > 0 {
		d.MaxBatch = l.MaxBatch
	}
	return d
}

// Decode reads one message from a frame, which may have JSON white space around
// it. The error is always an [*Error]. The envelope aliases the frame.
func Decode(frame []byte, lim Limits) (env Envelope, err error) {
	lim = lim.withDefaults()
	if err := checkSize(frame, lim); err != nil {
		return Envelope{}, err
	}
	s := newScanner(frame)
	defer s.release()
	if !s.message() {
		return Envelope{}, syntaxError(frame, explain(frame), lim)
	}
	if err := s.envelope(&env, lim); err != nil {
		return Envelope{}, err // env may be half filled
	}
	return env, nil
}

func checkSize(frame []byte, lim Limits) error {
	if len(frame) <= lim.MaxBytes {
		return nil
	}
	return &Error{
		Code: mcp.CodeInvalidRequest, Reason: ReasonTooLarge,
		Message: fmt.Sprintf("the message has %d bytes and the limit is %d", len(frame), lim.MaxBytes),
	}
}

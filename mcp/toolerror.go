package mcp

import (
	"errors"
	"fmt"
)

// A ToolError is an error that was made for the caller: the caller, and so the model, gets
// its text. If a tree of errors has several, the outermost counts. A tool answers with a
// result with isError. Prompts, resources and other methods answer with [CodeInternalError],
// or with [CodeInvalidParams] if the error is the caller's fault ([CallerFault]).
//
// An [*Error] and a [*Refusal] reach the caller as they are. For any other error the caller
// gets one sentence with the trace id, and nothing of the error's text. Middlewares, logs and
// spans always have the handler's own error, with all that it wraps.
type ToolError struct {
	// Text is for the caller.
	Text string
	// Err is the underlying error, for the operator only. May be nil.
	Err error

	said bool // Text contains the text of Err
}

// ToolErrorf returns a [*ToolError] with a formatted text. A %w verb shows the text of the
// wrapped error to the caller, as with [fmt.Errorf]; to hide it, set [ToolError.Err] instead.
func ToolErrorf(format string, args ...any) *ToolError {
	err := fmt.Errorf(format, args...)
	e := &ToolError{Text: err.Error()}
	switch several := err.(type) {
	case interface{ Unwrap() error }:
		e.Err, e.said = several.Unwrap(), true
	case interface{ Unwrap() []error }:
		e.Err, e.said = err, true
	}
	return e
}

// Error returns the text, and the underlying error unless the text contains it.
func (e *ToolError) Error() string {
	if e.Err == nil || e.said {
		return e.Text
	}
	return e.Text + ": " + e.Err.Error()
}

// Unwrap returns the underlying error.
func (e *ToolError) Unwrap() error { return e.Err }

// AsToolError finds the outermost ToolError in err's tree.
func AsToolError(err error) (*ToolError, bool) {
	return errors.AsType[*ToolError](err)
}

// callerFault marks an error as the caller's.
type callerFault struct{ error }

func (e callerFault) Unwrap() error { return e.error }

// CallerFault returns err marked as the caller's fault: an unknown id, a bad state, a value
// out of range. The error is answered and logged as before, and does not count against the
// service. CallerFault returns nil if err is nil.
func CallerFault(err error) error {
	if err == nil {
		return nil
	}
	return callerFault{err}
}

// IsCallerFault reports whether an error is the caller's fault: it was marked by [CallerFault],
// is a [*Refusal], or is an [*Error] whose code says so ([Code.CallerFault]).
func IsCallerFault(err error) bool {
	if _, marked := errors.AsType[callerFault](err); marked {
		return true
	}
	if _, refused := AsRefusal(err); refused {
		return true
	}
	rpc, _ := AsError(err)
	return rpc != nil && (rpc.caller || rpc.Code.CallerFault())
}

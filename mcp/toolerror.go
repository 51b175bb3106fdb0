package mcp

import (
	"errors"
	"fmt"
)

// A ToolError is an error that was made for the caller: its text is what the caller, and
// so the model, is told. Of several in one tree the outermost is told. A tool answers with
// it as a result with isError, everything else with [CodeInternalError], or with
// [CodeInvalidParams] if it is the caller's fault ([CallerFault]).
//
// Of any other error but an [*Error] and a [*Refusal] the caller is told one sentence, with
// the trace id and nothing of the error's text. Whatever the caller is told, middlewares,
// logs and spans have the handler's own error, with all that it wraps.
type ToolError struct {
	// Text is what the caller is told.
	Text string
	// Err is what is behind it, for the operator alone, or nil.
	Err error

	said bool // the text has that of Err in it
}

// ToolErrorf returns a [*ToolError] with a formatted text. A %w verb puts the text of the
// wrapped error into what the caller is told, as with [fmt.Errorf]; to hide it, set
// [ToolError.Err] instead.
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

// Error returns the text, and what is behind it unless the text says so already.
func (e *ToolError) Error() string {
	if e.Err == nil || e.said {
		return e.Text
	}
	return e.Text + ": " + e.Err.Error()
}

// Unwrap returns what is behind the text.
func (e *ToolError) Unwrap() error { return e.Err }

// AsToolError finds the outermost ToolError in err's tree.
func AsToolError(err error) (*ToolError, bool) {
	var e *ToolError
	ok := errors.As(err, &e)
	return e, ok
}

// callerFault marks an error as the caller's.
type callerFault struct{ error }

func (e callerFault) Unwrap() error { return e.error }

// CallerFault returns err marked as the caller's: an unknown id, a bad state, a value out
// of range. It is told and logged as err is, and does not count against the service. It
// returns nil if err is nil.
func CallerFault(err error) error {
	if err == nil {
		return nil
	}
	return callerFault{err}
}

// IsCallerFault reports whether an error is the caller's: it was marked by [CallerFault],
// is a [*Refusal], or is an [*Error] whose code says so ([Code.CallerFault]).
func IsCallerFault(err error) bool {
	var marked callerFault
	var refusal *Refusal
	if errors.As(err, &marked) || errors.As(err, &refusal) {
		return true
	}
	rpc, _ := AsError(err)
	return rpc != nil && (rpc.caller || rpc.Code.CallerFault())
}

package session

import (
	"errors"
	"fmt"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// causeError is the answer to a request that the end of its session or of the
// server has overtaken.
func causeError(cause mcp.Cause, phase string) *mcp.Error {
	return mcp.NewError(mcp.CodeInternalError, "the request was cancelled: %s", cause).
		WithData(mcp.ErrorData{Reason: string(cause), Phase: phase})
}

// anonymousError is the frame of an error that has no id to carry.
func anonymousError(err *mcp.Error, nullID bool) []byte {
	if nullID {
		return wire.AppendErrorNullID(nil, err)
	}
	return wire.AppendError(nil, mcp.ID{}, err)
}

func duplicateID(r *Request) *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidRequest, "a request with this id is still in flight").
		WithData(mcp.ErrorData{Reason: string(mcp.RejectDuplicateID), ID: r.ID})
}

// SessionUnknown is the answer to a request that names a session which does not
// exist, or not any more.
func SessionUnknown() *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidRequest, "there is no such session").
		WithData(mcp.ErrorData{Reason: string(mcp.RejectSessionUnknown)})
}

// ShuttingDown is the answer to a request that is refused because the server drains.
func ShuttingDown() *mcp.Error {
	return mcp.NewError(mcp.CodeInternalError, "the server is shutting down").
		WithData(mcp.ErrorData{Reason: string(mcp.RejectShuttingDown)})
}

// Overload is the answer to a request that a limit leaves no room for.
func Overload(limit string) *mcp.Error {
	return mcp.NewError(mcp.CodeInternalError, "the server is overloaded: %s is reached", limit).
		WithData(mcp.ErrorData{Reason: string(mcp.RejectOverload), Limit: limit})
}

// ErrAbandoned is matched by the errors that name the handlers which ignored their cancelled
// context and were left behind.
var ErrAbandoned = errors.New("mcp: handlers were abandoned")

// abandonedError names the handlers that were left behind; nil if there are none.
func abandonedError(left []string) error {
	if len(left) == 0 {
		return nil
	}
	errs := []error{fmt.Errorf("%w: %d", ErrAbandoned, len(left))}
	for _, handler := range left {
		errs = append(errs, errors.New(handler))
	}
	return errors.Join(errs...)
}

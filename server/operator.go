package server

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// Errors of [Server.EndRequest], [Server.EndSession] and [Server.CloseStream].
var (
	// ErrUnknownKey is for a key that no request or session has had.
	ErrUnknownKey = session.ErrUnknownKey
	// ErrEnded is for a request or a session that has ended, or whose outcome is decided.
	ErrEnded = session.ErrEnded
	// ErrNoStream is for a session whose client does not read the stream of the session at this process.
	ErrNoStream = session.ErrNoStream
)

// An Acted describes the request or the session that an operator has named by its key.
type Acted struct {
	Method, Tool, RequestID string // of a request
	Session                 string // its name on pages
}

// EndRequest ends a request in flight for an operator. key is that of /debug/requests, such as "r17".
// The caller gets an error (code -32603, reason "operator") at once, and the context of the handler is
// cancelled with [mcp.ErrEndedByOperator]. The error is [ErrUnknownKey] or [ErrEnded].
func (s *Server) EndRequest(key string) (Acted, error) {
	n, err := keyNumber(key, "r")
	if err != nil {
		return Acted{}, err
	}
	r, err := s.core.EndRequest(n)
	return actedOn(r), err
}

// CloseStream ends the HTTP response to a request in flight, as [Call.CloseStream] does, which has the
// errors, or with the key of a session the stream that its client reads with GET. The client comes again for
// the rest. That of a session is not told when, so retry must be 0. CloseStream may also return [ErrUnknownKey],
// [ErrEnded] or [ErrNoStream].
func (s *Server) CloseStream(key string, retry time.Duration) (Acted, error) {
	if n, err := keyNumber(key, "s"); err == nil {
		return s.closeSessionStream(n, retry)
	}
	n, err := keyNumber(key, "r")
	if err != nil {
		return Acted{}, err
	}
	r, err := s.core.CloseRequestStream(n, retry)
	if errors.Is(err, errors.ErrUnsupported) {
		err = fmt.Errorf("%w: its client cannot come again for the rest; end_request ends it, also a subscription", err)
	}
	return actedOn(r), err
}

func (s *Server) closeSessionStream(key uint64, retry time.Duration) (Acted, error) {
	if retry != 0 {
		return Acted{}, fmt.Errorf("the client of a session cannot be told when to read its stream again: %w", errors.ErrUnsupported)
	}
	of, err := s.core.CloseSessionStream(key)
	if err != nil {
		return Acted{}, err
	}
	return Acted{Session: of.LogID()}, nil
}

// EndSession ends a session or a connection for an operator. key is that of /debug/requests, such as
// "s4". Running handlers are cancelled with [mcp.ErrEndedByOperator] and may still answer within the
// clean-up grace; what is left gets an error. EndSession does not wait for them. The error is
// [ErrUnknownKey] or [ErrEnded].
func (s *Server) EndSession(key string) (Acted, error) {
	n, err := keyNumber(key, "s")
	if err != nil {
		return Acted{}, err
	}
	ended, err := s.core.EndSession(n)
	if err != nil {
		return Acted{}, err
	}
	return Acted{Session: ended.LogID()}, nil
}

// keyNumber returns the number of a key of the given kind.
func keyNumber(key, kind string) (uint64, error) {
	if len(key) < 2 || key[:1] != kind {
		return 0, ErrUnknownKey
	}
	n, err := strconv.ParseUint(key[1:], 10, 64)
	if err != nil {
		return 0, ErrUnknownKey
	}
	return n, nil
}

// actedOn describes a request. r may be nil.
func actedOn(r *session.Request) Acted {
	if r == nil {
		return Acted{}
	}
	acted := Acted{Method: r.Route.Series.Method, Tool: r.Route.Series.Target, RequestID: r.ID.String()}
	if s := r.Session(); s != nil {
		acted.Session = s.LogID()
	}
	return acted
}

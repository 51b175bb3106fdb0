package session

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is about what an operator does to requests and sessions.

// lastKey is the last key that was given.
var lastKey atomic.Uint64

// keyOf returns the key in place. A request gets its key when a page first shows it.
func keyOf(place *atomic.Uint64) uint64 {
	if key := place.Load(); key != 0 {
		return key
	}
	place.CompareAndSwap(0, lastKey.Add(1))
	return place.Load()
}

// Key returns the number with which pages name the request. It is the only one in this process, of
// all requests and sessions.
func (r *Request) Key() uint64 { return keyOf(&r.key) }

// Key returns the number with which pages name the session; see [Request.Key].
func (s *Session) Key() uint64 { return keyOf(&s.key) }

// Errors of the methods below.
var (
	// ErrUnknownKey: nothing has had that key.
	ErrUnknownKey = errors.New("there is nothing with this key")
	// ErrEnded: what had the key has ended, or its outcome is decided.
	ErrEnded = errors.New("it has ended")
	// ErrNoStream: nobody reads the own stream of the session here.
	ErrNoStream = errors.New("the client of the session reads no stream of its own (GET) at this process")
)

// missing is the error for a key that nothing live has.
func missing(key uint64) error {
	if key == 0 || key > lastKey.Load() {
		return ErrUnknownKey
	}
	return ErrEnded
}

// request returns the live request with a key.
func (c *Core) request(key uint64) (*Request, error) {
	for _, r := range live[*Request](c.ledger) {
		if key != 0 && r.key.Load() == key {
			return r, nil
		}
	}
	return nil, missing(key)
}

// EndRequest ends the request with a key: its caller gets an error at once, and its handler is
// cancelled with [mcp.ErrEndedByOperator].
func (c *Core) EndRequest(key uint64) (*Request, error) {
	r, err := c.request(key)
	if err != nil {
		return nil, err
	}
	cancel := &mcp.CancelError{Cause: mcp.CauseOperator}
	if !r.cancelQueued(cancel, causeError(cancel.Cause, "queued")) && !r.cancelAnswered(cancel, causeError(cancel.Cause, "")) {
		return nil, ErrEnded
	}
	r.core.logger.InfoContext(r.ctx, "request.cancelled", append(r.LogAttrs(), "started", r.started(), "cause", cancel.Cause)...)
	return r, nil
}

// CloseRequestStream ends the HTTP response to the request with a key, so that its client comes again
// for the rest; see [Request.CloseStream].
func (c *Core) CloseRequestStream(key uint64, retry time.Duration) (*Request, error) {
	r, err := c.request(key)
	if err == nil {
		err = r.CloseStream(retry)
	}
	if errors.Is(err, mcp.ErrRequestDone) {
		err = ErrEnded
	}
	return r, err
}

// EndSession ends the session or connection with a key, in order: its handlers are cancelled with
// [mcp.ErrEndedByOperator] and may still answer within the clean-up grace. It does not wait for them. No message that
// comes afterwards is served.
func (c *Core) EndSession(key uint64) (*Session, error) {
	s, err := c.sessionWithKey(key)
	if err != nil {
		return nil, err
	}
	c.rememberDeleted(s)
	s.shareEnd(context.Background())
	if s.begin(mcp.CauseOperator) {
		c.tasks.start(func() { s.conclude(mcp.CauseOperator, c.limits.CleanupGrace) })
	}
	return s, nil
}

// CloseSessionStream ends the exchange in which a client reads the own stream of the session with a key. The client
// may open it again.
func (c *Core) CloseSessionStream(key uint64) (*Session, error) {
	s, err := c.sessionWithKey(key)
	if err == nil && !s.closeOwnStream() {
		err = ErrNoStream
	}
	return s, err
}

// sessionWithKey returns the session or connection with a key that has not begun to end.
func (c *Core) sessionWithKey(key uint64) (*Session, error) {
	for _, s := range c.allSessions() {
		if key == 0 || s.key.Load() != key {
			continue
		}
		if s.Closing() {
			return nil, ErrEnded
		}
		return s, nil
	}
	return nil, missing(key)
}

package session

import (
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is about the session's own stream: the one that a legacy HTTP client opens (GET)
// for what belongs to no request. Such a stream may be lost and opened again during the
// session.
//
// Lock order: a session's lock, then a stream's.

// Attach makes st the session's own stream, for messages that belong to no
// request, and sends the calls that have waited for it. A session has one, but one
// that nobody reads any more is replaced, and ends: false if another is live, the
// server drains, or the session has ended.
func (s *Session) Attach(st *stream.Stream) (attached bool) {
	st.Own(nil, s.opener())
	var old *stream.Stream
	var waitingCalls []*outbound
	s.update(func(state *state) {
		old = state.standalone
		attached = state.phase == sessionOpen && !state.leaving && (old == nil || !old.Live())
		if attached {
			state.standalone = st
			state.listeners++
			waitingCalls = state.takeWaitingCalls(st)
		}
	})
	if attached && old != nil {
		old.Finish()
	}
	for _, o := range waitingCalls {
		o.pushTo(st)
	}
	if attached {
		s.presumeReady()
		s.watchOwn(st)
	}
	return attached
}

// Detach takes the session's own stream away when the exchange that it was made for
// has ended. What still waits on it is dropped, or waits for the next one; but a
// stream that can be resumed stays, and keeps what it carries.
func (s *Session) Detach(st *stream.Stream) {
	if st.Log() != nil && st.Reason() == "" {
		st.Lost()
	} else {
		s.update(func(state *state) {
			if state.standalone == st {
				state.standalone = nil
			}
		})
		st.Fail(mcp.DropStreamGone)
	}
	s.unlisten()
}

// closeOwnStream ends the exchange that reads the session's own stream here, so that its client comes again. It
// reports whether there is one.
func (s *Session) closeOwnStream() bool {
	var st *stream.Stream
	s.update(func(state *state) {
		if own := state.standalone; own != nil && own.Live() {
			st, state.closed = own, own
		}
	})
	if st == nil {
		return false
	}
	if !st.EndReader() {
		s.TakeClosed(st)
		return false
	}
	return true
}

// TakeClosed reports, once, whether an operator has ended the exchange that reads st.
func (s *Session) TakeClosed(st *stream.Stream) (closed bool) {
	s.update(func(state *state) {
		if closed = st != nil && state.closed == st; closed {
			state.closed = nil
		}
	})
	return closed
}

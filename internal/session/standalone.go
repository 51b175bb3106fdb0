package session

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is what a session sends by itself, on behalf of no request: on a byte
// stream with everything else, over legacy HTTP on the stream that the client has
// opened for it (GET). Such a stream comes and goes; the session stays.
//
// Lock order: a session's lock, then a stream's.

// Notify sends a notification that belongs to no request. It waits for room as
// [Request.Notify] does, and returns [mcp.ErrPeerGone] when the client has no
// stream open.
func (s *Session) Notify(ctx context.Context, method string, params []byte, key string) error {
	n := newNotice(s.core, nil, method, params)
	n.Key = stream.Key{Name: key}
	st, reason := s.own()
	if st == nil {
		n.Dropped(reason)
		return stream.SendError(reason)
	}
	return st.Notify(ctx, &n.Message, s.core.limits.NotifyTimeout)
}

// own returns the stream for what belongs to no request, or why there is none.
func (s *Session) own() (st *stream.Stream, reason mcp.DropReason) {
	if s.stream != nil {
		return s.stream, ""
	}
	reason = mcp.DropStreamGone
	s.update(func(state *state) {
		st = state.standalone
		if state.phase >= sessionEnding {
			reason = mcp.DropSessionGone
		}
	})
	return st, reason
}

// Ask sends a request that belongs to no request of the client, such as a ping, and
// waits for the answer at most for the request time-out. A legacy HTTP client that
// has no stream open is asked as soon as it opens one; if it does not in time, the
// error is [mcp.ErrPeerGone]. The other errors are those of [Request.Ask].
func (s *Session) Ask(ctx context.Context, method string, params []byte) (_ jsontext.Value, err error) {
	patience := s.core.limits.RequestTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, patience,
		fmt.Errorf("the client has not answered within %v: %w", patience, context.DeadlineExceeded))
	defer cancel()
	var o *outbound
	params, end := s.core.tellAsked(ctx, s, method, params)
	defer func() { end(o.ID(), err) }()
	if o, err = s.newOutbound(method, params, nil, s.stream); err != nil {
		return nil, err
	}
	if !o.early {
		o.send()
	}
	select {
	case reply := <-o.reply:
		return reply.result, reply.err
	case <-ctx.Done():
		return o.giveUp(context.Cause(ctx))
	}
}

// reroute sends a call that was not written to the session's own stream. Without
// one, a call that belongs there waits for the client to open it, up to its own
// deadline; another has nowhere to go: false.
func (s *Session) reroute(o *outbound) (ok bool) {
	var to *stream.Stream
	s.update(func(st *state) {
		if ok = st.outbound[o.id.Key()] != o; ok {
			return // the wait has ended meanwhile
		}
		if to = st.standalone; to != nil && to.Live() {
			o.stream, ok = to, true
			return
		}
		to = nil
		if ok = !st.leaving && (o.stream == nil || o.stream.Standing()); ok {
			o.stream = nil
			st.parked = append(st.parked, o)
		}
	})
	if to != nil {
		o.pushTo(to)
	}
	return ok
}

// Attach makes st the session's own stream, for messages that belong to no
// request, and sends the calls that have waited for it. A session has one, but one
// that nobody reads any more is replaced, and ends: false if another is live, the
// server drains, or the session has ended.
func (s *Session) Attach(st *stream.Stream) (attached bool) {
	st.Own(nil, s.opener())
	var old *stream.Stream
	var parked []*outbound
	s.update(func(state *state) {
		old = state.standalone
		attached = state.phase == sessionOpen && !state.leaving && (old == nil || !old.Live())
		if attached {
			state.standalone = st
			state.listeners++
			parked = state.unpark(st)
		}
	})
	if attached && old != nil {
		old.Finish()
	}
	for _, o := range parked {
		o.pushTo(st)
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

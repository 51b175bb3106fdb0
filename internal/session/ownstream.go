package session

import (
	"context"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is about messages for the session's own stream that are sent at another replica than the one that
// writes it. They go there as signals. A stream has one writer, whose log has all of its events.

// An OwnSignal is what replicas tell each other of the session's own stream.
type OwnSignal struct {
	Kind OwnKind `json:"kind"`
	From string  `json:"from"` // the replica that has sent it
	// Method and Frame are those of a message, and ID is the key of its id if it is a request.
	Method string `json:"method,omitempty"`
	Frame  []byte `json:"frame,omitempty"`
	ID     string `json:"id,omitempty"`
}

// An OwnKind says what a signal tells.
type OwnKind string

// A replica with a message sends [OwnWanted] to all. The one that writes a stream which the client reads answers
// [OwnHere], and gets [OwnMessage]. When the client begins to read, it tells all.
const (
	OwnWanted  OwnKind = "wanted"
	OwnHere    OwnKind = "here"
	OwnMessage OwnKind = "message"
	OwnLost    OwnKind = "lost" // the request was not written
)

// ownPatience is how long a message waits for the replica that writes the stream.
const ownPatience = time.Second

// tellOwn sends a signal to a replica, or to all, and reports whether it is on its way.
func (s *Session) tellOwn(to string, m OwnSignal) bool {
	if !s.sharesOwn() {
		return false
	}
	e := s.core.elsewhere
	m.From = e.Replica()
	return e.Send(s.caller, Signal{Session: s.id, To: to, Own: &m})
}

// sharesOwn reports whether another replica may write the session's own stream.
func (s *Session) sharesOwn() bool { return s.core.elsewhere != nil && s.sealed() }

// seekOwn looks for the replica that writes the session's own stream, for a call that waits. One that is not
// patient fails if there is none.
func (s *Session) seekOwn(o *outbound, patient bool) {
	s.tellOwn("", OwnSignal{Kind: OwnWanted})
	if patient {
		return
	}
	time.AfterFunc(ownPatience, func() {
		waits := false
		s.update(func(st *state) {
			if waits = slices.Contains(st.waitingCalls, o); waits {
				st.removeCall(o, mcp.IgnoreLate)
			}
		})
		if waits {
			o.end(outboundReply{err: stream.SendError(mcp.DropStreamGone)})
		}
	})
}

// ownRead returns the session's own stream if the client reads it, here or at another replica, else nil.
func (s *Session) ownRead() (st *stream.Stream) {
	s.update(func(state *state) { st = state.standalone })
	if st != nil && !st.Read() {
		return nil
	}
	return st
}

// ownArrived takes a signal, and reports whether it has found what that is about.
func (s *Session) ownArrived(m OwnSignal) bool {
	switch m.Kind {
	case OwnWanted:
		return s.ownRead() != nil && s.tellOwn(m.From, OwnSignal{Kind: OwnHere})
	case OwnHere:
		return s.ownFound(m.From)
	case OwnMessage:
		s.writeOwn(m)
		return true
	case OwnLost:
		var o *outbound
		s.update(func(st *state) {
			if o = st.outbound[m.ID]; o != nil && o.handed.CompareAndSwap(callHanded, callQueued) {
				o.writer = ""
				st.waitingCalls = append(st.waitingCalls, o)
			}
		})
		return o != nil
	}
	return false
}

// ownFound sends what waits for the session's own stream to the replica that writes it.
func (s *Session) ownFound(at string) bool {
	var calls []*outbound
	var notices []chan string
	s.update(func(st *state) {
		calls = st.takeWaitingCalls(nil)
		for _, o := range calls {
			o.writer = at
		}
		notices, st.waitingNotices = st.waitingNotices, nil
	})
	for _, o := range calls {
		if !o.handed.CompareAndSwap(callQueued, callHanded) {
			continue
		}
		m := OwnSignal{Kind: OwnMessage, Method: o.method, Frame: o.message.Frame, ID: o.id.Key()}
		if !s.tellOwn(at, m) && s.removeCall(o) {
			o.end(outboundReply{err: stream.SendError(mcp.DropStreamGone)})
		}
	}
	for _, found := range notices {
		found <- at
	}
	return len(calls)+len(notices) > 0
}

// writeOwn writes a message of another replica to the session's own stream.
func (s *Session) writeOwn(m OwnSignal) {
	st := s.ownRead()
	switch {
	case m.ID == "":
		n := newNotice(s.core, nil, m.Method, nil)
		n.Frame = m.Frame
		if st == nil {
			n.Dropped(mcp.DropStreamGone)
			return
		}
		_ = st.Post(&n.Message) // the drop of a stream that has failed meanwhile is counted
	case st == nil:
		s.tellOwn(m.From, OwnSignal{Kind: OwnLost, ID: m.ID})
	default:
		st.Push(&stream.Message{Kind: stream.Call, Method: m.Method, Frame: m.Frame, Delivery: &ownCall{s, m.From, m.ID}})
	}
}

// An ownCall is the delivery of a request of another replica.
type ownCall struct {
	session *Session
	from    string
	id      string
}

// Claim implements [stream.Delivery].
func (*ownCall) Claim() bool { return true }

// Sent implements [stream.Delivery].
func (*ownCall) Sent() {}

// Stored implements [stream.Delivery].
func (*ownCall) Stored() {}

// Dropped implements [stream.Delivery]: the request waits again where it was made.
func (c *ownCall) Dropped(mcp.DropReason) {
	c.session.tellOwn(c.from, OwnSignal{Kind: OwnLost, ID: c.id})
}

// notifyElsewhere sends a notification at the replica that writes the session's own stream, and reports
// whether there is one.
func (s *Session) notifyElsewhere(ctx context.Context, m *stream.Message) bool {
	if !s.sharesOwn() {
		return false
	}
	found := make(chan string, 1)
	s.update(func(st *state) { st.waitingNotices = append(st.waitingNotices, found) })
	timer := time.NewTimer(ownPatience)
	defer timer.Stop()
	if s.tellOwn("", OwnSignal{Kind: OwnWanted}) {
		select {
		case at := <-found:
			return s.tellOwn(at, OwnSignal{Kind: OwnMessage, Method: m.Method, Frame: m.Frame})
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	s.update(func(st *state) { st.forgetNotice(found) })
	return false
}

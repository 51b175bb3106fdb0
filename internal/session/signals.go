package session

import (
	"context"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is about sessions with sealed ids that other replicas serve, too: a request lives where it
// has arrived, and what concerns it may arrive elsewhere.

// ServeElsewhere has the sessions with sealed ids served by several replicas. changed is called with each
// state that a session of this process has got from another one. It must be called before the first
// message.
func (c *Core) ServeElsewhere(e Elsewhere, changed func(*Session, SharedState)) {
	c.elsewhere, c.stateChanged = e, changed
}

// maxSignalID bounds the ids in signals, in bytes. A request with a longer one can only be cancelled where
// it runs.
const maxSignalID = 256

// cancelElsewhere passes on the cancellation of a request that may be in flight at another replica. ctx has its span.
func (s *Session) cancelElsewhere(ctx context.Context, in *Inbound) bool {
	e := s.core.elsewhere
	return e != nil && s.sealed() &&
		len(in.Cancel.RequestID.Key()) <= maxSignalID &&
		e.Send(s.caller, Signal{
			Session: s.id, Through: s.core.through(ctx),
			Cancel: in.Cancel.RequestID.Key(), Reason: logline.Printable(in.Cancel.Reason, maxReason),
		})
}

// answerElsewhere passes on the answer to a request of another replica.
func (s *Session) answerElsewhere(in *Inbound) bool {
	e := s.core.elsewhere
	if e == nil || !s.sealed() {
		return false
	}
	id := in.ID.String()
	replica, _, named := strings.Cut(id, "-")
	return named && len(replica) == len(e.Replica()) && replica != e.Replica() &&
		e.Send(s.caller, Signal{
			Session: s.id, Through: s.core.through(in.Values), To: replica, Answer: &ElsewhereReply{id, in.Result, in.Error},
		})
}

// Arrived takes a signal of another replica, and reports whether it has found what it is about.
func (c *Core) Arrived(m Signal) bool {
	c.mu.Lock()
	s := c.inner[m.Session]
	c.mu.Unlock()
	switch {
	case s == nil && m.Stream != nil && m.Stream.Kind == resume.Follow: // there is nothing to follow any more
		return c.elsewhere.Send(share.Key{}, Signal{Session: m.Session, To: m.Stream.From, Stream: &resume.Signal{
			Kind: resume.Gone, Stream: m.Stream.Stream, From: c.elsewhere.Replica(), Reader: m.Stream.Reader,
		}})
	case s == nil && m.Own != nil:
		c.refuseOwn(m.Session, m.Own)
		return false
	case s == nil:
		return false
	case m.Own != nil:
		s.carry(m.Own)
		return true
	case m.Fate != nil:
		return s.ownFate(*m.Fate)
	case m.Stream != nil:
		if s.logs != nil {
			s.logs.Arrived(*m.Stream)
		}
		return s.logs != nil
	case m.Answer != nil:
		id := mcp.StringID(m.Answer.ID)
		reply, ok := decodeReply(&Inbound{Envelope: wire.Envelope{ID: id, Result: m.Answer.Result, Error: m.Answer.Error}})
		return ok && s.take(id, reply, m.Through)
	}
	var r *Request
	s.update(func(st *state) { r = st.index[m.Cancel] })
	if r == nil || r.Route.Handshake {
		return false
	}
	c.cameThrough(r, ThroughCancel, m.Through)
	return s.cancelRequest(r, m.Reason)
}

// take ends the wait for the answer to a request of ours, which came through another replica.
func (s *Session) take(id mcp.ID, reply outboundReply, t *Through) bool {
	var o *outbound
	s.update(func(st *state) {
		if o = st.outbound[id.Key()]; o != nil {
			st.removeCall(o, mcp.IgnoreDuplicate)
		}
	})
	if o != nil {
		s.core.cameThrough(o.request, ThroughAnswer, t)
		o.end(reply)
	}
	return o != nil
}

// An awaiting counts the states that arrive of a session while it is opened from its id.
type awaiting struct{ users, states int }

// await begins to count for a session, until the returned function is called. That reports whether any
// have arrived.
func (c *Core) await(session string) (arrived func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.awaited == nil {
		c.awaited = map[string]*awaiting{}
	}
	n := c.awaited[session]
	if n == nil {
		n = new(awaiting)
		c.awaited[session] = n
	}
	n.users++
	before := n.states
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if n.users--; n.users == 0 {
			delete(c.awaited, session)
		}
		return n.states > before
	}
}

// lookUp asks for what the replicas share of a session, and reports whether it has ended. Without an
// answer it is as this process knows it.
func (c *Core) lookUp(d *sealedID) (st SharedState, ended bool) {
	if c.elsewhere == nil {
		return st, false
	}
	st, err := c.elsewhere.State(context.Background(), d.id)
	if ended = err == nil && st.Ended; ended {
		c.deleted.add(d.id, st.By, time.Now(), d.ends, c.limits.MaxDeletedSessions)
	}
	return st, ended
}

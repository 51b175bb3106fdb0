package session

import (
	"context"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is about sessions with sealed ids that other replicas serve, too: a request lives where it
// has arrived, and what concerns it may arrive elsewhere.

// Elsewhere reaches the other replicas. Its methods are safe for concurrent use. None but State and
// Change waits for the store, and those have a deadline of their own.
type Elsewhere interface {
	// Replica is a random name of this process: letters and digits.
	Replica() string
	// Send sends a signal about a session to the others, and reports whether it is on its way.
	Send(caller share.Key, m Signal) bool
	// State returns what the replicas share of a session; the zero value if that is nothing.
	State(ctx context.Context, session string) (SharedState, error)
	// Change changes it, and tells the others.
	Change(ctx context.Context, session string, ends time.Time, change func(*SharedState)) error
}

// A Signal tells another replica of what has arrived here. Exactly one of its kinds is set.
type Signal struct {
	// Session is the inner id of a session.
	Session string `json:"session"`
	// Cancel is the key of the id of a request that its client has cancelled, Reason what it said.
	Cancel string `json:"cancel,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Answer is the answer to the request with an id that the replica To has sent.
	To     string          `json:"to,omitempty"`
	Answer *ElsewhereReply `json:"answer,omitempty"`
}

// An ElsewhereReply is the answer of a client to a request of ours.
type ElsewhereReply struct {
	ID     string `json:"id"`
	Result []byte `json:"result,omitempty"`
	Error  []byte `json:"error,omitempty"`
}

// A SharedState is what the replicas share of a session. A higher revision replaces a lower one.
type SharedState struct {
	Revision uint64 `json:"revision"`
	// Ended says that its client has deleted it, or an operator has ended it.
	Ended bool `json:"ended,omitempty"`
	// LogLevel is the level that its client has set, or "".
	LogLevel mcp.LoggingLevel `json:"logLevel,omitempty"`
	// Resources are the URIs that its client has subscribed to.
	Resources []string `json:"resources,omitempty"`
}

// ServeElsewhere has the sessions with sealed ids served by several replicas. changed is called with each
// state that a session of this process has got from another one. It must be called before the first
// message.
func (c *Core) ServeElsewhere(e Elsewhere, changed func(*Session, SharedState)) {
	c.elsewhere, c.stateChanged = e, changed
}

// cancelElsewhere passes on the cancellation of a request that is not in flight here.
func (s *Session) cancelElsewhere(in *Inbound) bool {
	e := s.core.elsewhere
	return e != nil && s.sealed() &&
		e.Send(s.caller, Signal{Session: s.id, Cancel: in.Cancel.RequestID.Key(), Reason: in.Cancel.Reason})
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
		e.Send(s.caller, Signal{Session: s.id, To: replica, Answer: &ElsewhereReply{id, in.Result, in.Error}})
}

// sealed reports whether the session is in its id.
func (s *Session) sealed() bool { return s.object != "" }

// Arrived takes a signal of another replica, and reports whether it has found what it is about.
func (c *Core) Arrived(m Signal) bool {
	c.mu.Lock()
	s := c.inner[m.Session]
	c.mu.Unlock()
	switch {
	case s == nil:
		return false
	case m.Answer != nil:
		id := mcp.StringID(m.Answer.ID)
		reply, ok := decodeReply(&Inbound{Envelope: wire.Envelope{ID: id, Result: m.Answer.Result, Error: m.Answer.Error}})
		return ok && s.take(id, reply)
	}
	var r *Request
	s.update(func(st *state) { r = st.index[m.Cancel] })
	return r != nil && !r.Route.Handshake && s.cancelRequest(r, m.Reason)
}

// take ends the wait for the answer to a request of ours.
func (s *Session) take(id mcp.ID, reply outboundReply) bool {
	var o *outbound
	s.update(func(st *state) {
		if o = st.outbound[id.Key()]; o != nil {
			st.removeCall(o, mcp.IgnoreDuplicate)
		}
	})
	if o != nil {
		o.end(reply)
	}
	return o != nil
}

// StateArrived takes the state of a session that another replica has changed. ends is when its id does.
func (c *Core) StateArrived(session string, ends time.Time, st SharedState) {
	c.statesArrived.Add(1)
	c.adopting.Lock() // a session that is being opened from its id sees that it has ended
	if st.Ended {
		c.deleted.add(session, share.Key{}, time.Now(), ends, c.limits.MaxDeletedSessions)
	}
	c.mu.Lock()
	s := c.inner[session]
	c.mu.Unlock()
	c.adopting.Unlock()
	if s != nil {
		s.share(st)
	}
}

// share takes a state of the session, unless it has a later one.
func (s *Session) share(st SharedState) {
	newer := false
	s.update(func(state *state) {
		if newer = st.Revision > state.shared; newer {
			state.shared = st.Revision
		}
	})
	switch {
	case !newer:
	case st.Ended:
		s.Close(mcp.CauseSessionDelete)
	default:
		s.SetLogLevel(st.LogLevel)
		s.core.stateChanged(s, st)
	}
}

// lookUp asks for what the replicas share of a session, and reports whether it goes on. Without an answer it
// goes on as this process knows it.
func (c *Core) lookUp(d *sealedID) (st SharedState, goesOn bool) {
	if c.elsewhere == nil {
		return st, true
	}
	st, err := c.elsewhere.State(context.Background(), d.id)
	if err == nil && st.Ended {
		c.deleted.add(d.id, share.Key{}, time.Now(), d.ends, c.limits.MaxDeletedSessions)
		return st, false
	}
	return st, true
}

// A SharedSession is one that other replicas may serve, too.
type SharedSession struct {
	ID   string // the inner one
	Ends time.Time
}

// SharedSessions returns those of this process. The caller owns the slice.
func (c *Core) SharedSessions() (all []SharedSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.inner {
		all = append(all, SharedSession{id, s.ends})
	}
	return all
}

// DeletedSessions returns those that this process remembers as deleted. The caller owns the slice.
func (c *Core) DeletedSessions() []SharedSession { return c.deleted.all() }

// shareEnd tells the other replicas that the session was deleted. If the store is away they hear of it when
// it is back.
func (s *Session) shareEnd() {
	_ = s.Share(context.Background(), func(st *SharedState) { st.Ended = true })
}

// Share changes what the replicas share of the session, if there are several. An error says that the
// others do not know of it.
func (s *Session) Share(ctx context.Context, change func(*SharedState)) error {
	if s.core.elsewhere == nil || !s.sealed() {
		return nil
	}
	return s.core.elsewhere.Change(ctx, s.id, s.ends, func(st *SharedState) {
		change(st)
		st.Revision++
	})
}

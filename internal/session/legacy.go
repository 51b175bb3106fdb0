package session

import (
	"crypto/rand"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Open opens a legacy HTTP session with the given id. It returns an error answer and its reason
// when the server has no room for another session or is shutting down.
func (c *Core) Open(conn *Conn, id string) (*Session, mcp.RejectReason, *mcp.Error) {
	s := c.Prepare(conn, id)
	reason, err := c.open(s)
	if err == nil {
		return s, "", nil
	}
	if reason == mcp.RejectOverload {
		c.ledger.limitReached(limits.NameSessions)
	}
	return nil, reason, err
}

// Prepare makes a legacy HTTP session with the given id. It does not
// count as a session, and cannot be found, before its first request has passed admission.
func (c *Core) Prepare(conn *Conn, id string) *Session {
	s := newSession(c, conn, id)
	s.caller = conn.caller()
	if c.SealsSessions() {
		s.ends, s.object = s.opened.Add(c.limits.SessionLife), rand.Text()
	}
	if c.store != nil {
		s.logs = c.store.NewLogs(s.storeName(), s.caller, s, &c.host, c.streamConfig(conn, 0, stream.LossDrops))
	}
	s.unopened = true
	return s
}

// storeName names the session in the event store. The objects of a session with a sealed id have different
// names, because each has streams of its own, unless replicas share them.
func (s *Session) storeName() string {
	if s.core.store != nil && s.core.store.Shares() {
		return s.id
	}
	return s.id + s.object
}

// open makes a session known. At the cap it evicts an idle one, see [evictions].
func (c *Core) open(s *Session) (mcp.RejectReason, *mcp.Error) {
	holder := c.callers.Get(s.caller)
	for !c.places.TryAcquire(holder) {
		if !c.Draining() && c.evict(s) {
			c.ledger.limitReached(limits.NameSessions)
			if c.places.TakeFree(holder) { // of the evicted one, unless somebody else was faster
				break
			}
			continue
		}
		holder.Release()
		if c.Draining() {
			return mcp.RejectShuttingDown, ShuttingDown()
		}
		return mcp.RejectOverload, Overload(limits.NameSessions) // reject counts the limit
	}
	c.mu.Lock()
	if c.draining.Load() {
		c.mu.Unlock()
		c.places.Release(holder)
		holder.Release()
		return mcp.RejectShuttingDown, ShuttingDown()
	}
	s.unopened, s.holder, s.known = false, holder, true
	c.sessions[s] = struct{}{}
	sealed := c.SealsSessions()
	if !sealed {
		s.handedOut = s.id
	}
	if s.handedOut != "" {
		c.byID[s.handedOut] = s
		if sealed {
			c.inner[s.id] = s
		}
	}
	c.evictions.open(s)
	c.mu.Unlock()
	s.update(func(st *state) { // the time to finish its handshake begins
		st.expires, st.unlisted = true, true
	})
	c.tell("SessionOpened", func(o Observer) { o.SessionOpened(s) })
	s.watchLife()
	return "", nil
}

// evict removes an idle session, so that a newcomer may have its place; false if there is none
// that it may replace.
func (c *Core) evict(newcomer *Session) bool {
	for {
		victim, current := c.evictions.next(newcomer), false
		if victim == nil {
			return false
		}
		victim.update(func(st *state) { current = c.evictions.isCurrent(victim, st) })
		if current && victim.endIdle(mcp.CauseSessionEvicted) {
			return true
		}
	}
}

// Session returns the legacy HTTP session with an id for a message over a connection, or nil. The
// session of another principal counts as unknown: a stolen id is of no use. That is counted and
// logged.
func (c *Core) Session(id string, conn *Conn) *Session {
	c.mu.Lock()
	s := c.byID[id]
	c.mu.Unlock()
	switch {
	case s == nil:
		return nil
	case s.conn.Principal.Key() != conn.principal().Key():
		c.foreignSession(conn, s.LogID(), s.conn.Principal.String())
		return nil
	}
	s.principal.Store(conn.principal())
	return s
}

// PeerOf returns what the session with an id has agreed on, or nil if the principal has no such
// session.
func (c *Core) PeerOf(id string, principal *auth.Principal) *Peer {
	c.mu.Lock()
	s := c.byID[id]
	c.mu.Unlock()
	if s == nil || s.conn.Principal.Key() != principal.Key() {
		return nil
	}
	return s.Peer()
}

// endStanding ends the session's own stream, or the subscriptions of its byte stream, when the
// server drains. Calls that wait for a stream fail: there will be no other one.
func (s *Session) endStanding() {
	s.endSubscriptions(mcp.CauseServerShutdown)
	var st *stream.Stream
	var waitingCalls []*outbound
	s.update(func(state *state) {
		state.leaving = true
		st = state.standalone
		waitingCalls, state.waitingCalls = state.waitingCalls, nil
	})
	if st != nil {
		st.End(time.Now().Add(s.core.limits.CleanupGrace), 0)
		if s.isShared() {
			s.ownMoved()
		}
	}
	for _, o := range waitingCalls {
		o.Dropped(mcp.DropStreamGone)
	}
}

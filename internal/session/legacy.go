package session

import (
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
	if c.store != nil {
		s.logs = c.store.NewLogs(id, conn.Principal.Key(), s, &c.host, c.streamConfig(conn, 0, stream.LossDrops))
	}
	s.unopened = true
	return s
}

// open makes a session known. At the cap it evicts an idle one.
func (c *Core) open(s *Session) (mcp.RejectReason, *mcp.Error) {
	for {
		c.mu.Lock()
		if c.draining.Load() {
			c.mu.Unlock()
			return mcp.RejectShuttingDown, ShuttingDown()
		}
		if len(c.byID) < c.limits.MaxSessions {
			s.unopened = false
			c.sessions[s] = struct{}{}
			c.byID[s.id] = s
			c.mu.Unlock()
			s.update(func(st *state) { // the time to finish its handshake begins
				st.idleTimer = time.AfterFunc(c.limits.InitializeTimeout, s.expire)
			})
			c.tell("SessionOpened", func(o Observer) { o.SessionOpened(s) })
			s.watchLife()
			return "", nil
		}
		c.mu.Unlock()
		if !c.evict() {
			return mcp.RejectOverload, Overload(limits.NameSessions) // reject counts the limit
		}
		c.ledger.limitReached(limits.NameSessions)
	}
}

// evict removes an idle session; false if none is idle. It looks at all sessions: only an
// initialize at the cap pays for that.
func (c *Core) evict() bool {
	for {
		oldest := c.oldestIdle()
		if oldest == nil {
			return false
		}
		if oldest.endIdle(mcp.CauseSessionEvicted) {
			return true
		}
	}
}

// oldestIdle returns the session that has been idle longest among those of the principal with
// the most sessions, so that a principal who opens many ends only sessions of its own; nil if
// no session is idle.
func (c *Core) oldestIdle() (oldest *Session) {
	c.mu.Lock()
	all := make([]*Session, 0, len(c.byID))
	shares := map[string]int{}
	for _, s := range c.byID {
		all = append(all, s)
		shares[s.conn.Principal.Key()]++
	}
	c.mu.Unlock()
	var since time.Time
	share := 0
	for _, s := range all {
		of := shares[s.conn.Principal.Key()]
		s.update(func(st *state) {
			if st.idle() && (of > share || of == share && st.quietAt.Before(since)) {
				oldest, since, share = s, st.quietAt, of
			}
		})
	}
	return oldest
}

// Session returns the legacy HTTP session with an id, or nil. The session of another
// principal counts as unknown: a stolen id is of no use.
func (c *Core) Session(id string, principal *auth.Principal) *Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.byID[id]; s != nil && s.conn.Principal.Key() == principal.Key() {
		return s
	}
	return nil
}

// expire runs when the idle timer fires.
func (s *Session) expire() {
	s.core.hooks.at(pointIdle, nil)
	s.endIdle(mcp.CauseSessionIdle)
}

// endIdle ends the session if it is idle, and has been for long enough unless it is
// evicted. The check and the end are one step, so that a request which was accepted
// never finds its session gone.
func (s *Session) endIdle(cause mcp.Cause) (ended bool) {
	s.update(func(st *state) {
		ended = st.idle() && (cause == mcp.CauseSessionEvicted || !time.Now().Before(s.idleUntil()))
		if ended {
			st.phase, st.cause = sessionEnding, cause
		}
	})
	if ended {
		s.end(cause, mcp.DropSessionGone)
	}
	return ended
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
	}
	for _, o := range waitingCalls {
		o.Dropped(mcp.DropStreamGone)
	}
}

package session

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/seal"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// HandOut returns the Mcp-Session-Id of a session whose initialize has succeeded. From now on messages
// find the session. It is "" if the session has ended.
func (s *Session) HandOut() string {
	c := s.core
	ring := c.ids.Load()
	if ring == nil {
		return s.id
	}
	peer := s.Peer()
	if peer == nil {
		return ""
	}
	d := sealedID{id: s.id, created: s.opened, ends: s.ends, owner: ownerOf(s.conn.Principal), peer: peer}
	text := ring.Seal(d.append(nil))
	s.sealedBy.Store(ring)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.known {
		return ""
	}
	s.handedOut = text
	c.byID[text], c.inner[s.id] = s, s
	return text
}

// Visit returns the legacy HTTP session with an id for a message over a connection, or why there is
// none. The caller must call Leave when it has handed over the message. A session of which this server
// has no object is opened from its id, if that is sealed. That may wait for the store of the replicas: the
// turn of the message is given back then. It may be nil.
func (c *Core) Visit(id string, conn *Conn, turn *share.Turn) (*Session, mcp.RejectReason, *mcp.Error) {
	ring := c.ids.Load()
	if ring == nil {
		if s := c.Session(id, conn); s != nil {
			return s, "", nil
		}
		return nil, mcp.RejectSessionUnknown, SessionUnknown()
	}
	c.mu.Lock()
	s := c.byID[id]
	c.mu.Unlock()
	if s != nil && s.openedBy(ring, id) && s.conn.Principal.Key() == conn.principal().Key() && s.enter() {
		s.principal.Store(conn.principal())
		return s, "", nil
	}
	return c.adopt(id, conn, turn)
}

// openedBy reports whether keys open the id of the session. It tries that once for each set of keys.
func (s *Session) openedBy(ring *seal.Ring, id string) bool {
	if s.sealedBy.Load() == ring {
		return true
	}
	if _, ok := openID(*ring, id); !ok {
		return false
	}
	s.sealedBy.Store(ring)
	return true
}

// enter keeps the session from being idle. It returns false if it has ended, or its id has.
func (s *Session) enter() (entered bool) {
	now := time.Now()
	s.update(func(st *state) {
		if entered = st.phase == sessionOpen && now.Before(s.ends); entered {
			st.visitors++
		}
	})
	return entered
}

// Leave ends a visit.
func (s *Session) Leave() {
	if !s.core.SealsSessions() {
		return
	}
	s.update(func(st *state) {
		if st.visitors--; len(st.live) == 0 {
			st.quietAt = time.Now()
		}
	})
}

// adopt opens a session from its id.
func (c *Core) adopt(id string, conn *Conn, turn *share.Turn) (*Session, mcp.RejectReason, *mcp.Error) {
	ring := c.ids.Load()
	d, ok := openID(*ring, id)
	switch {
	case !ok || !time.Now().Before(d.ends) || c.deleted.has(d.id):
		return nil, mcp.RejectSessionUnknown, SessionUnknown()
	case d.owner != ownerOf(conn.principal()):
		c.foreignSession(conn, logID(d.id), "(sealed)")
		return nil, mcp.RejectSessionUnknown, SessionUnknown()
	}
	if c.elsewhere != nil {
		turn.Give() // the store may not answer
	}
	arrived := c.await(d.id)
	s, reason, err := c.adoptAs(id, conn, &d)
	if s != nil {
		s.sealedBy.Store(ring)
	}
	if arrived() && s != nil { // a state, when nobody could find the session
		shared, ended := c.lookUp(&d)
		if ended {
			s.Leave()
			s.Close(mcp.CauseSessionDelete)
			return nil, mcp.RejectSessionUnknown, SessionUnknown()
		}
		_ = s.apply(shared)
	}
	return s, reason, err
}

// adoptAs opens a session from its id, unless it has ended.
func (c *Core) adoptAs(id string, conn *Conn, d *sealedID) (*Session, mcp.RejectReason, *mcp.Error) {
	shared, ended := c.lookUp(d)
	if ended {
		return nil, mcp.RejectSessionUnknown, SessionUnknown()
	}
	c.adopting.Lock() // two messages may bring the same id
	defer c.adopting.Unlock()
	if s := c.Session(id, conn); s != nil && s.enter() {
		return s, "", nil
	}
	if c.deleted.has(d.id) { // meanwhile
		return nil, mcp.RejectSessionUnknown, SessionUnknown()
	}
	s := c.Prepare(conn, d.id)
	s.handedOut, s.ends = id, d.ends
	s.state.peer, s.state.ready, s.state.visitors = d.peer, true, 1
	if reason, err := c.open(s); err != nil {
		if reason == mcp.RejectOverload {
			c.ledger.limitReached(limits.NameSessions)
		}
		s.Close(mcp.CauseSessionEvicted)
		return nil, reason, err
	}
	c.ledger.count(func(t *tally) { t.SessionsAdopted++ })
	c.logger.Info("session.adopted", append(s.LogAttrs(), "age", time.Since(d.created))...)
	c.adopted(s)
	_ = s.apply(shared)
	return s, "", nil
}

package session

import (
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Snapshot is a copy of the core's state at one moment: the live requests and
// the counters agree with each other.
type Snapshot struct {
	At       time.Time
	Requests []RequestInfo // without the subscriptions
	// Subscriptions are the requests that have become standing ones, also while their
	// last message is being written.
	Subscriptions []RequestInfo
	Outbound      []OutboundInfo
	Sessions      []SessionInfo
	Detached      []DetachedInfo
	// Tasks counts the tasks by their status, if the server has them.
	Tasks map[mcp.TaskStatus]int
	// TasksUnstored counts the ends of tasks that their store does not have.
	TasksUnstored uint64
	Readiness     Readiness  // of the server around the core
	Store         *StoreInfo // nil without a store
	Streaming     []string   // tools that stream
	Shares        []ShareInfo
	Classes       []mcp.ClassState // by name
	Turns         share.TurnWaits
	Saturated     time.Duration // see [Core.Saturated]
	Rates         []rates.State
	Auth          auth.Stats      // of an authenticator that counts what it does
	Events        *resume.Held    // what the event store in memory has; nil if there is none
	Expired       []ExpiredAnswer // the latest stored answers that were lost, oldest first; bounded
	Counters      Counters
	// Registrations are the items that were replaced or removed, ListChanges the changes that lists show.
	Registrations []RegistrationInfo
	ListChanges   map[ListChange]uint64
}

// A RequestInfo describes a live request.
type RequestInfo struct {
	WorkInfo
	Request *Request
	State   string // one of [States]
}

// A DetachedInfo describes detached work.
type DetachedInfo struct {
	WorkInfo
	Detached *Detached
	Left     time.Duration // of its life; negative if that is over
}

// A WorkInfo describes live work.
type WorkInfo struct {
	Age       time.Duration
	Cancel    *mcp.CancelError // nil if not cancelled
	CancelFor time.Duration    // since the cancellation
	Abandoned bool
}

// info describes the work. The caller must hold w.lane.mu.
func (w *work) info(now time.Time) WorkInfo {
	info := WorkInfo{Age: now.Sub(w.began), Abandoned: w.abandoned}
	if c := w.cancelled.Load(); c != nil {
		info.Cancel, info.CancelFor = c.err, now.Sub(c.at)
	}
	return info
}

// A SessionInfo describes an open session.
type SessionInfo struct {
	Session  *Session
	Peer     *Peer // nil before initialize
	Age      time.Duration
	Idle     time.Duration // 0 while requests are live or a stream is open
	Requests int
	// Streaming tells that a legacy HTTP client listens on the session's own stream.
	Streaming bool
	// Stored is how many answers are in the event store, and were not sent or fetched.
	Stored int
}

// An OutboundInfo describes a request of ours that a client has not answered.
type OutboundInfo struct {
	Session *Session
	Request *Request // on whose behalf, or nil
	ID      mcp.ID
	Method  string
	Age     time.Duration
}

// States lists the values of RequestInfo.State.
func States() []string {
	return []string{"queued", "running", "blocked", "writing", "cancelled", "listening"}
}

// OldestAge returns the age of the oldest live request that is no subscription.
func (s *Snapshot) OldestAge() (oldest time.Duration) {
	for i := range s.Requests {
		oldest = max(oldest, s.Requests[i].Age)
	}
	return oldest
}

// Snapshot copies the core's state. The copy of requests and counters is one
// consistent moment; sessions are read right after it.
func (c *Core) Snapshot() *Snapshot {
	snap := c.ledger.snapshot()
	snap.Counters.Refused, snap.Counters.Decisions = c.refused.list(), c.decided()
	snap.Shares, snap.Saturated = c.sharesNow(), c.Saturated()
	for _, class := range c.usedClasses() {
		snap.Classes = append(snap.Classes, c.stateOf(class))
	}
	snap.Turns, snap.Expired = c.turns.Waits(), c.expired.all()
	snap.Rates = c.rates.States(snap.At)
	if r, ok := c.authenticator.(auth.Reporter); ok {
		snap.Auth = r.Stats()
	}
	if m := c.eventMemory(); m != nil {
		held := m.Total()
		snap.Events = &held
	}
	for _, s := range c.allSessions() {
		snap.addSession(s)
	}
	return snap
}

// allSessions returns a private copy of the open sessions.
func (c *Core) allSessions() []*Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*Session, 0, len(c.sessions))
	for s := range c.sessions {
		all = append(all, s)
	}
	return all
}

// addSession describes a session and its outbound requests.
func (snap *Snapshot) addSession(s *Session) {
	info := SessionInfo{Session: s, Age: snap.At.Sub(s.opened)}
	s.update(func(st *state) {
		info.Peer, info.Requests, info.Streaming = st.peer, len(st.live), st.standalone != nil && st.standalone.Live()
		if st.idle() {
			info.Idle = snap.At.Sub(st.quietAt)
		}
		for _, o := range st.outbound {
			snap.Outbound = append(snap.Outbound, OutboundInfo{
				Session: s, Request: o.request, ID: o.id, Method: o.method, Age: snap.At.Sub(o.since),
			})
		}
	})
	if s.logs != nil {
		info.Stored = s.logs.Unread()
	}
	snap.Sessions = append(snap.Sessions, info)
}

// Pending returns how many requests are live in the core.
func (c *Core) Pending() int { return len(live[*Request](c.ledger)) }

// Load adds to what a replica says of itself whether the core drains, and how many requests, sessions and tasks
// it has.
func (c *Core) Load(info *ReplicaInfo) {
	info.Draining, info.InFlight, info.Tasks = c.Draining(), c.Pending(), len(live[*Detached](c.ledger))
	c.mu.Lock()
	info.Sessions = len(c.sessions)
	c.mu.Unlock()
}

// snapshot copies the live set and the counters under all locks.
func (l *ledger) snapshot() *Snapshot {
	snap := &Snapshot{Counters: Counters{
		Tally: newTally(), Received: map[string]uint64{}, EventFailures: map[string]uint64{},
	}}
	l.lockAll()
	l.mu.Lock()
	series := l.series
	l.mu.Unlock()
	sums := make([]seriesCounts, len(series))
	snap.At = time.Now()
	for i := range l.lanes {
		ln := &l.lanes[i]
		for w := ln.head; w != nil; w = w.next {
			snap.addWork(w)
		}
		for j, c := range ln.counts {
			if c != nil {
				sums[j].add(c)
			}
		}
		snap.Counters.add(&ln.tally.Tally)
		for kind, n := range ln.tally.received {
			snap.Counters.Received[receivedKinds[kind]] += n
		}
		for op, n := range ln.tally.eventFailures {
			snap.Counters.EventFailures[resume.Operations()[op]] += n
		}
	}
	l.unlockAll()

	for i, s := range series {
		snap.Counters.Series = append(snap.Counters.Series, sums[i].public(s))
	}
	return snap
}

// addWork describes live work. The caller must hold w.lane.mu.
func (snap *Snapshot) addWork(w *work) {
	switch info := w.info(snap.At); self := w.self.(type) {
	case *Detached:
		snap.Detached = append(snap.Detached, DetachedInfo{info, self, self.deadline.Sub(snap.At)})
	case *Request:
		list := &snap.Requests
		if self.verdict.listening() {
			list = &snap.Subscriptions
		}
		*list = append(*list, RequestInfo{info, self, self.state()})
	}
}

// state names where the request is. The caller must hold the lane's lock.
func (r *Request) state() string {
	phase := Phase(r.phase.Load())
	switch {
	case phase == PhaseWriting && r.returned:
		return "writing"
	case r.cancelled.Load() != nil:
		return "cancelled"
	case phase == PhaseWriting:
		return "writing"
	case phase == PhaseBlocked:
		return "blocked"
	case phase == PhaseListening:
		return "listening"
	case phase == PhaseQueued:
		return "queued"
	}
	return "running"
}

// A Readiness is whether requests should be sent to a server, as it has told its last
// probe. The core has no part in it: it is in the snapshot for those who read that.
type Readiness struct {
	State string    // one of [ReadinessStates]; "" if nobody has asked yet
	Since time.Time // when that was found
	Why   string    // which checks fail, and their errors
}

// The states of a [Readiness].
const (
	Ready    = "ready"
	NotReady = "not_ready"
	Draining = "draining" // the server shuts down, or is about to
)

// ReadinessStates lists the states.
func ReadinessStates() []string { return []string{Ready, NotReady, Draining} }

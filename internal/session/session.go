package session

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/seal"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Session is a conversation with one peer: a byte stream (stdio, in memory),
// or a legacy HTTP session. A modern HTTP exchange has none.
type Session struct {
	core *Core
	conn *Conn
	// id names a legacy HTTP session, and is empty for others. It is the Mcp-Session-Id, or what that
	// contains if it is sealed.
	id string
	// object names this object of a session with a sealed id, of which there may be others, here and in
	// other processes; else empty.
	object   string
	sharing  storeLock  // held while the session tells other replicas of a change
	applying sync.Mutex // held while it takes one
	// moves counts how often the place of its own stream has changed, movesTold up to which the others know
	// of it. That is guarded by sharing.
	moves     atomic.Uint64
	movesTold uint64
	// ends is when the id ends, if it is sealed.
	ends   time.Time
	stream *stream.Stream // of a byte stream, else nil
	caller share.Key
	// principal is the one of the last exchange: its token may be newer than that of conn.
	principal atomic.Pointer[auth.Principal]
	// sealedBy has the keys that have opened the sealed id last.
	sealedBy atomic.Pointer[seal.Ring]
	slots    *semaphore.Weighted
	// waiting holds the requests that wait for slots.
	waiting places
	opened  time.Time
	key     atomic.Uint64 // see Key; 0: no page has shown it
	cut     atomic.Int64  // requests that the teardown has ended
	done    chan struct{} // closed when the teardown is over
	// subscriptionsEnding is closed when the subscriptions of a byte stream are to end; else nil.
	subscriptionsEnding chan struct{}
	pumped              chan struct{} // closed when the writer of a byte stream has returned
	lines               logline.Limiter
	logs                *resume.Logs // of the streams that can be resumed; nil without an event store
	// unopened: a legacy HTTP session whose first request has not passed admission. It is
	// only written before others know of the session.
	unopened bool
	// known and handedOut are guarded by the core's lock. A known session counts as one of its caller.
	// handedOut is the Mcp-Session-Id under which messages find it, or "".
	known     bool
	handedOut string
	// holder is the record of the caller to whom the place of a legacy HTTP session is counted.
	holder *share.Caller
	// eviction is the place of a legacy HTTP session among those that may be evicted. It is
	// guarded by the evictions.
	eviction eviction
	// due is the place of a legacy HTTP session among those that may become idle. It is guarded by idling.
	due due

	restoring atomic.Bool  // somebody waits to put back what the store has lost of it
	restored  atomic.Int64 // when that was done last, in ns since 1970

	mu    sync.Mutex // guards state, which only update touches
	state state
}

// state is all that changes in a session.
type state struct {
	phase    sessionPhase
	index    map[string]*Request   // undecided requests by id
	live     map[*Request]struct{} // also the decided ones, until they are finished
	total    int                   // of the requests admitted so far
	peer     *Peer                 // what initialize has settled, or nil
	ready    bool                  // notifications/initialized has come
	cause    mcp.Cause             // of the teardown
	logLevel mcp.LoggingLevel      // that the client wants to be told of, or ""
	shared   *SharedState          // the latest with other replicas, see sharedState; nil before the first
	unshared []func(*SharedState)  // changes of that which they do not know
	// overtaking is the latest state of another replica that came while there were such changes, or nil.
	overtaking *SharedState
	refused    []ownPlace // that they did not have
	relay      *relay     // of its messages to one of them; nil before the first
	// answers counts the requests that were settled with an answer. One that is not
	// queued yet is on its way, and the end of the stream waits for it.
	answers int

	outbound     map[string]*outbound // our requests that wait for an answer, by id
	outboundSeq  int64
	endedCalls   []endedCall // the last ones that have ended
	waitingCalls []*outbound // those that wait for a stream
	early        []*outbound // those that wait for notifications/initialized

	standalone *stream.Stream // that the client has opened for what belongs to no request, or nil
	closed     *stream.Stream // whose exchange an operator has ended just now, or nil
	listeners  int            // exchanges that read it, or resume another stream
	visitors   int            // exchanges with a message for a session with a sealed id
	over       bool           // the sealed id has ended, and streams keep the session no longer
	leaving    bool           // the server drains: there will be no other stream

	expires     bool      // a legacy HTTP session that is open ends when it has been idle for long enough
	due         time.Time // when it is looked at whether it has; zero: it is to be listed for that when it is idle
	unlisted    bool      // it was found busy, and is listed for eviction again when it is idle
	listedReady bool      // it is listed for eviction as one that is ready

	subscriptionsEnd mcp.Cause // why the subscriptions of a byte stream are to end, or ""
	onClosed         []func()

	// abandoned counts the handlers that the teardown went on without.
	abandoned []*Request
	malformed int // frames in a row
	// errorsSent counts the errors without an id in the second since errorsSince.
	errorsSent  int
	errorsSince time.Time
	quietAt     time.Time     // when the live set became empty
	quiet       chan struct{} // closed when the live set becomes empty; nil while nobody waits
}

// A sessionPhase only grows.
type sessionPhase uint8

const (
	sessionOpen   sessionPhase = iota
	sessionEOF                 // the peer will send nothing more; handlers go on
	sessionEnding              // handlers are being cancelled
	sessionClosed
)

func newSession(c *Core, conn *Conn, id string) *Session {
	s := &Session{
		core: c, conn: conn, id: id, slots: semaphore.NewWeighted(int64(c.limits.MaxInFlight)),
		waiting: places{size: int64(c.limits.MaxQueuePerSession)},
		opened:  time.Now(), done: make(chan struct{}), pumped: make(chan struct{}),
		state: state{index: map[string]*Request{}, live: map[*Request]struct{}{}, quietAt: time.Now()},
	}
	s.principal.Store(conn.Principal)
	return s
}

// update is the one place that changes the state. The function must not block,
// call user code or wake a waiter.
func (s *Session) update(f func(*state)) {
	var quiet chan struct{}
	s.mu.Lock()
	f(&s.state)
	broken := s.state.check()
	if len(s.state.live) == 0 {
		quiet, s.state.quiet = s.state.quiet, nil
	}
	s.watchIdle()
	s.mu.Unlock()
	if broken != "" {
		s.core.invariant(s, broken)
	}
	if quiet != nil {
		close(quiet)
	}
}

// check returns what is wrong with the state, as far as that can be seen in constant time.
func (st *state) check() string {
	switch {
	case len(st.index) > len(st.live):
		return "an undecided request is not in the live set"
	case st.phase == sessionClosed && len(st.index) > 0:
		return "a closed session has undecided requests"
	}
	return ""
}

// settled frees the id of a request whose outcome was just fixed.
func (st *state) settled(r *Request, to outcome) {
	if st.index[r.ID.Key()] == r {
		delete(st.index, r.ID.Key())
	}
	if to == answering {
		st.answers++
	}
}

// left takes a finished request out of the live set.
func (st *state) left(r *Request) {
	delete(st.live, r)
	if len(st.live) == 0 {
		st.quietAt = time.Now()
	}
}

// accepting reports whether requests may be admitted.
func (st *state) accepting() bool { return st.phase == sessionOpen }

// ID names a legacy HTTP session; it is "" for a byte stream. It is the Mcp-Session-Id, or what that contains
// if it is sealed, and then no credential.
func (s *Session) ID() string { return s.id }

// LogID names the session in logs and snapshots: the start of its id, which is a
// credential of a kind, or the transport.
func (s *Session) LogID() string {
	if s.id != "" {
		return logID(s.id)
	}
	return s.conn.Transport
}

// sealed reports whether the session is in its id.
func (s *Session) sealed() bool { return s.object != "" }

// logID returns the start of the id of a session.
func logID(id string) string { return id[:min(len(id), 8)] }

// Conn describes the connection over which the session began.
func (s *Session) Conn() *Conn { return s.conn }

// Principal returns the principal of the session as its last message had it, or nil. Its identity never
// changes; its scopes may, with another token.
func (s *Session) Principal() *auth.Principal { return s.principal.Load() }

// OpenedAt returns when the session began.
func (s *Session) OpenedAt() time.Time { return s.opened }

// Peer returns what initialize has settled, or nil before it.
func (s *Session) Peer() (p *Peer) {
	s.update(func(st *state) { p = st.peer })
	return p
}

// Initialize records what initialize has settled.
func (s *Session) Initialize(p *Peer) { s.update(func(st *state) { st.peer = p }) }

// Initialized records the client's notifications/initialized, and sends what has waited
// for it.
func (s *Session) Initialized() {
	var early []*outbound
	s.update(func(st *state) {
		st.ready = true
		early, st.early = st.early, nil
	})
	for _, o := range early {
		o.send()
	}
}

// presumeReady takes the handshake of a session with a sealed id as done, because its client uses it:
// notifications/initialized may have gone to another replica.
func (s *Session) presumeReady() {
	presume := false
	s.update(func(st *state) { presume = !st.ready && st.peer != nil && s.sealed() })
	if presume {
		s.Initialized()
		s.core.adopted(s)
	}
}

// Done is closed when the session's teardown is over.
func (s *Session) Done() <-chan struct{} { return s.done }

// removed reports whether the session was taken from its client: deleted, expired
// or evicted. The end of the server does not count.
func (s *Session) removed() (removed bool) {
	s.update(func(st *state) {
		removed = s.stream == nil && st.phase >= sessionEnding && st.cause != mcp.CauseServerShutdown
	})
	return removed
}

// Closing reports whether the session ends, or has ended.
func (s *Session) Closing() (closing bool) {
	s.update(func(st *state) { closing = st.phase >= sessionEnding })
	return closing
}

// idle reports whether nothing keeps the session: no request and no stream. A
// stream does not keep a session whose handshake is not finished.
func (st *state) idle() bool {
	return st.phase == sessionOpen && len(st.live) == 0 && st.visitors == 0 && (st.listeners == 0 || !st.ready || st.over)
}

// LogLevel returns the least severe level that a legacy client wants to be told of, or
// "" if it has not said (logging/setLevel).
func (s *Session) LogLevel() (level mcp.LoggingLevel) {
	s.update(func(st *state) { level = st.logLevel })
	return level
}

// SetLogLevel records what the client has said.
func (s *Session) SetLogLevel(level mcp.LoggingLevel) {
	s.update(func(st *state) { st.logLevel = level })
}

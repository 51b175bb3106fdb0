package session

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Session is a conversation with one peer: a byte stream (stdio, in memory),
// or a legacy HTTP session. A modern HTTP exchange has none.
type Session struct {
	core *Core
	conn *Conn
	// id is the Mcp-Session-Id of a legacy HTTP session, else empty.
	id     string
	stream *stream.Stream // of a byte stream, else nil
	slots  *semaphore.Weighted
	// waiting holds the requests that wait for slots.
	waiting waitingRoom
	opened  time.Time
	cut     atomic.Int64  // requests that the teardown has ended
	done    chan struct{} // closed when the teardown is over
	// parting is closed when the subscriptions of a byte stream are to end; else nil.
	parting chan struct{}
	pumped  chan struct{} // closed when the writer of a byte stream has returned
	lines   logline.Limiter
	logs    *resume.Logs // of the streams that can be resumed; nil without an event store
	// unopened: a legacy HTTP session whose first request has not passed admission. It is
	// only written before others know of the session.
	unopened bool

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
	// answers counts the requests that were settled with an answer. One that is not
	// queued yet is on its way, and the end of the stream waits for it.
	answers int

	outbound    map[string]*outbound // our requests that wait for an answer, by id
	outboundSeq int64
	retired     []retired   // the last ones that have ended
	parked      []*outbound // those that wait for a stream
	early       []*outbound // those that wait for notifications/initialized

	standalone *stream.Stream // that the client has opened for what belongs to no request, or nil
	listeners  int            // exchanges that read it, or resume another stream
	leaving    bool           // the server drains: there will be no other stream

	idleTimer    *time.Timer // of a legacy HTTP session, else nil
	watched      bool        // the timer runs
	watchedReady bool        // with the patience for a session that is ready

	parted   mcp.Cause // why the subscriptions of a byte stream are to end, or ""
	onClosed []func()

	// abandoned counts the handlers that the teardown went on without.
	abandoned []*Request
	malformed int // frames in a row
	// complained counts the errors without an id in the second since complaining.
	complained  int
	complaining time.Time
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

// A Peer is what a legacy client and the server have agreed on in initialize. It
// is immutable.
type Peer struct {
	Version      mcp.Version
	Client       mcp.Implementation
	Capabilities mcp.ClientCapabilities
}

// wantsNullID reports whether an error without an id has an id of null for the
// peer; p may be nil.
func (p *Peer) wantsNullID() bool { return p != nil && !p.Version.AtLeast(mcp.Version20251125) }

func newSession(c *Core, conn *Conn, id string) *Session {
	s := &Session{
		core: c, conn: conn, id: id, slots: semaphore.NewWeighted(int64(c.limits.MaxInFlight)),
		waiting: waitingRoom{size: int64(c.limits.MaxQueuePerSession)},
		opened:  time.Now(), done: make(chan struct{}), pumped: make(chan struct{}),
		state: state{index: map[string]*Request{}, live: map[*Request]struct{}{}, quietAt: time.Now()},
	}
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

// ID returns the Mcp-Session-Id, or "" for a byte stream.
func (s *Session) ID() string { return s.id }

// LogID names the session in logs and snapshots: the start of its id, which is a
// credential of a kind, or the transport.
func (s *Session) LogID() string {
	if len(s.id) > 8 {
		return s.id[:8]
	}
	return s.conn.Transport
}

// Conn describes the connection over which the session began.
func (s *Session) Conn() *Conn { return s.conn }

// OpenedAt returns when the session began.
func (s *Session) OpenedAt() time.Time { return s.opened }

// Peer returns what initialize has settled, or nil before it.
func (s *Session) Peer() (p *Peer) {
	s.update(func(st *state) { p = st.peer })
	return p
}

// Initialize records what initialize has settled.
func (s *Session) Initialize(p *Peer) { s.update(func(st *state) { st.peer = p }) }

// Done is closed when the session's teardown is over.
func (s *Session) Done() <-chan struct{} { return s.done }

// Receive takes one message of a byte stream, in the order of arrival. Answers
// leave on the session's own stream.
func (s *Session) Receive(in *Inbound) { s.ReceiveOn(in, s.stream) }

// ReceiveOn takes one message whose answer, if it gets one, leaves on st.
func (s *Session) ReceiveOn(in *Inbound, st *stream.Stream) {
	s.update(func(state *state) {
		state.malformed = 0
		if in.Era == mcp.Legacy && state.peer != nil && in.Version == "" {
			in.Version = state.peer.Version
		}
	})
	switch in.Kind {
	case wire.Request:
		s.core.admit(in, s, st)
	case wire.Notification:
		s.notification(in)
	case wire.Response:
		s.response(in)
	}
}

func (s *Session) notification(in *Inbound) {
	switch in.Method {
	case mcp.NotificationCancelled:
		_, end := s.core.tellNotified(in, s)
		s.cancel(in)
		end()
		return
	case mcp.NotificationInitialized:
		s.Initialized()
	}
	s.core.notify(in, s)
}

// cancel handles notifications/cancelled.
func (s *Session) cancel(in *Inbound) {
	reason := mcp.IgnoreMalformed
	if in.Cancel != nil && in.Cancel.RequestIDOK {
		var r *Request
		s.update(func(st *state) { r = st.index[in.Cancel.RequestID.Key()] })
		switch {
		case r == nil:
			reason = mcp.IgnoreUnknownID
		case r.Route.Handshake:
			reason = mcp.IgnoreNotCancellable
		case s.cancelRequest(r, in.Cancel.Reason):
			s.core.ledger.received(receivedNotification)
			return
		default:
			reason = mcp.IgnoreUnknownID // settled meanwhile
		}
	}
	s.core.ledger.ignored(receivedNotification, mcp.IgnoredCancel, reason)
	s.core.logger.Debug("cancel.ignored", "session", s.LogID(), "reason", reason)
}

// cancelRequest cancels a request on behalf of its client, which gets no answer. Only
// a legacy HTTP exchange must end with something, so that it gets the terminator
// -32800, unless it has become an event stream already, which can just end, or the
// exchange is that of a batch, which ends without an answer when none is left.
func (s *Session) cancelRequest(r *Request, text string) bool {
	err := &mcp.CancelError{Cause: mcp.CauseClientCancel, Detail: logline.Printable(text, 256)}
	var won bool
	if s.stream == nil && r.batch == nil && !r.stream.EndsWithoutAnswer() {
		won = r.refuse(err, mcp.NewError(mcp.CodeRequestCancelled, "Request cancelled"))
	} else if won = r.suppress(err, mcp.DropCancelled); won {
		r.forgo()
	}
	if won {
		s.core.logger.InfoContext(r.ctx, "request.cancelled",
			append(r.LogAttrs(), "cause", err.Cause, "reason", err.Detail)...)
	}
	return won
}

// Malformed counts a frame that is no message and answers it where it can be
// answered. After too many in a row the connection is given up.
func (s *Session) Malformed(err *wire.Error) {
	if answer, _ := s.judge(err, nil); answer != nil {
		s.stream.RejectFrame(answer)
	}
}

// judge counts what is no message and returns the answer to it, or nil. b is the batch
// that it came in, or nil. Over HTTP, where it costs an exchange, nobody counts how
// many come in a row. After the last one the session is closed.
func (s *Session) judge(err *wire.Error, b *batch) (m *stream.Message, last bool) {
	var nullID, silent bool
	s.update(func(st *state) {
		nullID = st.peer.wantsNullID()
		if b.uses(err.ID) || s.stream != nil && st.index[err.ID.Key()] != nil {
			// The answer would resolve the request that rightly has this id.
			anonymous := *err
			anonymous.ID, err = mcp.ID{}, &anonymous
		}
		if s.stream != nil {
			st.malformed++
			last = st.malformed >= s.core.limits.MaxConsecutiveMalformed
			silent = last || err.ID.IsZero() && !st.complain(time.Now())
		}
	})
	reason, answer := s.core.countMalformed(err, s.sender()...)
	if answer && !silent {
		m = malformedAnswer(err, reason, nullID)
	}
	if last {
		s.core.ledger.limitReached(limits.NameMalformed)
		s.core.logger.Warn("session.peer_lost", "session", s.LogID(), "error", "too many malformed frames in a row")
		s.teardown(mcp.CauseTransportError, mcp.DropClosedWriter)
		<-s.done
	}
	return m, last
}

// complaints is how many errors a second a session sends that nobody can relate to
// a request of his.
const complaints = 10

// complain reports whether such an error may be sent now.
func (st *state) complain(now time.Time) bool {
	if now.Sub(st.complaining) >= time.Second {
		st.complaining, st.complained = now, 0
	}
	st.complained++
	return st.complained <= complaints
}

// MalformedTail counts the rest of a line that the end of the input has cut off, and
// that is no message. Nobody is told: the peer did not finish saying it.
func (s *Session) MalformedTail(*wire.Error) {
	s.core.ledger.rejected(receivedInvalid, mcp.RejectParseError)
	s.core.logMalformed(wire.ReasonParseError, "the input has ended within it", s.sender())
}

// pump runs the writer of a byte stream.
func (s *Session) pump(sink stream.Sink) {
	defer close(s.pumped)
	err := s.stream.Pump(sink)
	if err != nil {
		s.peerLost(err, stream.WriteReason(err))
	}
}

// peerLost ends a byte stream's session whose connection is broken; one that is
// ending already goes on ending as it does.
func (s *Session) peerLost(err error, reason mcp.DropReason) {
	if s.begin(mcp.CauseTransportError) {
		s.core.logger.Warn("session.peer_lost", "session", s.LogID(), "error", err)
		s.end(mcp.CauseTransportError, reason)
	}
}

// EOF tells a byte stream's session that its peer will send nothing more, and
// returns when the session is closed. Handlers go on for the end-of-file grace;
// their answers are still sent.
func (s *Session) EOF() {
	first := false
	s.update(func(st *state) {
		if first = st.phase == sessionOpen; first {
			st.phase = sessionEOF
		}
	})
	if first {
		s.core.logger.Info("session.eof", "session", s.LogID())
		s.endOutbound(s.takeOutbound(), &mcp.CancelError{Cause: mcp.CauseTransportClose})
		s.part(mcp.CauseTransportClose) // nobody can end them any more, and the client waits for our end
		s.await(s.core.limits.EOFGrace)
		s.finish(mcp.CauseTransportClose, s.core.limits.CleanupGrace)
	}
	<-s.done
}

// Fail tells a byte stream's session that its connection is broken. It returns
// when the session is closed.
func (s *Session) Fail(err error) {
	s.peerLost(err, mcp.DropBrokenPeer)
	<-s.done
}

// Close ends the session from our side, without grace. It starts the teardown and
// returns, so that a handler may call it too; Done tells when it is over.
func (s *Session) Close(cause mcp.Cause) {
	if s.unopened {
		s.endLogs()
		return // it never was
	}
	reason := mcp.DropSessionGone
	if s.stream != nil {
		reason = mcp.DropClosedWriter
	}
	s.teardown(cause, reason)
}

// Finish ends the session in order from our side, as at the end of the input but
// without its grace. It returns when the session is closed.
func (s *Session) Finish(cause mcp.Cause) {
	s.finish(cause, s.core.limits.CleanupGrace)
	<-s.done
}

// begin enters the ending phase once; the first cause stays.
func (s *Session) begin(cause mcp.Cause) (first bool) {
	s.update(func(st *state) {
		if first = st.phase < sessionEnding; first {
			st.phase, st.cause = sessionEnding, cause
		}
	})
	return first
}

// teardown ends the session at once: nothing is answered any more.
func (s *Session) teardown(cause mcp.Cause, reason mcp.DropReason) {
	if s.begin(cause) {
		s.end(cause, reason)
	}
}

// end is the teardown of a session that has entered its ending phase.
func (s *Session) end(cause mcp.Cause, reason mcp.DropReason) {
	s.core.forgetSession(s)
	err := &mcp.CancelError{Cause: cause}
	if s.stream != nil {
		s.stream.Fail(reason) // before a handler wakes and sends
	}
	calls := s.takeOutbound()
	requests := s.requests()
	if len(requests) > 0 && (cause == mcp.CauseSessionIdle || cause == mcp.CauseSessionEvicted) {
		s.core.invariant(s, "a session with requests counts as idle")
	}
	for _, r := range requests {
		if r.suppress(err, reason) {
			s.cut.Add(1)
			if s.stream == nil {
				r.stream.Fail(reason)
			}
		}
	}
	s.endOutbound(calls, err)
	s.endStreams(reason)
	s.core.tasks.start(func() {
		s.await(s.core.limits.CleanupGrace)
		s.closed(cause)
	})
}

// finish ends the session in order: handlers are cancelled and may still answer
// within the grace; what is left gets an error.
func (s *Session) finish(cause mcp.Cause, grace time.Duration) {
	if !s.begin(cause) {
		return
	}
	s.core.forgetSession(s)
	err := &mcp.CancelError{Cause: cause}
	calls := s.takeOutbound()
	s.part(cause)
	for _, r := range s.requests() {
		if r.refuseQueued(err, causeError(cause, "queued")) {
			s.cut.Add(1)
		} else {
			r.interrupt(err)
		}
	}
	s.endOutbound(calls, err)
	end := time.Now().Add(grace)
	s.await(time.Until(end))
	for _, r := range s.requests() {
		if r.refuse(err, causeError(cause, "")) {
			s.cut.Add(1)
		}
	}
	if s.stream != nil {
		var answers int // all of them: nothing is open any more
		s.update(func(st *state) { answers = st.answers })
		// The last writes have what is left of the grace, but not nothing.
		bound := time.Now().Add(max(time.Until(end), s.core.limits.CleanupGrace/5))
		s.stream.End(bound, answers)
		s.awaitWriter(bound)
		s.stream.Fail(mcp.DropClosedWriter)
	}
	s.endStreams(mcp.DropClosedWriter)
	s.await(time.Until(end))
	s.closed(cause)
}

// awaitWriter waits until the writer has written the rest, which its write deadline
// bounds. Without write deadlines the wait ends a little later all the same, and the
// writer returns when the pipe is closed.
func (s *Session) awaitWriter(bound time.Time) {
	timer := time.NewTimer(time.Until(bound) + s.core.limits.CleanupGrace/5)
	defer timer.Stop()
	select {
	case <-s.pumped:
	case <-timer.C:
	}
}

// AwaitWriter returns when the writer of a byte stream is done with the pipe that was
// closed under it, or does not obey: such a pipe must not keep the process.
func (s *Session) AwaitWriter() { s.awaitWriter(time.Now()) }

// closed counts the handlers that are left behind and ends the session.
func (s *Session) closed(cause mcp.Cause) {
	var left []*Request
	s.update(func(st *state) {
		for r := range st.live {
			left = append(left, r)
		}
	})
	var abandoned []*Request
	for _, r := range left {
		if r.abandon() {
			abandoned = append(abandoned, r)
		}
	}
	var onClosed []func()
	s.update(func(st *state) {
		st.phase, st.abandoned = sessionClosed, abandoned
		onClosed, st.onClosed = st.onClosed, nil
	})
	s.endLogs()
	s.core.sessionClosed(s, cause)
	for _, f := range onClosed {
		f()
	}
	close(s.done)
}

// requests returns a private copy of the undecided requests, the queued ones first:
// when all are to be ended, none may start in the slot of one that has been.
func (s *Session) requests() []*Request {
	var queued, started []*Request
	s.update(func(st *state) {
		for _, r := range st.index {
			if r.verdict.started() {
				started = append(started, r)
			} else {
				queued = append(queued, r)
			}
		}
	})
	return append(queued, started...)
}

// await waits until no request is live, at most for d.
func (s *Session) await(d time.Duration) {
	var quiet chan struct{}
	s.update(func(st *state) {
		if len(st.live) > 0 {
			if st.quiet == nil {
				st.quiet = make(chan struct{})
			}
			quiet = st.quiet
		}
	})
	if quiet == nil || d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-quiet:
	case <-s.done: // somebody else was quicker
	case <-timer.C:
	case <-s.core.closing:
	}
}

// removed reports whether the session was taken from its client: deleted, expired
// or evicted. The end of the server does not count.
func (s *Session) removed() (removed bool) {
	s.update(func(st *state) {
		removed = s.stream == nil && st.phase >= sessionEnding && st.cause != mcp.CauseServerShutdown
	})
	return removed
}

// Abandoned returns an error that names the handlers which the teardown went on
// without, or nil.
func (s *Session) Abandoned() error {
	var left []*Request
	s.update(func(st *state) { left = st.abandoned })
	names := make([]string, len(left))
	for i, r := range left {
		names[i] = r.describe()
	}
	return abandonedError(names)
}

// causeError is the answer to a request that the end of its session or of the
// server has overtaken.
func causeError(cause mcp.Cause, phase string) *mcp.Error {
	return mcp.NewError(mcp.CodeInternalError, "the request was cancelled: %s", cause).
		WithData(mcp.ErrorData{Reason: string(cause), Phase: phase})
}

package session

import (
	"context"
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

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
		s.core.logger.Info("session.eof", s.LogAttrs()...)
		s.endOutbound(s.takeOutbound(), &mcp.CancelError{Cause: mcp.CauseTransportClose})
		s.endSubscriptions(mcp.CauseTransportClose) // the client cannot end them any more, and waits for our end
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
		s.endLogs(cause)
		return // it was never opened
	}
	reason := mcp.DropSessionGone
	if s.stream != nil {
		reason = mcp.DropClosedWriter
	}
	s.teardown(cause, reason)
}

// Delete ends the session because its client has deleted it, over conn. ctx has the span of that, if there is one.
func (s *Session) Delete(ctx context.Context, conn *Conn) {
	s.core.tell("SessionDeleted", func(o Observer) { o.SessionDeleted(s, conn) })
	s.core.rememberDeleted(s)
	s.shareEnd(ctx)
	s.Close(mcp.CauseSessionDelete)
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
		if r.dropAnswer(err, reason) {
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
	if s.begin(cause) {
		s.conclude(cause, grace)
	}
}

// conclude is finish for a session that has entered its ending phase.
func (s *Session) conclude(cause mcp.Cause, grace time.Duration) {
	s.core.forgetSession(s)
	err := &mcp.CancelError{Cause: cause}
	calls := s.takeOutbound()
	s.endSubscriptions(cause)
	for _, r := range s.requests() {
		if r.cancelQueued(err, causeError(cause, "queued")) {
			s.cut.Add(1)
		} else {
			r.interrupt(err)
		}
	}
	s.endOutbound(calls, err)
	end := time.Now().Add(grace)
	s.await(time.Until(end))
	for _, r := range s.requests() {
		if r.cancelAnswered(err, causeError(cause, "")) {
			s.cut.Add(1)
		}
	}
	if s.stream != nil {
		var answers int // final: no request is undecided any more
		s.update(func(st *state) { answers = st.answers })
		// The last writes have what is left of the grace, and a fifth of it at least.
		bound := time.Now().Add(max(time.Until(end), s.core.limits.CleanupGrace/5))
		s.stream.End(bound, answers)
		s.awaitWriter(bound)
		s.stream.Fail(mcp.DropClosedWriter)
	}
	s.endStreams(mcp.DropClosedWriter)
	s.await(time.Until(end))
	s.closed(cause)
}

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
	s.endLogs(cause)
	s.core.sessionClosed(s, cause)
	for _, f := range onClosed {
		f()
	}
	close(s.done)
}

// pump runs the writer of a byte stream.
func (s *Session) pump(sink stream.Sink) {
	defer close(s.pumped)
	err := s.stream.Pump(sink)
	if err != nil {
		s.peerLost(err, stream.WriteReason(err))
	}
}

// peerLost ends the session of a byte stream whose connection is broken, unless it is ending
// already.
func (s *Session) peerLost(err error, reason mcp.DropReason) {
	if s.begin(mcp.CauseTransportError) {
		s.core.logger.Warn("session.peer_lost", append(s.LogAttrs(), "error", err)...)
		s.end(mcp.CauseTransportError, reason)
	}
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

// AwaitWriter returns when the writer of a byte stream has returned, or shortly after if the
// closed connection does not wake it: such a connection must not keep the process.
func (s *Session) AwaitWriter() { s.awaitWriter(time.Now()) }

// requests returns a private copy of the undecided requests, the queued ones first: so no
// queued request starts in the slot of one that is ended before it.
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
	case <-s.done: // another teardown was quicker
	case <-timer.C:
	case <-s.core.closing:
	}
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

// forgetSession makes a session unknown to new requests.
func (c *Core) forgetSession(s *Session) {
	c.mu.Lock()
	known := s.known
	if s.known = false; known {
		if c.byID[s.handedOut] == s {
			delete(c.byID, s.handedOut)
			delete(c.inner, s.id)
		}
		c.evictions.close(s)
		c.idling.remove(s)
	}
	c.mu.Unlock()
	if known {
		c.places.Release(s.holder)
		s.holder.Release()
	}
}

// sessionClosed is the end of a session's teardown.
func (c *Core) sessionClosed(s *Session, cause mcp.Cause) {
	c.mu.Lock()
	delete(c.sessions, s)
	c.mu.Unlock()
	c.ledger.sessionClosed(cause)
	c.tell("SessionClosed", func(o Observer) { o.SessionClosed(s, cause) })
	if !c.logger.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	total, abandoned := 0, 0
	s.update(func(st *state) { total, abandoned = st.total, len(st.abandoned) })
	c.logger.Info("session.closed", append(s.LogAttrs(), "cause", cause, "age", time.Since(s.opened),
		"requests", total, "cut", s.cut.Load(), "abandoned", abandoned)...)
}

// OnClosed has f called when the session is closed, and at once if it is.
func (s *Session) OnClosed(f func()) {
	late := false
	s.update(func(st *state) {
		if late = st.phase == sessionClosed; !late {
			st.onClosed = append(st.onClosed, f)
		}
	})
	if late {
		f()
	}
}

// endStreams fails the session's own stream, the streams that no exchange reads, and those
// that have ended and are only replayed.
func (s *Session) endStreams(reason mcp.DropReason) {
	var own *stream.Stream
	var relay *relay
	s.update(func(state *state) { own, relay = state.standalone, state.relay })
	if own != nil {
		own.Fail(reason)
	}
	if relay != nil {
		relay.stream.Fail(reason)
	}
	if s.logs != nil {
		s.logs.Fail(reason)
	}
}

// endThrough ends the session because its client has deleted it through another replica, or an operator has
// ended it there. t may be nil.
func (s *Session) endThrough(t *Through) {
	for _, r := range s.requests() {
		s.core.cameThrough(r, ThroughEnd, t)
	}
	s.Close(mcp.CauseSessionDelete)
}

package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// check compares the core with the books at a moment at which nothing moves.
func (sc *script) check() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	now := time.Now()
	alive, open := map[*Request]bool{}, map[*Session]int{}
	for _, r := range live[*Request](sc.core.ledger) {
		alive[r] = true
	}
	for _, tr := range sc.order {
		if tr.refused {
			sc.checkRefused(tr)
			continue
		}
		sc.checkCause(tr)
		fate, _ := tr.r.Fate()
		decided := tr.r.verdict.outcome() != 0
		running := tr.started > 0 && !tr.returned && tr.r.Refusal == nil // then there is no handler
		switch {
		case !decided && now.After(tr.r.Deadline().Add(fuzzPause)):
			sc.faultLocked("I12: %s is undecided after its deadline", tr)
		case alive[tr.r] != (fate == FateUnknown || running):
			sc.faultLocked("I4: %s is live: %t, fate %v, handler running: %t", tr, alive[tr.r], fate, running)
		case alive[tr.r] == (tr.finished > 0):
			sc.faultLocked("I4: %s is live: %t, finished %d times", tr, alive[tr.r], tr.finished)
		case decided && tr.started == 0 && running:
			sc.faultLocked("Q: the handler of %s runs although it was settled in the queue", tr)
		}
		if tr.r.session != nil && !decided {
			open[tr.r.session]++
		}
		sc.checkDrop(tr)
		delete(alive, tr.r)
	}
	for r := range alive {
		sc.faultLocked("I4: %s is live and unknown", r.ID.Raw())
	}
	for s, end := range sc.bySession {
		sc.checkSession(s, end, open[s], now)
	}
	sc.checkRejections()
	sc.checkCounters()
}

// checkRejections checks that every rejected request is told so, as long as its
// stream is sound. Only a full queue may swallow a rejection, and counts that.
func (sc *script) checkRejections() {
	want, streams := map[*fuzzWire]int{}, map[*fuzzWire]*stream.Stream{}
	for _, tr := range sc.order {
		k := tr.end.wire
		if tr.post != nil {
			k = tr.post.wire
		}
		if tr.refused && tr.r.stream != nil {
			want[k]++
			streams[k] = tr.r.stream
		}
	}
	swallowed := 0
	for k, n := range want {
		e := k.end
		if e.eof || e.broken || e.garbage || len(e.closed) > 0 || k.gone != nil || k.ever() {
			continue
		}
		if n < k.rejections {
			sc.faultLocked("%d requests were rejected, %d were told", n, k.rejections)
		}
		swallowed += n - k.rejections - waitingRejections(streams[k])
	}
	full := sc.core.Snapshot().Counters.LimitsReached
	if n := full[limits.NameQueuedMessages] + full[limits.NameQueuedBytes]; swallowed > int(n) {
		sc.faultLocked("%d rejections were not sent, %d times a queue was full", swallowed, n)
	}
}

// checkDrop checks, as soon as an answer is dropped, that something has happened for
// which it may be.
func (sc *script) checkDrop(tr *fuzzTrace) {
	fate, reason := tr.r.Fate()
	if fate == FateUnknown || tr.judged {
		return
	}
	tr.judged = true
	if fate == FateDropped && !sc.mayDrop(tr, reason) {
		sc.faultLocked("I2: the answer of %s was dropped %s, for which there is no reason", tr, reason)
	}
	if err, _ := tr.r.Cancellation(); err != nil && err.Cause == mcp.CauseClientCancel && tr.post == nil && reason != mcp.DropCancelled {
		sc.faultLocked("E1: %s was cancelled by its client, but its answer is %v %s", tr, fate, reason)
	}
}

func (sc *script) checkRefused(tr *fuzzTrace) {
	if tr.written > 0 || tr.started > 0 || len(tr.cancels) > 0 || tr.finished > 0 {
		sc.faultLocked("a rejected request lives on: %s", tr)
	}
	s := tr.r.session
	allowed := true
	switch tr.rejected {
	case mcp.RejectShuttingDown:
		allowed = sc.drain != nil || tr.end.eof || tr.end.garbage || len(tr.end.closed) > 0 ||
			tr.end.wire != nil && tr.end.wire.ever()
	case mcp.RejectSessionUnknown:
		allowed = s == nil || s.stream == nil
	case mcp.RejectDuplicateID, mcp.RejectNotInitialized:
		allowed = s != nil
	}
	if !allowed {
		sc.faultLocked("%s was rejected for %s", tr, tr.rejected)
	}
}

// gone reports whether the exchange may have been lost, as it is with each failed write.
func (x *farPost) gone() bool { return x.lost || x.wire.ever() }

// ever reports whether anything was done to the wire.
func (k *fuzzWire) ever() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wasStuck || k.wasBroken || k.wasClosed
}

// checkCause checks that a request was cancelled at most once, for something that
// has happened to it.
func (sc *script) checkCause(tr *fuzzTrace) {
	now, _ := tr.r.Cancellation()
	if tr.seen != nil && now != tr.seen {
		sc.faultLocked("I3: the cause of %s has changed from %v to %v", tr, tr.seen, now)
	}
	tr.seen = now
	if len(tr.cancels) > 1 || len(tr.drops) > 1 || tr.finished > 1 || tr.started > 1 {
		sc.faultLocked("%s: cancelled %d, dropped %d, finished %d, started %d times", tr,
			len(tr.cancels), len(tr.drops), tr.finished, tr.started)
	}
	if (now != nil) != (len(tr.cancels) == 1) || now != nil && tr.cancels[0] != now {
		sc.faultLocked("I3: the observer knows of %v, the request of %v", tr.cancels, now)
	}
	if now != nil && !sc.mayCancel(tr, now.Cause) {
		sc.faultLocked("I3, I13: %s was cancelled with %s, for which there is no reason", tr, now.Cause)
	}
}

func (sc *script) mayCancel(tr *fuzzTrace, cause mcp.Cause) bool {
	e := tr.end
	switch cause {
	case mcp.CauseClientCancel:
		return tr.unwanted
	case mcp.CauseClientDisconnect:
		return tr.post != nil && tr.post.gone() && (tr.post.modern || sc.core.limits.OrphanGrace > 0)
	case mcp.CauseTransportClose:
		return e.wire != nil && e.eof
	case mcp.CauseTransportError:
		return e.wire != nil && (e.broken || e.garbage || e.wire.ever())
	case mcp.CauseSessionDelete:
		return e.may(cause)
	case mcp.CauseServerShutdown:
		return e.may(cause) || sc.drain != nil && (tr.started == 0 || !sc.drain.expired.IsZero() || !sc.closedAt.IsZero())
	case mcp.CauseDeadline:
		_, at := tr.r.Cancellation()
		return !at.Before(tr.r.Deadline())
	}
	return false // nothing in flight is idle
}

func (sc *script) mayDrop(tr *fuzzTrace, reason mcp.DropReason) bool {
	e, x := tr.end, tr.post
	if x != nil && x.wire.may(reason) || e.wire != nil && e.wire.may(reason) {
		return true
	}
	switch reason {
	case mcp.DropCancelled:
		return tr.unwanted || x != nil && x.modern && x.gone()
	case mcp.DropClosedWriter:
		return x == nil && (e.eof || e.garbage || len(e.closed) > 0)
	case mcp.DropBrokenPeer:
		return e.wire != nil && e.broken || x != nil && x.modern && x.gone()
	case mcp.DropSessionGone:
		return x != nil && !x.modern && len(e.closed) > 0
	case mcp.DropStreamGone:
		return x != nil && !x.modern && x.gone()
	}
	return false
}

// checkSession checks all of a session's state, as the core itself does only in part.
func (sc *script) checkSession(s *Session, end *farEnd, undecided int, now time.Time) {
	var broken []string
	s.update(func(st *state) {
		say := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
		for key, r := range st.index {
			if _, ok := st.live[r]; !ok || r.ID.Key() != key || r.verdict.outcome() != 0 {
				say("index[%s] is %s, live %t, outcome %d", key, r.ID.Raw(), ok, r.verdict.outcome())
			}
		}
		if len(st.index) != undecided {
			say("%d requests in the index, %d are undecided", len(st.index), undecided)
		}
		for r := range st.live {
			if tr := sc.traces[r]; tr == nil || tr.finished > 0 {
				say("%s is in the live set", r.ID.Raw())
			}
		}
		asking := sc.asking[s]
		if len(st.outbound) != asking {
			say("%d outbound requests, %d handlers ask", len(st.outbound), asking)
		}
		if len(st.outbound) > sc.core.limits.MaxOutbound || len(st.endedCalls) > maxEndedCalls {
			say("I11: %d outbound, %d retired", len(st.outbound), len(st.endedCalls))
		}
		if st.phase >= sessionEOF && len(st.outbound) > 0 {
			say("E4: outbound requests in a session whose peer says nothing more")
		}
		if s.id != "" && st.idle() && now.After(s.idleUntil().Add(fuzzPause)) {
			say("E10: idle since %v", now.Sub(st.quietAt))
		}
		if closed := st.phase == sessionClosed; closed != isClosed(s.done) {
			say("phase %d, done %t", st.phase, isClosed(s.done))
		}
		if st.phase >= sessionEnding && sc.core.Session(s.id, nil) == s {
			say("an ended session can be found")
		}
		if st.phase >= sessionEnding && end.wire == nil && st.cause != mcp.CauseSessionIdle &&
			st.cause != mcp.CauseSessionEvicted && !end.may(st.cause) {
			say("ended for %s", st.cause)
		}
	})
	for _, b := range broken {
		sc.faultLocked("state of %s: %s", s.LogID(), b)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// cancelled reports whether a cancel of the client has settled the request, which
// something else may have interrupted before.
func (tr *fuzzTrace) cancelled() bool {
	err, _ := tr.r.Cancellation()
	_, reason := tr.r.Fate()
	answer := tr.r.Error()
	return err != nil && err.Cause == mcp.CauseClientCancel || tr.unwanted && reason == mcp.DropCancelled ||
		answer != nil && answer.Code == mcp.CodeRequestCancelled
}

// checkCounters checks invariant I4 at any moment.
func (sc *script) checkCounters() {
	snap := sc.core.Snapshot()
	k := &snap.Counters
	sum := map[string]uint64{}
	for _, tr := range sc.order {
		if tr.refused {
			sum["refused"]++
			continue
		}
		sum["admitted"]++
		fate, _ := tr.r.Fate()
		sum[fate.String()]++
		if tr.cancelled() {
			sum["cancelled"]++
		}
	}
	same := func(what string, got, want uint64) {
		if got != want {
			sc.faultLocked("I4: %s: counted %d, want %d", what, got, want)
		}
	}
	admitted, sent, stored, dropped := k.Totals()
	same("admitted", admitted, sum["admitted"])
	same("sent", sent, sum["sent"])
	same("stored", stored, 0)
	same("dropped", dropped, sum["dropped"])
	var ignored, ignoredCancels, ignoredResponses, rejected, closed, panics uint64
	for i, n := range k.Ignored {
		if !slices.Contains(mcp.IgnoreReasons(i.Kind), i.Reason) {
			sc.faultLocked("vocabulary: ignored %s %s", i.Kind, i.Reason)
		}
		switch i.Kind {
		case mcp.IgnoredCancel:
			ignoredCancels += n
		case mcp.IgnoredResponse:
			ignoredResponses += n
		default:
			ignored += n
		}
	}
	for reason, n := range k.Rejected {
		if !slices.Contains(mcp.RejectReasons(), reason) {
			sc.faultLocked("vocabulary: rejected %s", reason)
		}
		rejected += n
	}
	for _, n := range k.SessionsClosed {
		closed += n
	}
	for _, s := range k.Series {
		panics += s.Panics
	}
	for kind, n := range sc.fed {
		same("received "+kind, k.Received[kind], n)
	}
	same("rejected", rejected+ignored, sum["refused"]+sc.fed["invalid"]+sc.rejectedNotes)
	same("requests", sc.fed["request"], sum["admitted"]+sum["refused"])
	same("notifications", sc.fed["notification"],
		ignoredCancels+sc.notified+sum["cancelled"]+sc.rejectedNotes)
	same("responses", sc.fed["response"], ignoredResponses+sc.answered)
	same("sessions", sc.opened, closed+uint64(len(snap.Sessions)))
	same("closed sessions", closed, sc.closed)
	same("panics", panics, sc.panicked)
	same("panics of handlers", sc.panicked, sc.panics)
	queued := 0
	for i := range snap.Requests {
		if r := snap.Requests[i].Request; r.phase.Load() == uint32(PhaseQueued) && r.verdict.outcome() == 0 {
			queued++
		}
	}
	if n := sc.core.waiting.Len(); n != queued {
		sc.faultLocked("I4: %d in the waiting room, %d are queued", n, queued)
	}
	for _, line := range sc.log.lines() {
		if strings.Contains(line, "invariant.broken") {
			sc.faultLocked("invariant.broken was logged")
			break
		}
	}
}

package session

import (
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// finish drains the core and checks what must hold at rest. If early, the wires
// stay as they are, and so the shutdown must be bounded by the write time-out.
func (sc *script) finish(early bool) {
	sc.rest()
	sc.check()
	if !early {
		sc.release()
	}
	sc.shutdown()
	sc.rest()
	if sc.drain.expired.IsZero() && sc.closedAt.IsZero() {
		time.Sleep(2 * time.Second)
	}
	sc.expireDrain()
	l := &sc.core.limits
	time.Sleep(3*l.CleanupGrace + l.WriteTimeout + fuzzPause)
	sc.rest()
	if !isClosed(sc.drain.done) {
		sc.fault("I12: Shutdown does not end")
	}
	sc.check()
	sc.release()
	// What the shutdown has left behind ends now: handlers that nobody could stop, and
	// exchanges whose peer did not read.
	sc.mu.Lock()
	for _, h := range sc.handlers {
		if !h.gone {
			h.todo = replaced(h.todo)
		}
	}
	sc.mu.Unlock()
	time.Sleep(l.RequestTimeout + l.WriteTimeout)
	sc.rest()
	sc.check()
	sc.atRest()
}

// replaced tells a handler to return, whatever else it was told.
func replaced(todo chan byte) chan byte {
	for {
		select {
		case <-todo:
			continue
		default:
		}
		todo <- doReturn
		return todo
	}
}

// release lets all wires move.
func (sc *script) release() {
	for _, k := range sc.wires() {
		k.change(func() { k.stuck = false })
	}
	sc.rest()
}

// atRest checks the end of the script: everything is over and has a name.
func (sc *script) atRest() {
	for _, x := range sc.posts {
		if !x.ended() {
			sc.fault("I6: an exchange has not ended")
			x.lose()
		}
	}
	for _, end := range sc.pipes {
		if !isClosed(end.s.pumped) || !isClosed(end.s.done) {
			sc.fault("I6: a byte stream has not ended")
		}
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	snap := sc.core.Snapshot()
	if len(snap.Requests)+len(snap.Outbound)+len(snap.Sessions) > 0 {
		sc.faultLocked("I4: %d requests, %d outbound, %d sessions at rest",
			len(snap.Requests), len(snap.Outbound), len(snap.Sessions))
	}
	for _, tr := range sc.order {
		if !tr.refused {
			sc.checkFate(tr)
		}
	}
	dropped := map[string]uint64{}
	for d, n := range snap.Counters.NotificationsDropped {
		if !slices.Contains(mcp.NotificationDropReasons(), d.Reason) {
			sc.faultLocked("vocabulary: notification %s", d.Reason)
		}
		dropped[d.Method] += n
	}
	m := mcp.NotificationProgress
	if sc.tried[m] != sc.notesSent[m]+dropped[m] {
		sc.faultLocked("I5: %d notifications, %d sent, %d dropped", sc.tried[m], sc.notesSent[m], dropped[m])
	}
	for name, p := range sc.core.pools() {
		if u := p.Usage(); u.Used != 0 || u.Waiters != 0 {
			sc.faultLocked("%s: %+v", name, u)
		}
	}
	if n := sc.core.unread.Total(); n != 0 {
		sc.faultLocked("%d answers of modern exchanges wait for their readers", n)
	}
	for s := range sc.bySession {
		if n := s.waiting.waiting.Load(); n != 0 {
			sc.faultLocked("%d requests of %s wait for slots", n, s.LogID())
		}
		if !s.slots.TryAcquire(int64(sc.core.limits.MaxInFlight)) {
			sc.faultLocked("a slot of %s was not given back", s.LogID())
		}
	}
}

// checkFate checks what became of one request: exactly one answer, or a reason
// that the script has given.
func (sc *script) checkFate(tr *fuzzTrace) {
	fate, reason := tr.r.Fate()
	err, _ := tr.r.Cancellation()
	switch {
	case fate == FateSent && (tr.sent != 1 || len(tr.drops) != 0):
		sc.faultLocked("I4: %s counts as sent; %d answers have left, dropped %v", tr, tr.sent, tr.drops)
	case fate == FateDropped && (tr.sent != 0 || len(tr.drops) != 1 || tr.drops[0] != reason):
		sc.faultLocked("I4: %s counts as dropped %s; %d answers have left, told %v", tr, reason, tr.sent, tr.drops)
	case fate == FateUnknown:
		sc.faultLocked("I2: the fate of %s is not known", tr)
	case tr.abandoned > 1:
		sc.faultLocked("E18: %s was abandoned %d times", tr, tr.abandoned)
	}
	if fate == FateSent {
		sc.checkAnswer(tr, err)
	}
}

// checkAnswer checks that the answer is the one that the request's own handler gave.
func (sc *script) checkAnswer(tr *fuzzTrace, err *mcp.CancelError) {
	if _, text, ok := strings.Cut(tr.frame, `"text":"`); ok {
		text, _, _ = strings.Cut(text, `"`)
		if !slices.Contains(tr.texts, text) {
			sc.faultLocked("E14: %s got the answer of another one: %s", tr, tr.frame)
		}
	}
	for _, secret := range []string{"as scripted\",\"stack", "shrapnel", "goroutine "} {
		if strings.Contains(tr.frame, secret) {
			sc.faultLocked("E13: %s got the text of a panic: %s", tr, tr.frame)
		}
	}
	if err != nil && err.Cause == mcp.CauseDeadline && !strings.Contains(tr.frame, `"reason":"deadline"`) {
		sc.faultLocked("E12: %s got another answer than its deadline: %s", tr, tr.frame)
	}
	if err != nil && err.Cause == mcp.CauseClientCancel && !strings.Contains(tr.frame, `"code":-32800`) {
		sc.faultLocked("E1: %s got another answer than its terminator: %s", tr, tr.frame)
	}
}

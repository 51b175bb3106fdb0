package replica

import (
	"errors"
	"sync"
	"time"
)

// A recovery brings this replica and the store together after one of them has not heard the other.
type recovery struct {
	mu      sync.Mutex // guards the rest
	running bool
	again   bool // something has failed since it began
}

// begin reports whether the caller must run the recovery.
func (r *recovery) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.running
	r.running, r.again = true, true
	return first
}

// next reports whether another pass is needed. Otherwise the recovery is over.
func (r *recovery) next() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = r.again
	r.again = false
	return r.running
}

// repeat has another pass run.
func (r *recovery) repeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again = true
}

// recover runs passes until one of them is complete and nothing has failed meanwhile. Each waits for a
// while first, so that replicas do not do that at the same moment.
func (l *Link) recover() {
	if !l.recovery.begin() {
		return
	}
	l.start(func() {
		for pause := firstPause; l.recovery.next(); pause = min(2*pause, longestPause) {
			if !l.await(pause) {
				return
			}
			if !l.reconcile() {
				l.recovery.repeat()
			}
		}
	})
}

// await waits until the store may be asked, or for about a pause if it may be asked now. It returns false if the link is closed.
func (l *Link) await(pause time.Duration) bool {
	wait := l.guard.opensIn() // a pause of its own length at each replica, unless a call tries just now
	if wait == 0 {
		wait = jittered(pause)
	}
	for ; wait > 0; wait = l.guard.opensIn() {
		select {
		case <-time.After(wait):
		case <-l.done.Done():
			return false
		}
	}
	return true
}

// reconcile tells what this replica has done and could not tell, and reads what others have changed, unless the store has
// only refused something. It reports whether the store has answered all that it has asked. A store that is away is not
// always asked, and then nothing else says that another pass is needed.
func (l *Link) reconcile() (complete bool) {
	if _, err := l.State(l.done, "here"); err != nil { // the store is asked even if there is nothing else to ask
		return false
	}
	gap := l.gap.Swap(false)
	l.Core.ShareAgain(l.done) // if the store has failed, another pass follows
	if gap && !l.catchUp() {
		l.gap.Store(true)
		return false
	}
	l.flush()
	l.flushTasks()
	l.check()
	return true
}

// catchUp reads what others have changed, and reports whether the store has answered all that it has asked.
func (l *Link) catchUp() (complete bool) {
	for _, s := range l.Core.SharedSessions() {
		switch st, err := l.State(l.done, s.ID); {
		case errors.Is(err, errFormat): // a later release has changed it
		case err != nil:
			return false
		default:
			if l.Core.StateArrived(s.ID, s.Ends, st) {
				l.Core.RestoreState(l.done, s.ID)
			}
		}
	}
	l.Missed()
	return true
}

package session

import (
	"container/heap"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// idling knows when legacy HTTP sessions are to be looked at, because they may have been idle for long enough or
// their sealed ids may have ended. All share one timer of the runtime: with one for each session every other timer
// of the process would become dearer, because the runtime goes through all of them when one was set to an earlier
// time (row scale/sessions of make compare).
//
// A session stays in its place while it is used, so that requests need not touch it. It is found to be in use
// when its time comes, and is listed again when it is idle.
//
// Lock order: that of a session or of the core, then that of idling.
type idling struct {
	mu       sync.Mutex // guards the rest, and the place of each session
	sessions placedHeap[*Session, firstDue]
	timer    *time.Timer
}

// A due is the place of a session in [idling].
type due struct {
	at       time.Time
	position int
	listed   bool
}

// firstDue orders sessions by the time at which they are to be looked at.
type firstDue struct{}

func (firstDue) before(a, b *Session) bool { return a.due.at.Before(b.due.at) }

func (firstDue) position(s *Session) *int { return &s.due.position }

// list has a session looked at at a time, and not at the time of an earlier call.
func (d *idling) list(s *Session, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.due.at = at
	if s.due.listed {
		heap.Fix(&d.sessions, s.due.position)
	} else {
		s.due.listed = true
		heap.Push(&d.sessions, s)
	}
	if d.sessions.list[0] == s {
		d.arm()
	}
}

// remove has a session looked at no more.
func (d *idling) remove(s *Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !s.due.listed {
		return
	}
	s.due.listed = false
	heap.Remove(&d.sessions, s.due.position)
	if d.sessions.Len() == 0 {
		d.timer.Stop()
	}
}

// arm sets the timer to the time of the first session. The caller must hold d.mu.
func (d *idling) arm() {
	wait := max(time.Until(d.sessions.list[0].due.at), 0)
	if d.timer == nil {
		d.timer = time.AfterFunc(wait, d.look)
	} else {
		d.timer.Reset(wait)
	}
}

// look runs when the timer fires.
func (d *idling) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for d.sessions.Len() > 0 && !now.Before(d.sessions.list[0].due.at) {
		s := heap.Pop(&d.sessions).(*Session)
		s.due.listed = false
		go s.expire()
	}
	if d.sessions.Len() > 0 {
		d.arm()
	}
}

// expire looks at a session whose time has come.
func (s *Session) expire() {
	s.core.hooks.at(pointIdle, nil)
	s.endIdle(mcp.CauseSessionIdle)
}

// watchIdle has the session looked at when it may have been idle for long enough, or when its id ends. A session
// that has not finished its handshake has less time, and not again after each request.
func (s *Session) watchIdle() {
	st := &s.state
	if !st.expires || st.phase != sessionOpen {
		return
	}
	idle := st.idle()
	if idle && (st.unlisted || st.listedReady != st.ready) {
		st.unlisted, st.listedReady = false, st.ready
		s.core.evictions.list(s, st.ready, st.quietAt)
	}
	at := s.lookAt(idle)
	if !at.IsZero() && (st.due.IsZero() || at.Before(st.due)) {
		st.due = at
		s.core.idling.list(s, at)
	}
}

// lookAt returns when the session is to be looked at, as far as it is known now, or zero. The caller must
// hold s.mu.
func (s *Session) lookAt(idle bool) (at time.Time) {
	if idle {
		at = s.idleUntil()
	}
	if s.sealed() && !s.state.over && (at.IsZero() || s.ends.Before(at)) {
		at = s.ends
	}
	return at
}

// idleUntil returns when an idle session ends. The caller must hold s.mu.
func (s *Session) idleUntil() time.Time {
	if s.state.over {
		return s.ends
	}
	if s.state.ready {
		return s.state.quietAt.Add(s.core.limits.SessionIdle)
	}
	return s.opened.Add(s.core.limits.InitializeTimeout)
}

// endIdle ends the session if it is idle, and has been for long enough unless it is
// evicted. The check and the end are one step, so that a request which was accepted
// never finds its session gone.
func (s *Session) endIdle(cause mcp.Cause) (ended bool) {
	s.update(func(st *state) {
		if cause == mcp.CauseSessionIdle {
			st.due = time.Time{} // which has come
			st.over = st.over || s.sealed() && !time.Now().Before(s.ends)
		}
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

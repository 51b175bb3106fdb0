package session

import (
	"container/heap"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// evictions knows which legacy HTTP session is to be evicted when another one needs its place:
//
//   - First those that have not finished their handshake, of the caller that has most of these, if
//     there are more than a small part of all sessions; then the idle ones of the caller that has the
//     most sessions; then the unfinished ones. Of each caller the one that has been idle longest.
//   - Only sessions of a caller with more sessions than the newcomer's caller, or of that caller
//     itself.
//   - Never the session of a principal for a caller without one, once the handshake is finished.
//
// Sessions stay in their heaps while they are busy, so that requests need not touch these. A
// session that comes up and was used since is put in order again, or left out until it is idle:
// each request costs one such step at most. So an eviction costs O(log n).
//
// Lock order: that of the core or of a session, then that of evictions.
type evictions struct {
	mu      sync.Mutex // guards the rest, the holders, and the eviction of each session
	holders map[share.Key]*holder
	// handshakes is the number of unfinished sessions that do not go first: clients are about to
	// finish them. More of them are an attack, or clients that never will. unfinished is how many there are.
	handshakes, unfinished int
	// largest has the holders that have sessions of a kind, the first to lose one at the root.
	largest [numKinds]placedHeap[*holder, mostSessions]
}

// A sessionKind is a group of sessions of which one may be evicted. The lower one is evicted first.
type sessionKind int

const (
	unfinished sessionKind = iota // its handshake is not finished
	anonymous                     // of a caller without a principal
	personal                      // of a principal
	numKinds
	unlisted sessionKind = -1
)

// A holder is a caller that has sessions.
type holder struct {
	total    int
	idle     [numKinds]placedHeap[*Session, longestIdle]
	position [numKinds]int // in evictions.largest, if it has sessions of that kind
}

// An eviction is the place of a session in the heaps.
type eviction struct {
	kind     sessionKind
	since    time.Time // when it became idle, as far as known
	position int       // in holder.idle
	closed   bool
}

// handshakeShare is the part of all sessions that may be unfinished before these are evicted first.
const handshakeShare = 16

func newEvictions(maxSessions int) *evictions {
	e := &evictions{holders: map[share.Key]*holder{}, handshakes: maxSessions / handshakeShare}
	for kind := range numKinds {
		e.largest[kind].order.kind = kind
	}
	return e
}

// evictionKind returns the kind of a session.
func evictionKind(s *Session, ready bool) sessionKind {
	switch {
	case !ready:
		return unfinished
	case s.conn.Principal == nil:
		return anonymous
	}
	return personal
}

// open counts a session of its caller.
func (e *evictions) open(s *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.eviction.kind = unlisted
	h := e.holders[s.caller]
	if h == nil {
		h = new(holder)
		e.holders[s.caller] = h
	}
	h.total++
	e.fix(h)
}

// close forgets a session that was opened.
func (e *evictions) close(s *Session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(s)
	s.eviction.closed = true
	h := e.holders[s.caller]
	if h.total--; h.total == 0 {
		delete(e.holders, s.caller)
		return
	}
	e.fix(h)
}

// list puts a session in its place, unless it is closed.
func (e *evictions) list(s *Session, ready bool, since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(s)
	if s.eviction.closed {
		return
	}
	kind, h := evictionKind(s, ready), e.holders[s.caller]
	s.eviction.kind, s.eviction.since = kind, since
	if kind == unfinished {
		e.unfinished++
	}
	heap.Push(&h.idle[kind], s)
	if h.idle[kind].Len() == 1 {
		heap.Push(&e.largest[kind], h)
	} else {
		heap.Fix(&e.largest[kind], h.position[kind])
	}
}

// remove takes a session out of the heaps. The caller must hold e.mu.
func (e *evictions) remove(s *Session) {
	kind := s.eviction.kind
	if kind == unlisted {
		return
	}
	s.eviction.kind = unlisted
	if kind == unfinished {
		e.unfinished--
	}
	h := e.holders[s.caller]
	heap.Remove(&h.idle[kind], s.eviction.position)
	if h.idle[kind].Len() == 0 {
		heap.Remove(&e.largest[kind], h.position[kind])
	} else {
		heap.Fix(&e.largest[kind], h.position[kind])
	}
}

// fix puts a holder in its place, whose total has changed. The caller must hold e.mu.
func (e *evictions) fix(h *holder) {
	for kind := range numKinds {
		if h.idle[kind].Len() > 0 {
			heap.Fix(&e.largest[kind], h.position[kind])
		}
	}
}

// next returns the session that a newcomer may replace, or nil. It may be busy by now.
func (e *evictions) next(newcomer *Session) *Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	own, total := e.holders[newcomer.caller], 0
	if own != nil {
		total = own.total
	}
	if e.unfinished > e.handshakes {
		if s := e.first(unfinished, own, total); s != nil {
			return s
		}
	}
	if s := e.first(anonymous, own, total); s != nil {
		return s
	}
	if newcomer.conn.Principal != nil {
		if s := e.first(personal, own, total); s != nil {
			return s
		}
	}
	return e.first(unfinished, own, total)
}

// first returns the first session of a kind to be evicted for a newcomer whose caller has a total of
// sessions, or nil. The caller must hold e.mu.
func (e *evictions) first(kind sessionKind, own *holder, total int) *Session {
	if e.largest[kind].Len() == 0 {
		return nil
	}
	h := e.largest[kind].list[0]
	if h.total <= total {
		h = own
	}
	if h == nil || h.idle[kind].Len() == 0 {
		return nil
	}
	return h.idle[kind].list[0]
}

// isCurrent reports whether a session is idle and in its place, and otherwise puts it there. The
// caller must hold s.mu.
func (e *evictions) isCurrent(s *Session, st *state) bool {
	e.mu.Lock()
	if !st.idle() {
		st.unlisted = true
		e.remove(s)
		e.mu.Unlock()
		return false
	}
	current := s.eviction.kind == evictionKind(s, st.ready) && s.eviction.since.Equal(st.quietAt)
	e.mu.Unlock()
	if !current {
		e.list(s, st.ready, st.quietAt)
	}
	return current
}

// longestIdle orders the sessions of one caller: the one that has been idle longest comes first.
type longestIdle struct{}

func (longestIdle) before(a, b *Session) bool {
	return a.eviction.since.Before(b.eviction.since)
}

func (longestIdle) position(s *Session) *int { return &s.eviction.position }

// mostSessions orders callers that have sessions of a kind: the one with the most comes first, and
// among those the one whose first session has been idle longest.
type mostSessions struct{ kind sessionKind }

func (o mostSessions) before(a, b *holder) bool {
	if n, m := o.size(a), o.size(b); n != m {
		return n > m
	}
	return a.idle[o.kind].list[0].eviction.since.Before(b.idle[o.kind].list[0].eviction.since)
}

func (o mostSessions) size(of *holder) int {
	if o.kind == unfinished {
		return of.idle[unfinished].Len()
	}
	return of.total
}

func (o mostSessions) position(of *holder) *int { return &of.position[o.kind] }

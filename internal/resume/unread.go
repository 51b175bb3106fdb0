package resume

import (
	"slices"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// An unread is a stored answer that the client has not fetched. It ends once: the client fetches
// it, or it expires, which means that no client can fetch it any more.
type unread struct {
	stream string
	seq    uint64 // of the answer's event
	// needs is the first event of the stream that was never written to a connection, at most seq.
	// A client that has lost its connection asks for what follows an event that it has. So when
	// this event is gone, the stream cannot be resumed as far as the answer.
	needs uint64
	about any // see [Log.NoteUnread]
}

// noteUnread notes that an answer is in the store and was not sent. As many are remembered as the
// default store keeps events of a session. One more, and the oldest expires.
func (e *events) noteUnread(u unread) {
	var oldest any
	reason := mcp.ExpireMaxEvents
	e.mu.Lock()
	switch {
	case e.ended:
		oldest, reason = u.about, e.endedFor
	case len(e.unread) == e.store.Limits.MaxEvents:
		oldest = e.unread[0].about
		e.unread = append(e.unread[:0], e.unread[1:]...)
		fallthrough
	default:
		e.unread = append(e.unread, u)
	}
	e.mu.Unlock()
	if oldest != nil {
		e.store.Expired(reason, []any{oldest})
	}
	if memory, ok := e.store.Events.(*Memory); ok && !memory.has(e.name, u.stream, u.needs) {
		e.missing(u.stream, u.needs) // it was evicted before it was noted
	}
}

// written notes that the events of a stream up to one may have reached a client that reads it
// again.
func (e *events) written(stream string, seq uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.unread {
		if u := &e.unread[i]; u.stream == stream {
			u.needs = min(max(u.needs, seq+1), u.seq)
		}
	}
}

// fetched notes that the events of a stream up to one were replayed.
func (e *events) fetched(stream string, seq uint64) {
	gone := e.take(func(u *unread) bool { return u.stream == stream && u.seq <= seq })
	if len(gone) > 0 {
		e.store.Fetched(len(gone))
	}
}

// evicted notes that an event was deleted because a limit of the store was reached.
func (e *events) evicted(stream string, seq uint64, limit string) {
	e.expire(mcp.ExpireReason(limit), func(u *unread) bool { return u.stream == stream && u.needs <= seq })
}

// missing notes that the store does not have an event.
func (e *events) missing(stream string, seq uint64) {
	e.expire(mcp.ExpireStore, func(u *unread) bool { return u.stream == stream && u.needs <= seq })
}

// streamEnded notes that a stream cannot be resumed any more, because its last event is not in
// the store.
func (e *events) streamEnded(stream string) {
	e.expire(mcp.ExpireStreamEnded, func(u *unread) bool { return u.stream == stream })
}

// expire ends the answers for which the function is true.
func (e *events) expire(reason mcp.ExpireReason, gone func(*unread) bool) {
	if all := e.take(gone); len(all) > 0 {
		e.store.Expired(reason, all)
	}
}

// take removes the answers for which the function is true, and returns what they are about.
func (e *events) take(gone func(*unread) bool) (all []any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unread = slices.DeleteFunc(e.unread, func(u unread) bool {
		if gone(&u) {
			all = append(all, u.about)
			return true
		}
		return false
	})
	return all
}

// count returns how many stored answers the client has not fetched.
func (e *events) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.unread)
}

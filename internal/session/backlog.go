package session

import (
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// This file bounds what waits on a stream for its writer although there is always room
// for it: answers, rejections, and calls, which may be taken back.

// overfull reports whether so many bytes wait that no further request may be admitted:
// the answers to those that were are queued in any case. st is nil for who has no
// stream that outlives a request.
func (st *Stream) overfull() bool {
	if st == nil {
		return false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.bytes+st.held > st.core.limits.MaxQueuedBytes
}

// refuse queues the answer to a request that was not admitted.
func (st *Stream) refuse(m *Message) {
	st.awaitRefusals(m.Size())
	st.push(m)
}

// awaitRefusals waits until there is room for n more bytes of rejections. No table
// bounds how many of them there are, so that with a queue full of them and nothing else
// the reader waits: a client that sends more than it reads is slowed down, and one that
// does not read at all loses the connection when the write in progress runs out of time.
func (st *Stream) awaitRefusals(n int) {
	for reached := false; ; reached = true {
		st.mu.Lock()
		if st.closedReason() != "" || st.refused == 0 || st.refused+n <= st.core.limits.MaxQueuedBytes {
			st.mu.Unlock()
			return
		}
		room := st.shrinking()
		st.mu.Unlock()
		if !reached {
			st.core.ledger.limitReached(limits.NameQueuedBytes)
		}
		<-room
	}
}

// complain queues the answer to a frame that was no message, if there is room.
func (st *Stream) complain(m *Message) {
	full := ""
	st.mu.Lock()
	switch {
	case st.closedReason() != "":
	case st.fits(m):
		st.append(m)
		st.signal()
	default:
		full = st.fullLimit()
	}
	st.mu.Unlock()
	if full != "" {
		st.core.ledger.limitReached(full)
	}
}

// remove takes a message out of the queue, if it is still there.
func (st *Stream) remove(m *Message) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if i := slices.Index(st.queue, m); i >= 0 {
		st.queue = slices.Delete(st.queue, i, i+1)
		st.bytes -= m.Size()
		st.shrunk()
	}
}

// shrinking is closed when the queue has shrunk or the stream has failed. It wants st.mu.
func (st *Stream) shrinking() <-chan struct{} {
	if st.room == nil {
		st.room = make(chan struct{})
	}
	return st.room
}

// shrunk tells who waits for room. It wants st.mu.
func (st *Stream) shrunk() {
	if st.room != nil {
		close(st.room)
		st.room = nil
	}
}

// refusals returns how many bytes of a message answer what was not admitted.
func (m *Message) refusals() (n int) {
	switch {
	case m.Kind != Answer || m.request != nil:
		return 0
	case m.parts == nil:
		return m.Size()
	}
	for _, part := range m.parts {
		n += part.refusals()
	}
	return n
}

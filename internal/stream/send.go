package stream

import (
	"context"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Push queues an answer or a call.
func (st *Stream) Push(m *Message) {
	st.Charge(m) // it is queued in any case; the caller of Push has asked if it should not be
	st.mu.Lock()
	reason := st.closedReason()
	if reason == "" {
		st.append(m)
	}
	st.mu.Unlock()
	if reason != "" {
		m.dropped(reason)
		return
	}
	st.signal()
}

// budgetPoll is the time between two looks at a budget that is used up.
const budgetPoll = 10 * time.Millisecond

// Notify queues a notification, whose Delivery must be a [Notice], and waits for room if it
// must, at most for patience. If many messages wait it replaces one with the same key. A client
// that takes only answers gets none, and that is no error.
func (st *Stream) Notify(ctx context.Context, m *Message, patience time.Duration) error {
	var timeout <-chan time.Time
	for {
		charged := st.Charge(m)
		st.mu.Lock()
		if reason, err := st.refused(ctx, m); err != nil {
			st.mu.Unlock()
			m.dropped(reason)
			return err
		}
		if st.form == answersOnly {
			st.mu.Unlock()
			m.dropped(mcp.DropStreamGone)
			return nil
		}
		old, full := st.join(m, charged)
		if old != nil || full == "" {
			st.mu.Unlock()
			st.joined(old, full)
			return nil
		}
		room := st.shrinking()
		st.mu.Unlock()

		var poll <-chan time.Time
		if !charged {
			poll = time.After(budgetPoll)
		}
		if timeout == nil {
			st.host.LimitReached(full)
			t := time.NewTimer(patience)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-room:
		case <-poll:
		case <-ctx.Done():
		case <-timeout:
			m.dropped(mcp.DropQueueFull)
			st.host.LimitReached(limits.NameNotifyTimeout)
			return nil
		}
	}
}

// join queues a notification if there is room for it, or if it can replace another one, which it
// returns. full is the limit that is reached, or "". The caller must hold st.mu.
func (st *Stream) join(m *Message, charged bool) (old *Message, full string) {
	switch {
	case !st.fits(m):
		full = st.fullLimit()
	case !charged:
		full = limits.NameQueuedBytesTotal
	}
	if full != "" || len(st.messages) >= coalesceFrom {
		old = st.supersede(m)
	}
	if full != "" && old == nil {
		return nil, full
	}
	if !charged {
		m.charged, old.charged = old.charged, charge{} // they are about as large
	}
	st.append(m)
	return old, full
}

// joined tells the writer, and the notification that was replaced, if there is one.
func (st *Stream) joined(old *Message, full string) {
	st.signal()
	if old == nil {
		return
	}
	if full != "" {
		st.host.LimitReached(full)
	}
	old.dropped(mcp.DropQueueFull)
}

// Offer queues a message if that is possible at once.
func (st *Stream) Offer(m *Message) bool {
	charged := st.Charge(m)
	st.mu.Lock()
	ok := charged && st.closedReason() == "" && st.fits(m)
	if ok {
		st.append(m)
	}
	st.mu.Unlock()
	if ok {
		st.signal()
	} else {
		m.refund()
	}
	return ok
}

// Post queues a notification, whose Delivery must be a [Notice], although the queue may be
// full: there are as many as the posters have allowed themselves.
func (st *Stream) Post(m *Message) error {
	st.Charge(m)
	st.mu.Lock()
	reason, err := st.refused(context.Background(), m)
	repeated := err == nil && st.repeats(m)
	if err == nil && !repeated {
		st.append(m)
	}
	st.mu.Unlock()
	switch {
	case err != nil:
		m.dropped(reason)
	case repeated:
		m.stored()
	default:
		st.signal()
	}
	return err
}

// repeats reports whether the notification is in the event store already and nobody has
// read the stream since: then it says all that another one would. Else a session whose
// client has gone would fill the store with the same again and again, and drive out what
// others wait for.
func (st *Stream) repeats(m *Message) bool {
	if !m.Once || !st.alone.Load() || st.exchanges.followed {
		return false
	}
	p := &st.posted
	if p.readers != st.exchanges.readers {
		p.frames, p.readers = nil, st.exchanges.readers
	}
	if _, known := p.frames[string(m.Frame)]; known {
		return true
	}
	if p.frames == nil {
		p.frames = map[string]struct{}{}
	}
	if len(p.frames) < maxPosted {
		p.frames[string(m.Frame)] = struct{}{}
	}
	return false
}

// Remove takes a message out of the queue, if it is still there.
func (st *Stream) Remove(m *Message) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if i := slices.Index(st.messages, m); i >= 0 {
		st.messages = slices.Delete(st.messages, i, i+1)
		st.bytes -= m.Size()
		st.shrunk()
		m.refund()
	}
}

// Overfull reports whether so many bytes wait that no further request may be admitted:
// the answers to those that were are queued in any case. A nil stream never is.
func (st *Stream) Overfull() bool {
	if st == nil {
		return false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.bytes+st.held > st.host.Limits.MaxQueuedBytes
}

// Reject queues the answer to a request that was not admitted.
func (st *Stream) Reject(m *Message) {
	st.AwaitRejections(m.Size())
	st.Push(m)
}

// AwaitRejections waits until there is room for n more bytes of rejections. No table
// bounds how many of them there are, so that with a queue full of them and nothing else
// the reader waits: a client that sends more than it reads is slowed down, and one that
// does not read at all loses the connection when the write in progress runs out of time.
func (st *Stream) AwaitRejections(n int) {
	for reached := false; ; reached = true {
		st.mu.Lock()
		if st.closedReason() != "" || st.rejected == 0 || st.rejected+n <= st.host.Limits.MaxQueuedBytes {
			st.mu.Unlock()
			return
		}
		room := st.shrinking()
		st.mu.Unlock()
		if !reached {
			st.host.LimitReached(limits.NameQueuedBytes)
		}
		<-room
	}
}

// RejectFrame queues the answer to a frame that was no message, if there is room.
func (st *Stream) RejectFrame(m *Message) {
	full := ""
	st.Charge(m)
	st.mu.Lock()
	queued := st.closedReason() == "" && st.fits(m)
	switch {
	case queued:
		st.append(m)
		st.signal()
	case st.closedReason() == "":
		full = st.fullLimit()
	}
	st.mu.Unlock()
	if !queued {
		m.refund()
	}
	if full != "" {
		st.host.LimitReached(full)
	}
}

// refused says why a notification cannot be queued any more. The look at the request under
// st.mu keeps a notification from following the answer, which is queued after the settle.
func (st *Stream) refused(ctx context.Context, m *Message) (mcp.DropReason, error) {
	return m.Delivery.(Notice).Refused(ctx, st.failed, st.phase == ended)
}

func (st *Stream) append(m *Message) {
	st.messages = append(st.messages, m)
	st.bytes += m.Size()
	n, rejections := m.count()
	st.rejected += rejections
	st.answered += n
	if st.phase == ending && n > 0 {
		if st.owed -= n; st.owed <= 0 {
			st.enter(ended)
		}
	}
}

func (st *Stream) fits(m *Message) bool {
	l := &st.host.Limits
	return len(st.messages) == 0 ||
		len(st.messages) < l.MaxQueuedMessages && st.bytes+m.Size() <= l.MaxQueuedBytes
}

// fullLimit names the limit for which a message does not fit.
func (st *Stream) fullLimit() string {
	if len(st.messages) >= st.host.Limits.MaxQueuedMessages {
		return limits.NameQueuedMessages
	}
	return limits.NameQueuedBytes
}

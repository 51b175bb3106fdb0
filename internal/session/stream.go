package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Stream carries messages to the peer in order: a byte stream for its whole
// life, an HTTP exchange for one answer and what belongs to it. Anybody may
// queue messages; only the goroutine in [Stream.Pump] touches the wire.
type Stream struct {
	core *Core
	conn *Conn
	kind streamKind
	wake chan struct{} // capacity 1: the writer has something to look at

	mu       sync.Mutex // guards the rest
	queue    []*Message
	bytes    int
	room     chan struct{}  // closed when the queue has shrunk; nil while nobody waits
	expected int            // answers until the stream ends by itself, unless it is endless
	ended    bool           // nothing is queued any more; the rest is still written
	answered int            // answers to admitted requests that were queued
	owed     int            // those that are still to be queued before the stream has ended
	failed   mcp.DropReason // why nothing is written any more, or ""
	writing  bool           // the writer is between taking messages and their fate
	events   bool           // the sink has become an event stream that cannot be resumed
	sink     Sink           // while Pump runs
	deadline time.Time      // of the last write
	writeEnd time.Time      // upper bound of every write, zero for none
	requests []*Request     // those that the loss of the stream concerns
	lost     bool           // Lost was called
}

// A streamKind is what hangs on a stream.
type streamKind uint8

const (
	byteStream       streamKind = iota // everything: its loss ends the session
	legacyExchange                     // answers; its loss cancels nothing
	modernExchange                     // a request; its loss cancels it
	standaloneStream                   // what a legacy HTTP session sends by itself
)

// endless streams do not end with an answer.
func (k streamKind) endless() bool { return k == byteStream || k == standaloneStream }

func newStream(c *Core, conn *Conn, kind streamKind, answers int) *Stream {
	return &Stream{core: c, conn: conn, kind: kind, expected: answers, wake: make(chan struct{}, 1)}
}

// own notes a request that the loss of the stream concerns. The stream may be lost
// already: a client can leave between sending a request and its admission.
func (st *Stream) own(r *Request) {
	st.mu.Lock()
	st.requests = append(st.requests, r)
	lost := st.lost
	st.mu.Unlock()
	if lost {
		st.Lost()
	}
}

// push queues an answer or a call. Neither is bounded here: the requests behind
// answers are, and so are pending calls.
func (st *Stream) push(m *Message) {
	st.mu.Lock()
	reason := st.closedReason()
	if reason == "" {
		st.append(m)
	}
	st.mu.Unlock()
	if reason != "" {
		m.drop(st.core, reason)
		return
	}
	st.signal()
}

// refuse queues the answer to a request that was not admitted. No table bounds how
// many there are, so that the reader waits for room: a client that sends more than
// it reads is slowed down, and one that does not read at all loses the connection
// when the write in progress runs out of time.
func (st *Stream) refuse(m *Message) {
	room, full := st.admit(m)
	if room == nil {
		return
	}
	st.core.ledger.limitReached(full)
	for room != nil {
		<-room
		room, _ = st.admit(m)
	}
}

// admit queues a message if it fits, or tells what to wait for and the limit that is
// reached. On a stream that is closed there is nothing to wait for.
func (st *Stream) admit(m *Message) (room <-chan struct{}, full string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closedReason() != "" {
		return nil, ""
	}
	if !st.fits(m) {
		return st.shrinking(), st.fullLimit()
	}
	st.append(m)
	st.signal()
	return nil, ""
}

// complain queues the answer to a frame that was no message, if there is room.
func (st *Stream) complain(m *Message) {
	if _, full := st.admit(m); full != "" {
		st.core.ledger.limitReached(full)
	}
}

// notify queues a notification and waits for room if it must, at most for patience.
func (st *Stream) notify(ctx context.Context, m *Message, patience time.Duration) error {
	var timeout <-chan time.Time
	for {
		st.mu.Lock()
		if reason, err := st.refusal(ctx, m); err != nil {
			st.mu.Unlock()
			m.drop(st.core, reason)
			return err
		}
		if st.fits(m) {
			st.append(m)
			st.mu.Unlock()
			st.signal()
			return nil
		}
		full := st.fullLimit()
		if st.replace(m) {
			st.mu.Unlock()
			st.core.ledger.limitReached(full)
			m.drop(st.core, mcp.DropQueueFull)
			return nil
		}
		room := st.shrinking()
		st.mu.Unlock()

		if timeout == nil {
			st.core.ledger.limitReached(full)
			t := time.NewTimer(patience)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-room:
		case <-ctx.Done():
		case <-timeout:
			m.drop(st.core, mcp.DropQueueFull)
			st.core.ledger.limitReached(LimitNotifyTimeout)
			return nil
		}
	}
}

// offer queues a notification if that is possible at once.
func (st *Stream) offer(m *Message) bool {
	st.mu.Lock()
	ok := st.closedReason() == "" && st.fits(m)
	if ok {
		st.append(m)
	}
	st.mu.Unlock()
	if ok {
		st.signal()
	}
	return ok
}

// shrinking is closed when the queue has shrunk or the stream has failed. It wants st.mu.
func (st *Stream) shrinking() <-chan struct{} {
	if st.room == nil {
		st.room = make(chan struct{})
	}
	return st.room
}

// The helpers that follow want st.mu.

// refusal says why a notification cannot be queued any more. The cancellation of
// its request comes first and then what has become of the stream, so that the
// reason does not depend on which of them wakes a waiter; on a byte stream only
// what the client has decided, because the loss of the stream is what cancels the
// rest. The look at the outcome under st.mu keeps a notification from following
// the answer, which is queued after the settle.
func (st *Stream) refusal(ctx context.Context, m *Message) (mcp.DropReason, error) {
	r, cause := m.request, context.Cause(ctx)
	switch {
	case r != nil && cause != nil && r.verdict.cancelled() && (st.kind != byteStream || r.verdict.byClient()):
		return r.verdict.dropReason(), cause
	case st.failed != "":
		return st.failed, sendError(st.failed)
	case r != nil && r.verdict.outcome() != open: // also when its answer has ended the stream
		return r.verdict.dropReason(), mcp.ErrRequestDone
	case st.ended:
		return mcp.DropClosedWriter, mcp.ErrClosed
	case r != nil && cause != nil:
		return r.verdict.dropReason(), cause
	case cause != nil:
		return mcp.DropQueueFull, cause
	}
	return "", nil
}

func (st *Stream) closedReason() mcp.DropReason {
	if st.failed == "" && st.ended {
		return mcp.DropClosedWriter
	}
	return st.failed
}

func (st *Stream) append(m *Message) {
	st.queue = append(st.queue, m)
	st.bytes += len(m.Frame)
	if m.Kind != Answer || m.request == nil {
		return
	}
	st.answered++
	if st.owed > 0 {
		st.owed--
		st.ended = st.owed == 0
	}
}

func (st *Stream) fits(m *Message) bool {
	l := &st.core.limits
	return len(st.queue) == 0 ||
		len(st.queue) < l.MaxQueuedMessages && st.bytes+len(m.Frame) <= l.MaxQueuedBytes
}

// fullLimit names the limit for which a message does not fit.
func (st *Stream) fullLimit() string {
	if len(st.queue) >= st.core.limits.MaxQueuedMessages {
		return LimitQueuedMessages
	}
	return LimitQueuedBytes
}

// replace puts m in the place of a waiting notification with the same key.
func (st *Stream) replace(m *Message) bool {
	if m.key == "" {
		return false
	}
	for i, old := range st.queue {
		if old.key == m.key && old.request == m.request {
			st.bytes += len(m.Frame) - len(old.Frame)
			st.queue[i] = m
			return true
		}
	}
	return false
}

func (st *Stream) signal() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// Pump writes the stream's messages to sink until the stream has ended and is
// empty (it then returns nil), or fails. It is the only writer, and returns
// [*WriteError] for a failure of the sink and [mcp.ErrClosed] or
// [mcp.ErrPeerGone] if the stream was failed from elsewhere.
func (st *Stream) Pump(sink Sink) error {
	st.mu.Lock()
	st.sink = sink
	st.mu.Unlock()
	defer func() {
		st.mu.Lock()
		st.sink = nil
		st.mu.Unlock()
	}()
	idle, _ := sink.(KeepAliver)
	var batch []*Message
	for {
		var done bool
		var reason mcp.DropReason
		batch, done, reason = st.take(batch[:0])
		switch {
		case reason != "":
			return sendError(reason)
		case len(batch) == 0 && done:
			return nil
		case len(batch) == 0:
			if err := st.await(sink, idle); err != nil {
				st.lose(nil, err)
				return err
			}
			continue
		}
		err := st.write(sink, batch)
		st.mu.Lock()
		st.writing = false
		st.mu.Unlock()
		if err != nil {
			return err
		}
		st.look(sink)
	}
}

// look notes what the sink has become.
func (st *Stream) look(sink Sink) {
	if s, ok := sink.(EventStreamer); ok && s.EventStream() {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.events = true
	}
}

// await waits for something to write, and meanwhile keeps the connection alive.
func (st *Stream) await(sink Sink, idle KeepAliver) error {
	if idle == nil {
		<-st.wake
		return nil
	}
	timer := time.NewTimer(st.core.limits.KeepAlive)
	defer timer.Stop()
	select {
	case <-st.wake:
		return nil
	case now := <-timer.C:
		st.bound(sink, now)
		err := idle.KeepAlive()
		st.look(sink)
		return err
	}
}

// take moves the queue to the writer.
func (st *Stream) take(batch []*Message) (_ []*Message, done bool, reason mcp.DropReason) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.failed != "" {
		return nil, true, st.failed
	}
	batch = append(batch, st.queue...)
	clear(st.queue)
	st.queue, st.bytes = st.queue[:0], 0
	if st.room != nil {
		close(st.room)
		st.room = nil
	}
	for _, m := range batch {
		if m.Kind == Answer {
			st.expected--
		}
	}
	if st.expected <= 0 && !st.kind.endless() {
		st.ended = true
	}
	st.writing = len(batch) > 0
	return batch, st.ended, ""
}

// write writes and flushes a batch, and records the fate of each message.
func (st *Stream) write(sink Sink, batch []*Message) error {
	begin := time.Now()
	st.bound(sink, begin)
	var err error
	n := 0
	for i, m := range batch {
		if !m.claim() {
			m.drop(st.core, mcp.DropCancelled)
			batch[i] = nil
			continue
		}
		if m.Kind == Answer {
			st.core.hooks.at(pointBeforeWrite, m.request)
		}
		if err = st.failure(); err == nil {
			err = sink.Write(m)
		}
		if err != nil {
			break
		}
		n += len(m.Frame)
	}
	if err == nil {
		err = st.failure()
	}
	if err == nil {
		err = sink.Flush()
	}
	if err != nil {
		st.lose(batch, err)
		return err
	}
	st.core.observer.Written(st.conn, n, time.Since(begin))
	for _, m := range batch {
		if m != nil {
			m.sent(st.core)
		}
	}
	return nil
}

// lose fails the stream because of a write error, and with it the batch. If the
// stream has failed before, that is the reason, whatever the error looks like;
// only of a lost exchange does the write know more.
func (st *Stream) lose(batch []*Message, err error) {
	reason := st.reason()
	if reason == "" || reason == mcp.DropStreamGone {
		reason = writeReason(err)
	}
	if w := (*WriteError)(nil); !errors.As(err, &w) {
		st.core.logger.Error("write.unclassified", "transport", st.conn.Transport,
			"type", fmt.Sprintf("%T", err), "error", err)
	}
	if st.kind == byteStream {
		st.Fail(reason)
	} else {
		st.Lost() // the writer may learn it before the transport does
	}
	if reason == mcp.DropWriteTimeout {
		st.core.ledger.limitReached(LimitWriteTimeout)
	}
	for _, m := range batch {
		if m != nil {
			m.drop(st.core, reason)
		}
	}
}

func (st *Stream) failure() error {
	if reason := st.reason(); reason != "" {
		return &WriteError{Reason: reason, Err: sendError(reason)}
	}
	return nil
}

func (st *Stream) reason() mcp.DropReason {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.failed
}

// bound sets the deadline of the write that begins now. It does so under st.mu, or
// the bound of an end that comes at the same moment would be lost.
func (st *Stream) bound(sink Sink, now time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.deadline = now.Add(st.core.limits.WriteTimeout)
	if !st.writeEnd.IsZero() && st.writeEnd.Before(st.deadline) {
		st.deadline = st.writeEnd
	}
	sink.SetWriteDeadline(st.deadline)
}

// Fail ends the stream at once: what is queued is dropped for this reason, and so
// is what comes later. The first reason stays.
func (st *Stream) Fail(reason mcp.DropReason) {
	st.mu.Lock()
	if st.failed != "" {
		st.mu.Unlock()
		return
	}
	st.failed = reason
	queue := st.queue
	st.queue, st.bytes = nil, 0
	if st.room != nil {
		close(st.room)
		st.room = nil
	}
	st.mu.Unlock()
	st.signal()
	for _, m := range queue {
		m.drop(st.core, reason)
	}
}

// end lets the writer finish what is queued until the given time and then stop. Of
// the requests of the stream so many were settled with an answer, and all those
// answers are waited for: one that is being encoded is not queued yet.
func (st *Stream) end(bound time.Time, answers int) {
	st.mu.Lock()
	st.owed = answers - st.answered
	st.ended = st.owed <= 0
	if !st.ended {
		time.AfterFunc(time.Until(bound), func() { st.Fail(mcp.DropClosedWriter) })
	}
	st.mu.Unlock()
	st.hurry(bound)
	st.signal()
}

// hurry bounds all writes from now on, also one that blocks already.
func (st *Stream) hurry(bound time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.writeEnd = bound
	if st.sink != nil && st.writing && bound.Before(st.deadline) {
		st.deadline = bound
		st.sink.SetWriteDeadline(bound)
	}
}

// forgo tells the stream that one of the answers which it waits for will not come.
// A byte stream waits for none.
func (st *Stream) forgo() {
	if st.kind.endless() {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.expected--
	st.ended = st.ended || st.expected <= 0
	st.signal()
}

// eventStream reports whether the sink has become an event stream that cannot be
// resumed.
func (st *Stream) eventStream() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.events
}

// Lost tells the stream that its HTTP exchange is gone. In the modern era that
// cancels the request: nobody can be answered any more. A legacy request goes on.
func (st *Stream) Lost() {
	st.mu.Lock()
	requests := st.requests
	st.requests, st.lost = nil, true
	first := st.failed == ""
	st.mu.Unlock()
	if first {
		st.core.logger.Debug("stream.lost", "transport", st.conn.Transport, "remote", st.conn.RemoteAddr)
	}
	if st.kind != modernExchange {
		st.Fail(mcp.DropStreamGone)
		st.orphan(requests)
		return
	}
	for _, r := range requests {
		r.disconnect(mcp.DropCancelled)
	}
	st.Fail(mcp.DropBrokenPeer)
}

// orphan bounds how long legacy requests go on whose stream is gone.
func (st *Stream) orphan(requests []*Request) {
	grace := st.core.limits.OrphanGrace
	if grace == 0 {
		return // until their deadline
	}
	for _, r := range requests {
		time.AfterFunc(grace, func() { r.disconnect(mcp.DropStreamGone) })
	}
}

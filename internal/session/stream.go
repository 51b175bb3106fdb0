package session

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Stream carries messages to the peer in order: a byte stream for its whole
// life, an HTTP exchange for one answer and what belongs to it. Anybody may
// queue messages; only the goroutine in [Stream.Pump] touches the wire.
type Stream struct {
	core *Core
	conn *Conn
	wake chan struct{} // capacity 1: the writer has something to look at
	kind streamKind
	// plain is for a client that takes no event stream: nothing but answers.
	plain bool
	// eager is for an exchange that is an event stream from the first message on.
	eager bool
	// single is for an exchange that has one answer.
	single bool
	// quick is true as long as that may come any moment: see quickAnswer.
	quick atomic.Bool

	mu       sync.Mutex // guards the rest
	queue    []*Message
	bytes    int                 // of the queue
	refused  int                 // those of them that answer what was not admitted
	held     int                 // of answers that wait for the rest of their array
	room     chan struct{}       // closed when the queue has shrunk; nil while nobody waits
	expected int                 // answers until the stream ends by itself, unless it is endless
	answered int                 // answers to admitted requests that were queued
	owed     int                 // those that are still to be queued before the stream has ended
	failed   mcp.DropReason      // why nothing is written any more, or ""
	sink     Sink                // while Pump runs
	deadline time.Time           // of the last write
	writeEnd time.Time           // upper bound of every write, zero for none
	requests []*Request          // those that the loss of the stream concerns
	batches  map[*batch]struct{} // whose answers wait for each other
	ended    bool                // nothing is queued any more; the rest is still written
	writing  bool                // the sink is in use
	events   bool                // the sink has become an event stream that cannot be resumed
	lost     bool                // Lost was called

	// The usual exchange has one request and one answer: room for them.
	queued [1]*Message
	owned  [1]*Request
	writes [1]*Message

	// Of a stream that can be resumed, or may become one: see eventLog.
	session  *Session      // whose event store it uses, or nil
	log      *eventLog     // or nil
	reader   int           // the number of the exchange that reads the stream; 0 is none
	readers  int           // how many exchanges there have been
	writer   int           // noWriter, keeper, or the number of an exchange
	vacant   chan struct{} // closed when there is no writer; nil while nobody waits
	unlogged bool          // it has no log and will have none
	hangUp   bool          // a mark in the queue ends the exchange
	alone    atomic.Bool   // there is a log and no reader: what is queued needs a writer

	waiting  map[string]struct{} // what was posted since the last reader has gone: see repeats
	waitsFor int                 // how many readers there have been then
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
	st := &Stream{
		core: c, conn: conn, kind: kind, expected: answers, wake: c.wakes.get(),
		reader: firstReader, readers: firstReader,
	}
	st.queue, st.requests = st.queued[:0], st.owned[:0]
	st.single = answers == 1 && !kind.endless()
	return st
}

// AnswersOnly makes the stream one for a client that takes no event stream. It must be
// called before the stream has a request.
func (st *Stream) AnswersOnly() { st.plain = true }

// EventsOnly makes the stream one whose exchange is an event stream even if the first
// message is an answer. It must be called before [Stream.Pump].
func (st *Stream) EventsOnly() { st.eager = true }

// own notes a request that the loss of the stream concerns. The stream may be lost
// already: a client can leave between sending a request and its admission.
func (st *Stream) own(r *Request) {
	st.mu.Lock()
	st.requests = append(st.requests, r)
	if !r.Route.Handshake {
		st.session = r.session
	}
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
		if st.plain {
			st.mu.Unlock()
			m.drop(st.core, mcp.DropStreamGone)
			return nil
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
			st.core.ledger.limitReached(limits.NameNotifyTimeout)
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
	if m.batch.collect(m) || m.withdrawn() {
		return
	}
	st.queue = append(st.queue, m)
	st.bytes += m.Size()
	st.refused += m.refusals()
	n := m.answers()
	st.answered += n
	if st.owed > 0 && n > 0 {
		st.owed -= n
		st.ended = st.owed <= 0
	}
}

func (st *Stream) fits(m *Message) bool {
	l := &st.core.limits
	return len(st.queue) == 0 ||
		len(st.queue) < l.MaxQueuedMessages && st.bytes+m.Size() <= l.MaxQueuedBytes
}

// fullLimit names the limit for which a message does not fit.
func (st *Stream) fullLimit() string {
	if len(st.queue) >= st.core.limits.MaxQueuedMessages {
		return limits.NameQueuedMessages
	}
	return limits.NameQueuedBytes
}

// replace puts m in the place of a waiting notification with the same key.
func (st *Stream) replace(m *Message) bool {
	if m.key == "" {
		return false
	}
	for i, old := range st.queue {
		if old.key == m.key && old.request == m.request {
			st.bytes += m.Size() - old.Size()
			st.queue[i] = m
			return true
		}
	}
	return false
}

// signal tells the writer that there is something to look at. It may be called with
// st.mu held.
func (st *Stream) signal() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
	if st.alone.Load() {
		st.core.tasks.start(st.keepUp)
	}
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
	queue := append(st.queue, st.takeWaiting()...)
	st.queue, st.bytes, st.refused, st.held = nil, 0, 0, 0
	st.shrunk()
	log := st.log
	st.alone.Store(false)
	st.mu.Unlock()
	if log != nil {
		st.session.forgetLog(log.key, st)
	}
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
	if st.sink != nil && st.writing && (st.deadline.IsZero() || bound.Before(st.deadline)) {
		st.deadline = bound
		st.sink.SetWriteDeadline(bound)
	}
}

// forgo tells the stream that one of the answers which it waits for will not come.
// A byte stream waits for none.
func (st *Stream) forgo() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.skip()
}

// skip is forgo for who holds st.mu.
func (st *Stream) skip() {
	if st.kind.endless() {
		return
	}
	st.expected--
	st.ended = st.ended || st.expected <= 0
	st.signal()
}

// eventStream reports whether the sink has become an event stream that cannot be
// resumed.
func (st *Stream) eventStream() bool {
	st.mu.Lock()
	events, s := st.events && st.log == nil, st.session
	resumable := !st.unlogged && s != nil && s.events != nil
	st.mu.Unlock()
	if !events || !resumable {
		return events
	}
	p := s.Peer()
	return p == nil || !p.Version.AtLeast(mcp.Version20250326)
}

// Lost tells the stream that its HTTP exchange is gone. In the modern era that
// cancels the request: nobody can be answered any more. A legacy request goes on, and
// so does its stream if it can be resumed.
func (st *Stream) Lost() { st.lostBy(firstReader) }

// lostBy is Lost for the exchange with a number.
func (st *Stream) lostBy(reader int) {
	st.mu.Lock()
	if st.log != nil || st.reader != reader {
		gone := st.detach(reader)
		st.mu.Unlock()
		if gone {
			st.logLost()
			st.signal()
		}
		return
	}
	requests := st.requests
	st.requests, st.lost = nil, true
	first := st.failed == ""
	st.mu.Unlock()
	if first {
		st.logLost()
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

func (st *Stream) logLost() {
	st.core.logger.Debug("stream.lost", "transport", st.conn.Transport, "remote", st.conn.RemoteAddr)
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

package session

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is the one writer of a stream.

// Pump writes the stream's messages to sink until the stream has ended and is
// empty, or the exchange was closed on purpose (it then returns nil), or fails. It is
// the only writer, and returns [*WriteError] for a failure of the sink and
// [mcp.ErrClosed] or [mcp.ErrPeerGone] if the stream was failed from elsewhere, or its
// exchange was lost.
func (st *Stream) Pump(sink Sink) error {
	watch := st.watch(sink, firstReader)
	defer watch.end()
	if err := st.enter(firstReader, sink); err != nil {
		return err
	}
	defer st.leave(firstReader)
	if st.kind == modernExchange { // which has no other writer
		defer st.core.wakes.put(st.wake)
	}
	if st.kind == standaloneStream {
		watch.always()
		if err := st.prime(sink); err != nil {
			st.lose(nil, false, err)
			return err
		}
	}
	return st.serve(sink, &watch)
}

// serve writes what is queued, and what comes later.
func (st *Stream) serve(sink Sink, watch *watch) error {
	idle, _ := sink.(KeepAliver)
	batch := st.writes[:0]
	for {
		watch.look()
		var done bool
		var reason mcp.DropReason
		batch, done, reason = st.take(batch[:0])
		switch {
		case reason != "":
			return sendError(reason)
		case len(batch) == 0 && done:
			return nil
		case len(batch) == 0:
			if err := st.await(sink, idle, watch); err != nil {
				st.lose(nil, false, err)
				return err
			}
			continue
		}
		if !done || !st.isQuick(batch) {
			st.quick.Store(false)
			watch.always()
		}
		err := st.write(sink, batch, done)
		st.look(sink)
		if err != nil {
			return err
		}
		if last := batch[len(batch)-1]; last != nil && last.hungUp != nil && st.closeExchange(last) {
			return nil
		}
	}
}

// isQuick reports whether a batch is one small answer that is not part of an event
// stream: it fits into the buffers of the kernel, and waits for no store.
func (st *Stream) isQuick(batch []*Message) bool {
	return len(batch) == 1 && batch[0].Kind == Answer && batch[0].Size() <= largeFrame &&
		st.log == nil && !st.events && !st.eager
}

// look notes that the sink is at rest, and what it has become.
func (st *Stream) look(sink Sink) {
	s, ok := sink.(EventStreamer)
	events := ok && s.EventStream()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.writing, st.events = false, events
}

// await waits for something to write, and meanwhile, unless it comes quickly, keeps the
// connection alive.
func (st *Stream) await(sink Sink, idle KeepAliver, watch *watch) error {
	if st.quick.Load() {
		<-st.wake
		return nil
	}
	var tick <-chan time.Time
	if idle != nil {
		timer := st.core.timers.start(st.core.limits.KeepAlive)
		defer st.core.timers.stop(timer)
		tick = timer.C
	}
	select {
	case <-st.wake:
		return nil
	case <-watch.gone():
		return nil
	case now := <-tick:
		watch.always()
		st.bound(sink, now)
		err := idle.KeepAlive()
		st.look(sink)
		if err == nil && st.events {
			err = st.prime(sink)
			st.look(sink)
		}
		return err
	}
}

// take moves the queue to the writer, up to a mark that ends the exchange.
func (st *Stream) take(batch []*Message) (_ []*Message, done bool, reason mcp.DropReason) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if reason = st.stopped(); reason != "" {
		return nil, true, reason
	}
	n := len(st.queue)
	if st.hangUp {
		n = 1 + slices.IndexFunc(st.queue, func(m *Message) bool { return m.hungUp != nil })
	}
	batch, done = st.grab(batch, n)
	return batch, done, ""
}

// grab takes n messages off the queue; done tells that they are the last. It wants st.mu.
func (st *Stream) grab(batch []*Message, n int) (_ []*Message, done bool) {
	batch = append(batch, st.queue[:n]...)
	rest := copy(st.queue, st.queue[n:])
	clear(st.queue[rest:])
	st.queue, st.bytes, st.refused = st.queue[:rest], 0, 0
	for _, m := range st.queue {
		st.bytes += m.Size()
		st.refused += m.refusals()
	}
	st.shrunk()
	for _, m := range batch {
		switch {
		case m.Kind == Answer:
			st.expected--
		case m.hungUp != nil:
			st.hangUp = false
		}
	}
	if st.expected <= 0 && !st.kind.endless() {
		st.ended = true
	}
	return batch, st.ended && rest == 0
}

// flushBytes is how much is written before it is flushed. What the peer has been handed
// has its fate then, although the rest of the batch may wait for a slow reader.
const flushBytes = 64 << 10

// write writes and flushes a batch, and records the fate of each message. done tells
// that the stream ends with it.
func (st *Stream) write(sink Sink, batch []*Message, done bool) error {
	for len(batch) > 0 {
		n, err := st.writeSome(sink, batch, done)
		if err != nil {
			st.lose(batch, done, err)
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// writeSome writes and flushes the first messages of a batch, and returns how many.
func (st *Stream) writeSome(sink Sink, batch []*Message, done bool) (n int, err error) {
	begin := time.Now()
	st.bound(sink, begin)
	bounded, bytes, wrote := begin, 0, false
	for ; n < len(batch) && bytes < flushBytes; n++ {
		m := batch[n]
		if m.Kind == Answer {
			st.core.hooks.at(pointBeforeWrite, m.request)
		}
		if err = st.failure(); err != nil {
			return 0, err // before the claim: a call that is not written may find another stream
		}
		if !m.claim() {
			m.drop(st.core, mcp.DropCancelled)
			batch[n] = nil
			continue
		}
		asked := st.log != nil
		if !asked && (m.Kind != Answer || st.events || st.eager) && st.mayLog() {
			err, asked = st.begin(sink, false), true
		}
		if !st.record(m, done && n == len(batch)-1) && m.Kind == Mark {
			continue // there is no use for it without a log
		}
		if err != nil {
			return 0, err
		}
		if n > 0 || asked { // somebody else was served, or the store was asked
			bounded = st.extend(sink, bounded)
		}
		if err = sink.Write(m); err != nil {
			return 0, err
		}
		bytes += m.Size()
		wrote = true
	}
	if err = st.failure(); err != nil {
		return 0, err
	}
	if wrote {
		st.extend(sink, bounded)
		err = sink.Flush()
	}
	if err != nil {
		return 0, err
	}
	st.written(bytes, begin)
	for _, m := range batch[:n] {
		if m != nil {
			m.sent(st.core)
		}
	}
	return n, nil
}

// written tells the observer of what was flushed.
func (st *Stream) written(bytes int, begin time.Time) {
	took := time.Since(begin)
	st.core.tell("Written", func(o Observer) { o.Written(st.conn, bytes, took) })
}

// lose fails the stream because of a write error, and with it the batch. If the
// stream has failed before, that is the reason, whatever the error looks like;
// only of a lost exchange does the write know more. net/http reports one as lost also
// because a write to it has timed out, and may do so before the write returns. A stream
// with a log goes on without the exchange, and the batch is kept. done tells that it ends
// with it.
func (st *Stream) lose(batch []*Message, done bool, err error) {
	st.mu.Lock()
	reason := st.stopped()
	known := reason != "" && st.failed == ""
	timedOut := st.lost && reason == mcp.DropBrokenPeer && writeReason(err) == mcp.DropWriteTimeout
	st.mu.Unlock()
	if reason == "" || reason == mcp.DropStreamGone && !known || timedOut {
		reason = writeReason(err)
	}
	if w := (*WriteError)(nil); !errors.As(err, &w) {
		st.core.logger.Error("write.unclassified", "transport", st.conn.Transport,
			"type", fmt.Sprintf("%T", err), "error", err)
	}
	if st.kind == byteStream {
		st.Fail(reason)
	} else {
		st.lostBy(st.writer) // the writer may learn it before the transport does
	}
	if reason == mcp.DropWriteTimeout {
		st.core.ledger.limitReached(limits.NameWriteTimeout)
	}
	for i, m := range batch {
		switch {
		case m == nil:
		case st.log != nil && st.reason() == "":
			st.keepMessage(m, done && i == len(batch)-1)
		default:
			m.drop(st.core, reason)
		}
	}
}

// failure is why the writer must not write.
func (st *Stream) failure() error {
	st.mu.Lock()
	reason := st.stopped()
	st.mu.Unlock()
	if reason != "" {
		return &WriteError{Reason: reason, Err: sendError(reason)}
	}
	return nil
}

// stopped is why the exchange that is the writer writes nothing any more, or "". It
// wants st.mu.
func (st *Stream) stopped() mcp.DropReason {
	if st.failed == "" && st.log != nil && st.reader != st.writer {
		return mcp.DropStreamGone
	}
	return st.failed
}

func (st *Stream) reason() mcp.DropReason {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.failed
}

// bound sets the deadline of the write that begins now, unless it is that of a quick answer.
// It does so under st.mu, or the bound of an end that comes at the same moment would be lost.
func (st *Stream) bound(sink Sink, now time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.writing = true
	if !st.quick.Load() {
		st.limitWrite(sink, now)
	}
}

// limitWrite sets the deadline of a write that begins now. It wants st.mu.
func (st *Stream) limitWrite(sink Sink, now time.Time) {
	st.deadline = now.Add(st.core.limits.WriteTimeout)
	if !st.writeEnd.IsZero() && st.writeEnd.Before(st.deadline) {
		st.deadline = st.writeEnd
	}
	if st.log != nil && st.reader != st.writer {
		st.deadline = now // nobody reads it, and somebody else may wait
	}
	sink.SetWriteDeadline(st.deadline)
}

// extend gives each message the time that one write may take, whatever the ones before
// it in the batch have needed. last is when the deadline was set; setting it costs so
// much that a tenth of the time is forgone. It returns when it was set now.
func (st *Stream) extend(sink Sink, last time.Time) time.Time {
	if st.quick.Load() {
		return last // the alarm of the request sees to it
	}
	now := time.Now()
	if now.Sub(last) < st.core.limits.WriteTimeout/10 {
		return last
	}
	st.bound(sink, now)
	return now
}

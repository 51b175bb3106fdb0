package stream

import (
	"errors"
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Pump writes the stream's messages to sink until the stream has ended and is
// empty, or the exchange was closed on purpose (it then returns nil), or fails. It is
// the only writer, and returns [*WriteError] for a failure of the sink and
// [mcp.ErrClosed] or [mcp.ErrPeerGone] if the stream was failed from elsewhere, or its
// exchange was lost.
func (st *Stream) Pump(sink Sink) error {
	if st.cfg.Loss == LossCancels { // such a stream has no other writer
		defer func() { st.host.wakes.put(st.wake) }()
	}
	if !st.Standing() {
		return st.pump(sink, firstReader, nil)
	}
	return st.pump(sink, firstReader, func() error {
		st.bound(sink, time.Now())
		err := st.prime(sink)
		st.look(sink)
		if err != nil {
			return st.lose(nil, false, err)
		}
		return nil
	})
}

// pump makes the exchange with a number the writer. first is called before anything is
// written; nil for an exchange that begins with an answer.
func (st *Stream) pump(sink Sink, number int, first func() error) error {
	watch := st.watch(sink, number)
	defer watch.end()
	if first != nil {
		watch.always()
	}
	if err := st.becomeWriter(number, sink); err != nil {
		return err
	}
	defer st.stopWriting(number)
	if first != nil {
		if err := first(); err != nil {
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
		batch, done, reason = st.next(batch[:0])
		switch {
		case reason != "":
			return SendError(reason)
		case len(batch) == 0 && done:
			return nil
		case len(batch) == 0:
			if err := st.await(sink, idle, watch); err != nil {
				return st.lose(nil, false, err)
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
		if last := batch[len(batch)-1]; last != nil && last.EndsExchange && st.endExchange(last) {
			return nil
		}
	}
}

// look notes that the sink is at rest, and what it has become.
func (st *Stream) look(sink Sink) {
	s, ok := sink.(EventStreamer)
	events := ok && s.EventStream()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.wire.writing, st.wire.events = false, events
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
		timer := time.NewTimer(st.host.Limits.KeepAlive)
		defer timer.Stop()
		tick = timer.C
	}
	st.rest(sink)
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
		if err == nil && st.wire.events {
			st.bound(sink, time.Now())
			err = st.prime(sink)
			st.look(sink)
		}
		return err
	}
}

// write writes and flushes a batch, and tells each message's delivery. done tells
// that the stream ends with it.
func (st *Stream) write(sink Sink, batch []*Message, done bool) error {
	for len(batch) > 0 {
		n, err := st.writeSome(sink, batch, done)
		if err != nil {
			return st.lose(batch, done, err)
		}
		batch = batch[n:]
	}
	return nil
}

// writeSome writes and flushes the first messages of a batch, and returns how many. A client may
// leave as soon as it has the whole answer, which can be before the flush. So an answer that was
// written is flushed whatever has happened to the stream meanwhile, and was sent if that works. If
// the stream has a log, the client may not have all, and may come back.
func (st *Stream) writeSome(sink Sink, batch []*Message, done bool) (n int, err error) {
	begin := time.Now()
	st.bound(sink, begin)
	bounded, bytes, wrote, answered := begin, 0, false, false
	for ; n < len(batch) && bytes < flushBytes; n++ {
		m := batch[n]
		st.host.beforeWrite(m)
		if err = st.failure(); err != nil {
			return 0, err // before the claim: a call that is not written may find another stream
		}
		if !m.Delivery.Claim() {
			m.dropped(mcp.DropCancelled)
			batch[n] = nil
			continue
		}
		var asked bool
		asked, err = st.beginFor(sink, m)
		if !st.record(m, done && n == len(batch)-1, true) && m.Kind == Mark {
			continue // a mark is of no use without a log
		}
		if err != nil {
			return 0, err
		}
		if n > 0 || asked { // another message was written, or the store was asked
			bounded = st.extend(sink, bounded)
		}
		if err = sink.Write(m); err != nil {
			return 0, err
		}
		bytes += m.Size()
		wrote, answered = true, answered || m.Kind == Answer
	}
	if err = st.failure(); err != nil && !(answered && st.logging.log == nil) {
		return 0, err
	}
	if wrote {
		st.extend(sink, bounded)
		err = sink.Flush()
	}
	if err != nil {
		return 0, err
	}
	st.host.Written(st.cfg.Conn, bytes, time.Since(begin))
	for _, m := range batch[:n] {
		if m != nil && m.Kind != Mark { // whose fate endExchange tells
			m.sent()
		}
	}
	return n, nil
}

// lose fails the stream because of a write error, and with it the batch. If the
// stream has failed before, that is the reason, whatever the error looks like;
// only of a lost exchange does the write know more. net/http reports one as lost also
// because a write to it has timed out, and may do so before the write returns. A stream
// with a log goes on without the exchange, and the batch is kept. done tells that it ends
// with it. lose returns what Pump returns: [mcp.ErrPeerGone] if the exchange was taken away, because that has ended the write,
// too, and else the error of the write.
func (st *Stream) lose(batch []*Message, done bool, err error) error {
	st.mu.Lock()
	reason := st.stopped()
	known := reason != "" && st.failed == ""
	timedOut := (st.lost && reason == mcp.DropBrokenPeer || known && st.wire.late) && WriteReason(err) == mcp.DropWriteTimeout
	cutOff := st.cutOff
	st.mu.Unlock()
	if reason == "" || reason == mcp.DropStreamGone && !known || timedOut {
		reason = WriteReason(err)
	}
	if cutOff {
		reason = mcp.DropOverload
	}
	if w := (*WriteError)(nil); !errors.As(err, &w) {
		st.host.Logger.Error("write.unclassified", "transport", st.cfg.Transport,
			"type", fmt.Sprintf("%T", err), "error", err)
	}
	if reason != mcp.DropStreamGone { // else the exchange was taken away
		st.mu.Lock()
		st.exchanges.fail(st.exchanges.writer, reason)
		st.mu.Unlock()
	}
	if st.cfg.Loss == LossFails {
		st.Fail(reason)
	} else {
		st.lostBy(st.exchanges.writer) // the writer may learn it before the transport does
	}
	if reason == mcp.DropWriteTimeout {
		st.host.LimitReached(limits.NameWriteTimeout)
	}
	unconfirmed := reason == mcp.DropBrokenPeer && isUnconfirmed(err)
	for i, m := range batch {
		switch {
		case m == nil:
		case st.logging.log != nil && st.Reason() == "":
			st.store(m, done && i == len(batch)-1)
		case unconfirmed && m.Kind == Answer:
			m.dropped(mcp.DropUnconfirmed)
		default:
			m.dropped(reason)
		}
	}
	if reason == mcp.DropStreamGone {
		return SendError(reason)
	}
	return err
}

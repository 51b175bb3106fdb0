package stream

import (
	"context"
	"errors"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// seats tells which exchange reads a stream, and who writes it. A stream has one writer at
// any time, and only the writer adds to its log: the goroutine of an exchange, or, while there
// is none, one that works off the queue into the log and ends. So nothing comes between what
// was replayed and what follows. All is guarded by Stream.mu; the writer may read writer
// without it.
type seats struct {
	reader  int           // the number of the exchange that reads the stream, or noReader
	readers int           // how many exchanges there have been
	writer  int           // noWriter, keeper, or the number of an exchange
	free    chan struct{} // closed when there is no writer; nil while nobody waits
	closing bool          // a mark in the queue ends the exchange
}

const (
	noReader = 0
	noWriter = 0
	keeper   = -1
)

// Why an exchange cannot read a stream.
var (
	ErrOver  = errors.New("stream: there is nothing to be read")
	ErrTaken = errors.New("mcp: another connection reads this stream")
)

// An Exchange goes on reading a stream with a log whose earlier exchange was lost or closed.
type Exchange struct {
	stream *Stream
	number int
}

// Attach makes an exchange the reader of a stream. The error is [ErrOver] or [ErrTaken].
func (st *Stream) Attach() (*Exchange, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.phase == failed || st.logging.log == nil:
		return nil, ErrOver
	case st.seats.reader != noReader:
		return nil, ErrTaken
	}
	st.seats.readers++
	st.seats.reader = st.seats.readers
	st.alone.Store(false)
	return &Exchange{st, st.seats.readers}, nil
}

// Lost tells the stream that this exchange is gone.
func (x *Exchange) Lost() { x.stream.lostBy(x.number) }

// Pump calls replay as soon as the exchange is the stream's writer, and then goes on like
// [Stream.Pump].
func (x *Exchange) Pump(sink Sink, replay func() error) error {
	return x.stream.pump(sink, x.number, func() error {
		err := replay()
		x.stream.look(sink)
		return err
	})
}

// Replay writes and flushes events that are in the log. Only the function that Pump calls may
// call it.
func (x *Exchange) Replay(sink Sink, events []*Message) error {
	err := x.stream.replay(sink, events)
	if err != nil {
		x.stream.look(sink)
		x.stream.lose(nil, false, err)
	}
	return err
}

func (st *Stream) replay(sink Sink, events []*Message) error {
	n, begin := 0, time.Now()
	for _, m := range events {
		if err := st.failure(); err != nil {
			return err
		}
		st.bound(sink, time.Now())
		if err := sink.Write(m); err != nil {
			return err
		}
		n += m.Size()
	}
	if err := sink.Flush(); err != nil {
		return err
	}
	st.host.Written(st.cfg.Conn, n, time.Since(begin))
	return nil
}

// CloseExchange queues a mark whose EndsExchange is set, if that is of any use: it is not if
// nobody reads the stream, or soon nobody will. The mark's Delivery must be a [Notice]. The
// error is [ErrNotResumable] if the stream cannot be resumed.
func (st *Stream) CloseExchange(m *Message) (queued bool, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if _, err = st.refused(context.Background(), m); err != nil {
		return false, err
	}
	switch {
	case st.logging.never || st.form == answersOnly:
		return false, ErrNotResumable
	case st.logging.log != nil && st.seats.reader == noReader || st.seats.closing:
		return false, nil
	}
	st.append(m)
	st.seats.closing = true
	st.signal()
	return true, nil
}

// Live reports whether an exchange reads the stream.
func (st *Stream) Live() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.phase != failed && (st.logging.log == nil || st.seats.reader != noReader)
}

// Unread reports whether the stream has a log, and no exchange reads it.
func (st *Stream) Unread() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.logging.log != nil && st.seats.reader == noReader
}

// detached reports whether the exchange that is the writer does not read the stream any
// more. The caller must hold st.mu.
func (st *Stream) detached() bool {
	return st.logging.log != nil && st.seats.reader != st.seats.writer
}

// detach takes the exchange with a number away from the stream; false if the stream has
// failed, or another exchange reads it. What it carries goes to the log from now on.
// The caller must hold st.mu.
func (st *Stream) detach(number int) bool {
	if st.phase == failed || st.seats.reader != number {
		return false
	}
	st.leaveReader()
	if st.wire.sink != nil && st.wire.writing {
		st.wire.sink.SetWriteDeadline(time.Now()) // nobody reads what it writes
	}
	return true
}

// leaveReader notes that no exchange reads the stream. The caller must hold st.mu.
func (st *Stream) leaveReader() {
	st.seats.reader = noReader
	st.alone.Store(true)
	grace := st.host.Limits.OrphanGrace
	if grace == 0 || len(st.owners) == 0 {
		return // until their deadline
	}
	readers, owners := st.seats.readers, st.owners
	time.AfterFunc(grace, func() {
		st.mu.Lock()
		back := st.seats.readers != readers
		st.mu.Unlock()
		if back {
			return
		}
		for _, o := range owners {
			o.Disconnect(mcp.DropStreamGone)
		}
		st.Fail(mcp.DropStreamGone)
	})
}

// keepUp is the writer of a stream that nobody reads, if it has something to do and
// no other one. It runs on a goroutine of its own.
func (st *Stream) keepUp() {
	st.mu.Lock()
	start := st.logging.log != nil && st.phase != failed && st.seats.reader == noReader && st.seats.writer == noWriter
	if start {
		st.seats.writer = keeper
	}
	st.mu.Unlock()
	if start {
		st.keepAll()
	}
}

// keepAll works off the queue of a stream that nobody reads. A stream that ends without
// an answer gets a mark that says so.
func (st *Stream) keepAll() {
	defer st.leaveSeat(keeper)
	var batch []*Message
	for {
		var done bool
		st.mu.Lock()
		if st.phase == failed || st.seats.reader != noReader ||
			len(st.messages) == 0 && (st.phase != ended || st.logging.log.Complete()) {
			st.mu.Unlock()
			return
		}
		batch, done = st.grab(batch[:0], len(st.messages))
		st.mu.Unlock()
		if len(batch) == 0 {
			st.record(&Message{Kind: Mark}, true)
		}
		for i, m := range batch {
			st.keep(m, done && i == len(batch)-1)
		}
	}
}

// takeSeat waits until nobody else is the stream's writer and makes an exchange that.
func (st *Stream) takeSeat(number int, sink Sink) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.seats.writer != noWriter {
		if st.seats.free == nil {
			st.seats.free = make(chan struct{})
		}
		free := st.seats.free
		st.mu.Unlock()
		<-free
		st.mu.Lock()
	}
	if st.seats.reader != number { // lost while it waited
		return SendError(mcp.DropStreamGone)
	}
	st.seats.writer, st.wire.sink = number, sink
	return nil
}

// leaveSeat is the end of a writer. What is in the queue of a stream with a log waits for
// nobody; a stream that has ended is forgotten.
func (st *Stream) leaveSeat(writer int) {
	st.mu.Lock()
	st.wire.sink, st.seats.writer = nil, noWriter
	log, free := st.logging.log, st.seats.free
	st.seats.free = nil
	over := false
	if log != nil && st.phase != failed && (st.seats.reader == noReader || st.seats.reader == writer) {
		if over = st.phase == ended && len(st.messages) == 0 && log.Complete(); over {
			st.seats.reader = noReader
		} else if st.seats.reader == writer {
			st.leaveReader()
		}
	}
	again := !over && st.alone.Load() && (st.phase == ended || len(st.messages) > 0)
	st.mu.Unlock()
	if free != nil {
		close(free)
	}
	if over {
		log.Forget()
	}
	if again {
		st.signal()
	}
}

// endExchange ends the exchange that is the writer, as a mark has asked for; false
// if the stream could then not be resumed.
func (st *Stream) endExchange(m *Message) bool {
	if !m.logged {
		m.sent()
		return false
	}
	st.mu.Lock()
	if st.phase != failed && st.seats.reader == st.seats.writer {
		st.leaveReader()
	}
	st.mu.Unlock()
	st.host.Logger.Debug("stream.closed", append(st.logging.log.LogAttrs(), "retry", m.Retry)...)
	m.stored()
	return true
}

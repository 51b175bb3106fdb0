package stream

import (
	"context"
	"errors"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
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
	busy   time.Time // when it has written last
}

// Attach makes an exchange the reader of a stream. The error is [ErrOver] or [ErrTaken].
func (st *Stream) Attach() (*Exchange, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.phase == failed || st.logging.log == nil:
		return nil, ErrOver
	case st.exchanges.reader != noReader:
		return nil, ErrTaken
	}
	st.exchanges.readers++
	st.exchanges.reader = st.exchanges.readers
	st.exchanges.followed = false
	st.alone.Store(false)
	st.readersMoved()
	return &Exchange{stream: st, number: st.exchanges.readers}, nil
}

// Lost tells the stream that this exchange is gone.
func (x *Exchange) Lost() { x.stream.lostBy(x.number) }

// ExchangeFailure is [Stream.ExchangeFailure] of this exchange.
func (x *Exchange) ExchangeFailure() mcp.DropReason { return x.stream.failureOf(x.number) }

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
	x.busy = time.Now()
	err := x.stream.replay(sink, events)
	x.stream.look(sink)
	if err != nil {
		return x.stream.lose(nil, false, err)
	}
	return nil
}

// Await waits until one of two channels has something, at most until the time, and meanwhile keeps the
// connection alive. Only the function that Pump calls may call it. The error says that the exchange is lost, or
// the stream has failed.
func (x *Exchange) Await(sink Sink, news, over <-chan struct{}, until time.Time) error {
	st, now := x.stream, time.Now()
	if x.busy.IsZero() {
		x.busy = now
	}
	var alive <-chan time.Time
	idle, ok := sink.(KeepAliver)
	if ok {
		timer := time.NewTimer(x.busy.Add(st.host.Limits.KeepAlive).Sub(now))
		defer timer.Stop()
		alive = timer.C
	}
	timer := time.NewTimer(until.Sub(now))
	defer timer.Stop()
	st.rest(sink)
	select {
	case <-news:
	case <-over:
	case <-timer.C:
	case <-st.wake:
	case now = <-alive:
		st.bound(sink, now)
		x.busy = now
		err := idle.KeepAlive()
		st.look(sink)
		if err != nil {
			return st.lose(nil, false, err)
		}
	}
	return st.failure()
}

// lastWrite is how long the write of an exchange may still last that is ended while its client reads it. A client that
// reads sees the end of the stream then, and not a broken connection.
const lastWrite = time.Second

// EndReader ends the exchange that reads the stream, and reports whether there is one. A stream with a log goes on,
// and what it carries waits for the next exchange. Another one ends when the writer has finished what is queued.
func (st *Stream) EndReader() (ends bool) {
	st.mu.Lock()
	switch {
	case st.phase == failed:
	case st.logging.log == nil:
		st.enter(ended)
		ends = true
	case st.exchanges.reader != noReader:
		ends = st.detachBy(st.exchanges.reader, time.Now().Add(lastWrite))
	}
	st.mu.Unlock()
	st.signal()
	return ends
}

// Followed notes that another process reads the stream from its log, and ends the exchange that has read it
// here. It returns false if there is no log.
func (st *Stream) Followed() bool {
	st.mu.Lock()
	followed := st.phase != failed && st.logging.log != nil
	if followed {
		if st.exchanges.reader != noReader {
			st.detach(st.exchanges.reader)
		}
		st.exchanges.readers++ // it counts as one that has come back
		st.exchanges.followed = true
		st.readersMoved()
	}
	st.mu.Unlock()
	if followed {
		st.signal()
	}
	return followed
}

// Unfollowed notes that the other process does not read the stream any more.
func (st *Stream) Unfollowed() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.exchanges.followed = false
	st.readersMoved()
	if st.phase != failed && st.logging.log != nil && st.exchanges.reader == noReader {
		st.detachReader(0)
	}
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
	case st.logging.log != nil && st.exchanges.reader == noReader || st.exchanges.closing:
		return false, nil
	}
	st.append(m)
	st.exchanges.closing = true
	st.signal()
	return true, nil
}

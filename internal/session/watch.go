package session

import (
	"context"
	"time"
)

// quickAnswer is the time in which nearly all answers come. While the writer of an exchange
// waits for one that may be quick, it waits for nothing else: that a peer has gone, or should
// be shown a sign of life, it looks after only from then on. A quick answer that is small needs no
// deadline either, as the alarm of its request, which sets one, goes on until it is written.
const quickAnswer = 5 * time.Millisecond

// A watch tells a stream that the peer of its exchange is gone. Usually the writer sees
// that itself while it waits for the answer. Once it may be busy for longer (with a slow
// reader, or a store) somebody else has to look, which costs more: see always.
type watch struct {
	stream *Stream
	reader int             // the number of the exchange
	peer   context.Context // done when the peer is gone; nil if the writer need not look
	stop   func() bool     // ends the watch of somebody else, or nil
}

// watch returns the watch of an exchange, which must be ended.
func (st *Stream) watch(sink Sink, reader int) watch {
	w := watch{stream: st, reader: reader}
	if s, ok := sink.(Watcher); ok {
		w.peer = s.Gone()
	}
	return w
}

// look tells the stream if the peer is gone.
func (w *watch) look() {
	if w.peer != nil && w.peer.Err() != nil {
		w.peer = nil // once is enough
		w.stream.lostBy(w.reader)
	}
}

// gone is closed when the peer is gone; nil if the writer need not look.
func (w *watch) gone() <-chan struct{} {
	if w.peer == nil {
		return nil
	}
	return w.peer.Done()
}

// always has the stream told at once from now on, whatever the writer does.
func (w *watch) always() {
	if w.peer != nil {
		stream, reader := w.stream, w.reader
		w.stop = context.AfterFunc(w.peer, func() { stream.lostBy(reader) })
		w.peer = nil
	}
}

// end is called when the writer has left the exchange.
func (w *watch) end() {
	if w.stop != nil {
		w.stop()
	}
}

// slow tells the stream that its answer is not a quick one, and the writer, even if it is
// writing it.
func (st *Stream) slow() {
	st.mu.Lock()
	quick := st.quick.Swap(false)
	if quick && st.sink != nil && st.writing {
		st.limitWrite(st.sink, time.Now())
	}
	st.mu.Unlock()
	if quick {
		st.signal()
	}
}

package stream

import "context"

// A watch tells a stream that the peer of its exchange is gone. Usually the writer sees
// that itself while it waits for the answer. Once it may be busy for longer (with a slow
// reader, or a store) the context has to call, which costs more: see always. The plain version is
// always from the start.
type watch struct {
	stream *Stream
	number int             // of the exchange
	peer   context.Context // done when the peer is gone; nil if the writer need not look
	stop   func() bool     // ends the call of the context, or nil
}

// watch returns the watch of an exchange, which must be ended.
func (st *Stream) watch(sink Sink, number int) watch {
	w := watch{stream: st, number: number}
	if s, ok := sink.(Watcher); ok {
		w.peer = s.Gone()
	}
	return w
}

// look tells the stream if the peer is gone.
func (w *watch) look() {
	if w.peer != nil && w.peer.Err() != nil {
		w.peer = nil // once is enough
		w.stream.lostBy(w.number)
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
		stream, number := w.stream, w.number
		w.stop = context.AfterFunc(w.peer, func() { stream.lostBy(number) })
		w.peer = nil
	}
}

// end is called when the writer has left the exchange.
func (w *watch) end() {
	if w.stop != nil {
		w.stop()
	}
}

package session

import "context"

// A watch tells a stream that the peer of its exchange is gone. Usually the writer sees
// that itself while it waits for the answer. Once it may be busy for longer (with a slow
// reader, or a store) somebody else has to look, which costs more: see always.
type watch struct {
	stream *Stream
	reader int // the number of the exchange
	peer   context.Context
	gone   <-chan struct{} // closed when the peer is gone; nil if the writer need not look
	stop   func() bool     // ends the watch of somebody else, or nil
}

// watch returns the watch of an exchange, which must be ended.
func (st *Stream) watch(sink Sink, reader int) watch {
	w := watch{stream: st, reader: reader}
	if s, ok := sink.(Watcher); ok {
		w.peer = s.Gone()
		w.gone = w.peer.Done()
	}
	return w
}

// look tells the stream if the peer is gone.
func (w *watch) look() {
	select {
	case <-w.gone:
		w.gone = nil // once is enough
		w.stream.lostBy(w.reader)
	default:
	}
}

// always has the stream told at once from now on, whatever the writer does.
func (w *watch) always() {
	if w.gone != nil {
		w.gone = nil
		stream, reader := w.stream, w.reader
		w.stop = context.AfterFunc(w.peer, func() { stream.lostBy(reader) })
	}
}

// end is called when the writer has left the exchange.
func (w *watch) end() {
	if w.stop != nil {
		w.stop()
	}
}

package stream

import "github.com/vitrine-mcp/vitrine/mcp"

// startStoring is the writer of a stream that nobody reads, if it has something to do and
// no other one. It runs on a goroutine of its own.
func (st *Stream) startStoring() {
	st.mu.Lock()
	start := st.logging.log != nil && st.phase != failed && st.exchanges.reader == noReader && st.exchanges.writer == noWriter
	if start {
		st.exchanges.writer = storer
	}
	st.mu.Unlock()
	if start {
		st.storeAll()
	}
}

// storeAll works off the queue of a stream that nobody reads. A stream that ends without
// an answer gets a mark that says so.
func (st *Stream) storeAll() {
	defer st.stopWriting(storer)
	var batch []*Message
	for {
		var done bool
		st.mu.Lock()
		if st.phase == failed || st.exchanges.reader != noReader ||
			len(st.messages) == 0 && (st.phase != ended || st.logging.log.Complete()) {
			st.mu.Unlock()
			return
		}
		batch, done = st.grab(batch[:0], len(st.messages))
		st.mu.Unlock()
		if len(batch) == 0 {
			st.record(&Message{Kind: Mark, Delivery: Unobserved}, true, false)
		}
		for i, m := range batch {
			st.store(m, done && i == len(batch)-1)
		}
	}
}

// store stores one message of a stream that nobody reads here. A call of a standing stream waits
// for a client instead, unless that reads the stream in another process: nobody knows whether one comes
// back for this stream, or opens another.
func (st *Stream) store(m *Message, last bool) {
	switch {
	case m.logged, m.EndsExchange: // nobody reads the stream any more
		m.stored()
	case m.Kind == Call && st.Standing() && !st.Read():
		m.dropped(mcp.DropStreamGone)
	case !m.Delivery.Claim():
		m.dropped(mcp.DropCancelled)
	default:
		st.host.beforeWrite(m)
		if st.record(m, last, false) {
			m.stored()
		} else {
			m.dropped(st.Reason())
		}
	}
}

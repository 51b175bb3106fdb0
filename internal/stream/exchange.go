package stream

import "github.com/vitrine-mcp/vitrine/mcp"

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
		m.Delivery.Sent()
		return false
	}
	st.mu.Lock()
	if st.phase != failed && st.seats.reader == st.seats.writer {
		st.leaveReader()
	}
	st.mu.Unlock()
	st.host.Logger.Debug("stream.closed", append(st.logging.log.LogAttrs(), "retry", m.Retry)...)
	m.Delivery.Stored()
	return true
}

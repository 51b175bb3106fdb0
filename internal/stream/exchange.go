package stream

import "github.com/vitrine-mcp/vitrine/mcp"

// ExchangeFailure returns why the exchange that the stream was made for was lost, or why the stream has failed;
// "" if it is neither, or if another exchange has taken its place. A stream with a log goes on without it.
func (st *Stream) ExchangeFailure() mcp.DropReason { return st.failureOf(firstReader) }

// failureOf is ExchangeFailure for the exchange with a number.
func (st *Stream) failureOf(number int) mcp.DropReason {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.exchanges.failed == number {
		return st.exchanges.failure
	}
	return st.failed
}

// fail notes the failure of the exchange with a number. The first one stays. The caller must hold st.mu.
func (x *exchanges) fail(number int, reason mcp.DropReason) {
	if x.failed != number {
		x.failed, x.failure = number, reason
	}
}

// becomeWriter waits until the stream has no writer, and makes an exchange the writer.
func (st *Stream) becomeWriter(number int, sink Sink) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.exchanges.writer != noWriter {
		if st.exchanges.free == nil {
			st.exchanges.free = make(chan struct{})
		}
		free := st.exchanges.free
		st.mu.Unlock()
		<-free
		st.mu.Lock()
	}
	if st.exchanges.reader != number { // lost while it waited
		return SendError(mcp.DropStreamGone)
	}
	st.exchanges.writer, st.wire.sink, st.wire.late = number, sink, false
	return nil
}

// stopWriting is the end of a writer. What is in the queue of a stream with a log waits for
// nobody; a stream that has ended is forgotten.
func (st *Stream) stopWriting(writer int) {
	st.mu.Lock()
	st.wire.sink, st.wire.limited, st.exchanges.writer = nil, nil, noWriter
	log, free := st.logging.log, st.exchanges.free
	st.exchanges.free = nil
	over := false
	if log != nil && st.phase != failed && (st.exchanges.reader == noReader || st.exchanges.reader == writer) {
		if over = st.phase == ended && len(st.messages) == 0 && log.Complete(); over {
			st.exchanges.reader = noReader
		} else if st.exchanges.reader == writer {
			st.detachReader(0)
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
	if st.phase != failed && st.exchanges.reader == st.exchanges.writer {
		st.detachReader(m.Retry)
	}
	st.mu.Unlock()
	st.host.Logger.Debug("stream.closed", append(st.logging.log.LogAttrs(), "retry", m.Retry)...)
	m.stored()
	return true
}

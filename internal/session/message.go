package session

import (
	"context"
	"errors"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A MessageKind is what an outgoing message is.
type MessageKind uint8

const (
	Answer       MessageKind = iota // to a request of the client
	Notification                    // one-way
	Call                            // a request to a legacy client
	Mark                            // no message: an event with an id and empty data
)

// A Message is one outgoing frame. It belongs to the stream's writer once it was
// queued.
type Message struct {
	Kind   MessageKind
	each   bool   // a notification that is told as often as it was said, see repeats
	logged bool   // it is in the event store
	shown  bool   // an event store was given it, and may have it still
	Frame  []byte // one JSON-RPC message on one line, without the newline
	Rest   []byte // the end of the frame, if other messages share it; it must not be changed
	Method string // of a notification or a call
	// Err is the error of an answer, from which HTTP takes its status; nil for a result.
	Err *mcp.Error
	// Reject is set when the answer refuses a request that was never admitted.
	Reject mcp.RejectReason
	// EventID is the id of the event, or "" in a stream that cannot be resumed.
	EventID string
	// Retry is for a mark: how long the client should wait before it comes back for the
	// rest, as the exchange ends here. 0 says nothing about it.
	Retry time.Duration

	key     string   // notifications of one request with one key may replace each other
	request *Request // the request whose fate or validity hangs on the message, or nil
	call    *outbound
	hungUp  chan error // of a mark that ends the exchange: how that has gone; capacity 1
	done    func()     // of a notification: called once, when it was written, stored or dropped; or nil
	batch   *batch     // in whose array the answer leaves, or nil
	parts   []*Message // the answers in an array
}

// Size returns the size of the message in bytes.
func (m *Message) Size() int { return len(m.Frame) + len(m.Rest) }

// whole returns the frame in one piece.
func (m *Message) whole() []byte {
	if len(m.Rest) == 0 {
		return m.Frame
	}
	return append(append(make([]byte, 0, m.Size()), m.Frame...), m.Rest...)
}

// A Sink is the wire end of a stream. Only the stream's writer calls Write and
// Flush, from one goroutine; SetWriteDeadline may come from another one and must
// bound even a Write that blocks already.
type Sink interface {
	// Write takes a message; it may buffer.
	Write(m *Message) error
	// Flush hands everything to the kernel.
	Flush() error
	// SetWriteDeadline bounds the writes and flushes that follow.
	SetWriteDeadline(t time.Time)
}

// A KeepAliver is a [Sink] that can show a sign of life while there is nothing to
// write, so that proxies keep the connection.
type KeepAliver interface{ KeepAlive() error }

// A Watcher is a [Sink] that learns without a write that its peer is gone.
type Watcher interface {
	// Gone returns a context that is done then.
	Gone() context.Context
}

// An EventStreamer is a [Sink] that can become an event stream. Only the stream's
// writer calls EventStream.
type EventStreamer interface {
	// EventStream reports whether it has become one. If it cannot be resumed, an answer
	// that only says that the client has cancelled is not sent: the stream ends without.
	EventStream() bool
}

// A WriteError is an error of a [Sink] that the transport has classified.
type WriteError struct {
	Reason mcp.DropReason // broken_peer, closed_writer or write_timeout
	Err    error
}

// Error returns the reason and the error behind it.
func (e *WriteError) Error() string { return string(e.Reason) + ": " + e.Err.Error() }

// Unwrap returns the error behind the reason.
func (e *WriteError) Unwrap() error { return e.Err }

// writeReason returns the class of a sink's error. What no transport has
// classified counts as a broken peer; lose makes it visible.
func writeReason(err error) mcp.DropReason {
	var w *WriteError
	if errors.As(err, &w) {
		return w.Reason
	}
	return mcp.DropBrokenPeer
}

// claim is the writer's last look at a message before it writes it; false if the
// message was withdrawn: a notification of a request whose client wants nothing
// more, a call that nobody waits for.
func (m *Message) claim() bool {
	switch {
	case m.call != nil:
		return m.call.handed.CompareAndSwap(callQueued, callHanded)
	case m.Kind == Notification && m.request != nil:
		return m.request.verdict.outcome() != suppressed && !m.request.verdict.byClient()
	}
	return true
}

// sent records that the message was handed to the kernel.
func (m *Message) sent(c *Core) {
	for _, part := range m.parts {
		part.sent(c)
	}
	if m.done != nil {
		m.done()
	}
	if m.Kind == Answer && m.request != nil {
		c.hooks.at(pointAfterFlush, m.request)
		m.request.conclude(FateSent, "")
		if !m.shown && m.batch == nil && m.request.buffer != nil {
			c.frames.put(m.request.buffer, m.Frame)
		}
	}
}

// kept records that the message is in the event store, and the client may come for it.
func (m *Message) kept(c *Core) {
	for _, part := range m.parts {
		part.kept(c)
	}
	switch {
	case m.Kind == Mark:
		m.hang(nil)
	case m.done != nil:
		m.done()
	case m.Kind == Answer && m.request != nil:
		c.hooks.at(pointAfterFlush, m.request)
		m.request.conclude(FateStored, "")
	}
}

// hang tells who wanted the exchange to end how that has gone.
func (m *Message) hang(err error) {
	if m.hungUp != nil {
		m.hungUp <- err
	}
}

// drop records that the message will not be sent. That its client has cancelled the
// request is the better reason than what the wire then said.
func (m *Message) drop(c *Core, reason mcp.DropReason) {
	for _, part := range m.parts {
		part.drop(c, reason)
	}
	switch {
	case m.Kind == Notification:
		if m.request != nil {
			reason = m.request.noticeReason(reason)
		}
		c.dropNotification(m.request, m.Method, reason)
		if m.done != nil {
			m.done()
		}
	case m.Kind == Mark:
		m.hang(sendError(reason))
	case m.call != nil:
		m.call.dropped(reason)
	case m.request != nil:
		m.request.conclude(FateDropped, reason)
	}
}

// sendError is what a handler sees of a failed stream.
func sendError(reason mcp.DropReason) error {
	switch reason {
	case mcp.DropClosedWriter, mcp.DropSessionGone:
		return mcp.ErrClosed
	}
	return mcp.ErrPeerGone
}

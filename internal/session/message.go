package session

import (
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
)

// A Message is one outgoing frame. It belongs to the stream's writer once it was
// queued.
type Message struct {
	Kind   MessageKind
	Frame  []byte // one JSON-RPC message on one line, without the newline
	Method string // of a notification or a call
	// Err is the error of an answer, from which HTTP takes its status; nil for a result.
	Err *mcp.Error
	// Reject is set when the answer refuses a request that was never admitted.
	Reject mcp.RejectReason

	key     string   // notifications of one request with one key may replace each other
	request *Request // the request whose fate or validity hangs on the message, or nil
	call    *outbound
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

// An EventStreamer is a [Sink] that can become an event stream which cannot be
// resumed. Only the stream's writer calls EventStream.
type EventStreamer interface {
	// EventStream reports whether it has become one. An answer that only says that the
	// client has cancelled is then not sent: the stream ends without it.
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
	if m.Kind == Answer && m.request != nil {
		c.hooks.at(pointAfterFlush, m.request)
		m.request.conclude(FateSent, "")
	}
}

// drop records that the message will not be sent. That its client has cancelled the
// request is the better reason than what the wire then said.
func (m *Message) drop(c *Core, reason mcp.DropReason) {
	switch {
	case m.Kind == Notification:
		if m.request != nil && m.request.verdict.byClient() {
			reason = mcp.DropCancelled
		}
		c.dropNotification(m.request, m.Method, reason)
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

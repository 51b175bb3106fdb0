// Package stream carries messages to a peer in order: it has the queue of a stream, the one
// writer that works it off, and the arrays in which the answers of a batch leave together.
// It knows no session and no request: what a message is about learns its fate through a
// [Delivery], and what the core gives to all streams is a [Host].
package stream

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
	Call                            // a request to the client
	Mark                            // no message: an event with an id and empty data
)

// A Message is one outgoing frame. It belongs to the stream's writer once it was
// queued.
type Message struct {
	Kind   MessageKind
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
	// Key is for a notification: it replaces one with the same key that waits in a full queue.
	Key Key
	// Once is for a notification that is posted: while nobody reads the stream, one of several
	// equal ones is enough.
	Once bool
	// EndsExchange is for a mark: the exchange ends after it.
	EndsExchange bool
	// Delivery learns what becomes of the message. It must not be nil.
	Delivery Delivery

	charged charge
	logged  bool // it is in the log
	shown   bool // the log was given it, and its store may have it still
}

// A Key tells which notifications may replace each other. Without a name it is none.
type Key struct {
	Of   any // what the notification is about: a pointer, or nil
	Name string
}

// A Delivery is told what becomes of a message: exactly one of Sent, Stored and Dropped is
// called, once. The stream calls it without holding a lock.
type Delivery interface {
	// Claim is the writer's last look at the message before it is written; false if it was
	// taken back or is not valid any more.
	Claim() bool
	// Sent: the message was handed to the kernel and flushed.
	Sent()
	// Stored: the message is in the log, and the client may come for it.
	Stored()
	// Dropped: the message will not be sent.
	Dropped(reason mcp.DropReason)
}

// A Notice is the [Delivery] of a notification, which may be refused a place in the queue.
type Notice interface {
	Delivery
	// Refused says why the notification cannot be queued any more; the error is nil if it can.
	// failed is why the stream has failed, or "", and ended tells that it takes nothing more.
	// Refused is called with the stream's lock held.
	Refused(ctx context.Context, failed mcp.DropReason, ended bool) (mcp.DropReason, error)
}

// Size returns the size of the message in bytes.
func (m *Message) Size() int { return len(m.Frame) + len(m.Rest) }

// Shown reports whether an event store was given the frame, which it may have still.
func (m *Message) Shown() bool { return m.shown }

// whole returns the frame in one piece.
func (m *Message) whole() []byte {
	if len(m.Rest) == 0 {
		return m.Frame
	}
	return append(append(make([]byte, 0, m.Size()), m.Frame...), m.Rest...)
}

// Unobserved is the [Delivery] of a message whose fate nobody needs to know: a mark, or the
// answer to what was not admitted.
var Unobserved Delivery = unobserved{}

type unobserved struct{}

func (unobserved) Claim() bool            { return true }
func (unobserved) Sent()                  {}
func (unobserved) Stored()                {}
func (unobserved) Dropped(mcp.DropReason) {}

// An aggregate is a [Delivery] of several answers.
type aggregate interface {
	// sums returns how many of them answer admitted requests, and the bytes of the others.
	sums() (admitted, rejections int)
}

// count returns how many answers to admitted requests the message carries, and how many of its
// bytes answer what was not admitted.
func (m *Message) count() (admitted, rejections int) {
	if all, ok := m.Delivery.(aggregate); ok {
		return all.sums()
	}
	switch {
	case m.Kind != Answer:
		return 0, 0
	case m.Delivery == Unobserved:
		return 0, m.Size()
	}
	return 1, 0
}

// A WriteError is an error of a [Sink] that the transport has classified.
type WriteError struct {
	Reason mcp.DropReason // broken_peer, closed_writer or write_timeout
	Err    error
	// Unconfirmed tells, of a failed flush, that the peer may have all the messages before it: what failed are
	// bytes behind them.
	Unconfirmed bool
}

// Error returns the reason and the error behind it.
func (e *WriteError) Error() string { return string(e.Reason) + ": " + e.Err.Error() }

// Unwrap returns the error behind the reason.
func (e *WriteError) Unwrap() error { return e.Err }

// WriteReason returns the class of a sink's error. What no transport has classified counts
// as a broken peer.
func WriteReason(err error) mcp.DropReason {
	var w *WriteError
	if errors.As(err, &w) {
		return w.Reason
	}
	return mcp.DropBrokenPeer
}

// isUnconfirmed reports whether the peer may have what was written.
func isUnconfirmed(err error) bool {
	w := (*WriteError)(nil)
	return errors.As(err, &w) && w.Unconfirmed
}

// SendError returns what a handler sees of a stream that has failed.
func SendError(reason mcp.DropReason) error {
	switch reason {
	case mcp.DropClosedWriter, mcp.DropSessionGone:
		return mcp.ErrClosed
	}
	return mcp.ErrPeerGone
}

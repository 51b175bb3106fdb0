package stream

import (
	"context"
	"time"
)

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

// An IdleResetter is a [Sink] whose exchange may end when the write deadline passes while nothing is written.
type IdleResetter interface {
	// ResetsWhenIdle reports whether that is so.
	ResetsWhenIdle() bool
}

// An EventStreamer is a [Sink] that can become an event stream. Only the stream's
// writer calls EventStream.
type EventStreamer interface {
	// EventStream reports whether it has become one. If it cannot be resumed, an answer
	// that only says that the client has cancelled is not sent: the stream ends without.
	EventStream() bool
}

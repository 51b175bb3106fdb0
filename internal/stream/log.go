package stream

import (
	"errors"
	"fmt"
)

// This file is about streams that can be resumed. Such a stream has a log: each of its
// events has an id and is added to the log before it is written. When the exchange is lost,
// the stream goes on without one, and what it carries goes to the log alone, until a client
// comes for it (see [Stream.Attach]) or the stream has ended.

// A Log keeps the events of one stream. The stream's writer alone calls Append; the other
// methods must be safe for concurrent use.
type Log interface {
	// Append adds an event and returns its id. last says that none follows, and written that it
	// is written to a connection next. Without data the event is a mark. After an error the stream
	// has no log any more; there is an id if the log may have the event nevertheless.
	Append(data []byte, last, written bool) (id string, err error)
	// Marks reports whether the client knows events without data.
	Marks() bool
	// Complete reports whether no event follows those that are there.
	Complete() bool
	// Forget is called when the stream is over, or cannot be resumed any more.
	Forget()
	// LogAttrs returns the fields by which log lines name the stream.
	LogAttrs() []any
}

// An Opener opens the logs of the streams of one session. It must be safe for concurrent use.
type Opener interface {
	// Open returns the log of a stream, or nil if its client cannot resume it. If primed is
	// set, the client must know events without data.
	Open(st *Stream, primed bool) Log
	// Resumes reports whether the client can resume streams at all.
	Resumes() bool
}

// ErrNotResumable is the error of [Stream.CloseExchange].
var ErrNotResumable = fmt.Errorf("mcp: the response to this request cannot be closed before its end: %w", errors.ErrUnsupported)

package store

import (
	"context"
	"errors"
)

// An EventStore stores the events of legacy HTTP sessions, so that a client that has lost its
// connection can get the rest of a stream (specification 2025-11-25: "Resumability and
// Redelivery").
//
// It must be safe for concurrent use. For one stream, Append is never called by two
// goroutines at once, and each call has returned before the next one begins. For one
// session, Append and After may run at the same time, also for the same stream.
//
// The context of each call ends after the limit event_timeout (default 1 s). An
// implementation that blocks must return then. After an error or a panic the stream can no
// longer be resumed, but the request goes on. The server counts the failure
// (vitrine_event_store_failures_total) and logs it (events.failed). A client that asks for
// events while After fails gets the status 429.
//
// The limits max_events, max_event_bytes and max_event_bytes_total apply to the default
// store only. Another one needs bounds of its own. It may delete any event at any time,
// the oldest of a stream first.
type EventStore interface {
	// Append stores the next event of a stream. Once Append has returned nil, After must
	// find the event: the server sends it to the client only after that.
	//
	// session is a digest of the session's id, 32 letters and digits, because the id itself
	// is a credential. The store may keep the event's data without a copy, and must not
	// change it.
	//
	// After an error nothing more is appended to the stream. The error for an event that
	// is too large for the store must match [ErrEventTooLarge], which does not count as a
	// failure of the store.
	Append(ctx context.Context, session string, e Event) error
	// After returns the events of a stream whose number is greater than seq, by
	// increasing number, as they were appended. It returns no events and no error for
	// an unknown session or stream. It need not look for gaps: the server refuses to resume
	// a stream with a missing event. The caller owns the slice, and does not change the data
	// of the events.
	After(ctx context.Context, session, stream string, seq uint64) ([]Event, error)
	// Delete deletes all events of a session that has ended. Nothing is appended for it
	// afterwards. Delete is called at most once for a session, and not at all when the
	// process dies: a store that outlives the process must delete old events by itself.
	Delete(ctx context.Context, session string) error
}

// An Event is one event of a stream, as the client sees it.
type Event struct {
	// Stream is the name of the stream, unique in its session: a few digits, or at most 64 letters,
	// digits and dots in an [EventLog].
	Stream string
	// Seq is the number of the event in its stream, from 1 on and without gaps.
	Seq uint64
	// Data is one JSON-RPC message. It is empty for an event that only has a number,
	// from which a client can resume.
	Data []byte
	// Last is true for the last event of a stream. It must be stored: without it the
	// server does not know that the stream is complete.
	Last bool
	// Note is what another replica must know of the stream. Only an [EventLog] stores it.
	Note []byte
}

// ErrEventTooLarge is matched by the error of an [EventStore] that has no room for an
// event even if it deletes all others.
var ErrEventTooLarge = errors.New("store: the event is too large for the event store")

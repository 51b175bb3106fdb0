package store

import (
	"context"
	"errors"
)

// An EventStore keeps what the event streams of legacy HTTP sessions carry, so that a
// client whose connection was lost can have the rest (specification 2025-11-25:
// "Resumability and Redelivery").
//
// It must be safe for concurrent use. For one stream, Append is never called by two
// goroutines at once, and each call has returned before the next one begins. For one
// session, Append and After may run at the same time, also for the same stream.
//
// The context of each call ends after the limit event_timeout (default 1 s). An
// implementation that blocks must return then. An error or a panic costs the stream its
// resumability and nothing else: the server counts it
// (vitrine_event_store_failures_total), logs it (events.failed), and the request goes on.
// A client that asks for events while After fails is answered with the status 503.
//
// The limits max_events, max_event_bytes and max_event_bytes_total bound the default
// store alone. Another one needs bounds of its own: it may let go of any event at any
// time, the oldest of a stream first.
type EventStore interface {
	// Append keeps an event, the next one of its stream. When it returns nil, the event
	// is what After finds from then on: the client is sent the event only after that.
	//
	// The session is named by a digest of its id, 32 letters and digits, since the id
	// itself is a credential. The store may keep the event's data without a copy, and
	// must not change it.
	//
	// After an error nothing more is appended to the stream. The error for an event that
	// is too large for the store must match [ErrEventTooLarge]: it is no failure of the
	// store and is not counted as one.
	Append(ctx context.Context, session string, e Event) error
	// After returns the events of a stream whose number is greater than seq, by
	// increasing number, as they were appended. It returns no events and no error for
	// a session or a stream that it does not know. It need not look for gaps: the server
	// refuses a client for which an event is missing. The caller does not change the
	// data of the events, and keeps the slice.
	After(ctx context.Context, session, stream string, seq uint64) ([]Event, error)
	// Delete lets go of all that is kept for a session that has ended. Nothing is
	// appended for it afterwards. Delete is called at most once for a session, and not at
	// all when the process dies: what outlives the process needs a time after which it
	// goes by itself.
	Delete(ctx context.Context, session string) error
}

// An Event is one event of a stream, as the client sees it.
type Event struct {
	// Stream is the name of the stream, unique in its session: a few digits.
	Stream string
	// Seq is the number of the event in its stream, from 1 on and without gaps.
	Seq uint64
	// Data is one JSON-RPC message. It is empty for an event that only has a number,
	// from which a client can resume.
	Data []byte
	// Last tells that the stream ends with this event. It must be kept: without it the
	// server does not know that nothing is missing.
	Last bool
}

// ErrEventTooLarge is matched by the error of an [EventStore] that has no room for an
// event even if it lets go of all others.
var ErrEventTooLarge = errors.New("store: the event is too large for the event store")

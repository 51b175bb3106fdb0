package store

import (
	"context"
	"errors"
	"time"
)

// An EventLog keeps the events of legacy sessions for all replicas of a server, so that a client which has
// lost its connection gets the rest of a stream from any of them. It is an [EventStore] that several
// processes use, with the bounds of the one that appends. It must be safe for concurrent use by several
// processes.
//
// Each stream has one writer, and numbers without gaps. This is what keeps a log honest: an event is
// appended only after the one before it. A writer that another one has overtaken, or whose last events the
// store has lost, such as in a failover, is refused with [ErrEventFenced]. What a log has of a stream is
// always the beginning of what its writer has sent, so that no reader misses an event between two others.
//
// Names of sessions have 32 letters and digits, names of streams at most 64 letters, digits and dots. The
// context of each call has a deadline. An implementation that blocks must return then.
type EventLog interface {
	// Append adds an event in one atomic step, within the bounds. To make room it deletes the oldest
	// events of the session, and returns them. The error matches [ErrEventFenced] if the last event of
	// the stream has another number than e.Seq-1, or, when e.Seq is not 1, the log does not have the
	// stream. It matches [ErrEventTooLarge] if the event alone is over the bounds. After another error
	// the event may be in the log or not.
	Append(ctx context.Context, session string, e Event, b EventBounds) ([]EvictedEvent, error)
	// After returns the events of a stream whose number is greater than seq, by increasing number. It
	// returns none, and no error, for an unknown session or stream. The caller owns the slice.
	After(ctx context.Context, session, stream string, seq uint64) ([]Event, error)
	// Delete deletes all events of a session.
	Delete(ctx context.Context, session string) error
}

// EventBounds are the bounds of what a log keeps of one session.
type EventBounds struct {
	// Events is how many events it keeps, Bytes how many bytes: of their data and notes, with
	// [EventOverhead] for each event.
	Events, Bytes int
	// Life is how long it keeps them after the last one was appended.
	Life time.Duration
}

// EventOverhead is about what an event takes beside its data, in bytes.
const EventOverhead = 256

// An EvictedEvent is one that an [EventLog] has deleted to make room.
type EvictedEvent struct {
	Stream string
	Seq    uint64
	// ByBytes says that it was deleted because of [EventBounds].Bytes, and not of Events.
	ByBytes bool
}

// ErrEventFenced says that the log does not have the event before the one that is appended, or has another
// one in its place.
var ErrEventFenced = errors.New("store: the log of the stream has another end")

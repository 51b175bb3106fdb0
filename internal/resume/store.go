// Package resume lets the clients of legacy sessions go on reading a stream whose connection
// was lost: it keeps the events of streams in an event store, and replays them to the exchange
// that comes back.
package resume

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// An Operation is an operation of the event store.
type Operation uint8

// The operations, by which failures are counted.
const (
	OpAppend Operation = iota
	OpReplay
	OpDelete
	NumOperations
)

var operations = [NumOperations]string{"append", "replay", "delete"}

// String returns the name under which the failures of the operation are counted.
func (o Operation) String() string { return operations[o] }

// Operations lists the names of the operations.
func Operations() []string { return operations[:] }

// A Store is the event store of one core. Its functions must not be nil.
type Store struct {
	Events       store.EventStore
	Limits       limits.Limits
	Logger       *slog.Logger
	LimitReached func(name string)  // counts a limit that was reached
	Failed       func(op Operation) // counts a failed operation
	// Fetched counts stored answers that were replayed. Expired is told of those that no client
	// can fetch any more, with the values of [Log.NoteUnread].
	Fetched func(answers int)
	Expired func(reason mcp.ExpireReason, answers []any)
	Go      func(f func()) // runs background work, for which the core's end waits

	lines logline.Limiter
}

// call runs one operation of the store, for a stream or for all: bounded, its panic contained, its failure
// counted and logged, at most one line a second. An event that is too large is no
// failure of the store, and a client that has left meanwhile is none either.
func (e *events) call(ctx context.Context, op Operation, stream string, f func(context.Context) error) (err error) {
	s := e.store
	bounded, cancel := context.WithTimeoutCause(ctx, s.Limits.EventTimeout,
		fmt.Errorf("%s is reached: %w", limits.NameEventTimeout, context.DeadlineExceeded))
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the event store has panicked: %v", v)
		}
		if errors.Is(err, store.ErrEventFenced) {
			if attrs, ok := e.line("events.fenced", stream, "", "error", err); ok {
				s.Logger.Warn("events.fenced", attrs...)
			}
			return
		}
		switch {
		case err == nil || errors.Is(err, store.ErrEventTooLarge) || ctx.Err() != nil:
			return
		case bounded.Err() != nil:
			s.LimitReached(limits.NameEventTimeout)
		}
		s.Failed(op)
		if attrs, ok := e.line("events.failed", stream, op.String(), "operation", op.String(), "error", err); ok {
			s.Logger.Warn("events.failed", attrs...)
		}
	}()
	return f(bounded)
}

// line returns the attributes of a log record about a stream, or all of the session for ""; false if one of its kind was
// written within the last second.
func (e *events) line(record, stream, kind string, attrs ...any) ([]any, bool) {
	ok, silenced := e.store.lines.Allow(record, kind, time.Now())
	if !ok {
		return nil, false
	}
	named := e.of.LogAttrs()
	if stream != "" {
		named = append(named, "stream", stream)
	}
	return append(append(named, attrs...), "silenced", silenced), true
}

// Why a stream cannot be resumed.
var (
	// ErrEventUnknown: the session has no event with this id, the store has deleted it
	// or what followed, or nothing will follow it.
	ErrEventUnknown = errors.New("mcp: there is no stream to be resumed from this event")
	// ErrStreamTaken: another exchange reads the stream.
	ErrStreamTaken = stream.ErrTaken
)

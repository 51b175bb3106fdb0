// Package resume lets the clients of legacy sessions go on reading a stream whose connection
// was lost: it keeps the events of streams in an event store, and replays them to the exchange
// that comes back.
package resume

import (
	"errors"
	"log/slog"

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

// Why a stream cannot be resumed.
var (
	// ErrEventUnknown: the session has no event with this id, the store has deleted it
	// or what followed, or nothing will follow it.
	ErrEventUnknown = errors.New("mcp: there is no stream to be resumed from this event")
	// ErrStreamTaken: another exchange reads the stream.
	ErrStreamTaken = stream.ErrTaken
)

package resume

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/store"
)

// Shared is the [store.EventStore] of a server with several replicas, which have one log. What a session has
// there outlives the object that a replica has of it.
type Shared struct {
	log     store.EventLog
	replica string
	limits  func() limits.Limits
	streams atomic.Uint64 // named so far
	readers atomic.Uint64 // numbered so far
}

// NewShared returns the store of a replica with a name: letters and digits.
func NewShared(log store.EventLog, replica string, limits func() limits.Limits) *Shared {
	return &Shared{log: log, replica: replica, limits: limits}
}

// Append implements [store.EventStore].
func (sh *Shared) Append(ctx context.Context, session string, e store.Event) error {
	_, err := sh.append(ctx, session, e)
	return err
}

// append is Append, and returns what was deleted to make room.
func (sh *Shared) append(ctx context.Context, session string, e store.Event) ([]store.EvictedEvent, error) {
	l := sh.limits()
	b := store.EventBounds{Events: l.MaxEvents, Bytes: min(l.MaxEventBytes, l.MaxEventBytesTotal), Life: l.SessionIdle}
	return sh.log.Append(ctx, session, e, b)
}

// After implements [store.EventStore].
func (sh *Shared) After(ctx context.Context, session, stream string, seq uint64) ([]store.Event, error) {
	return sh.log.After(ctx, session, stream, seq)
}

// Delete implements [store.EventStore].
func (sh *Shared) Delete(ctx context.Context, session string) error {
	return sh.log.Delete(ctx, session)
}

// name returns a name for a stream that no other one has, in this replica or another one.
func (sh *Shared) name() string {
	return sh.replica + "." + strconv.FormatUint(sh.streams.Add(1), 36)
}

// writerOf returns the replica that writes the stream with a name; false if the name is none.
func writerOf(stream string) (replica string, ok bool) {
	replica, n, _ := strings.Cut(stream, ".")
	number, err := strconv.ParseUint(n, 36, 64)
	return replica, err == nil && strconv.FormatUint(number, 36) == n && len(replica) == replicaName &&
		strings.Trim(replica, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// replicaName is how many bytes the name of a replica has.
const replicaName = 8

// Shares reports whether several replicas share the events.
func (s *Store) Shares() bool { return s.shared() != nil }

// shared returns the store if it is that of several replicas, or nil.
func (s *Store) shared() *Shared {
	shared, _ := s.Events.(*Shared)
	return shared
}

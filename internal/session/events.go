package session

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// errEventsOver is the answer to whoever comes after the end of the session.
var errEventsOver = errors.New("session: the session has ended")

// An eventOp is an operation of the event store.
type eventOp uint8

const (
	eventAppend eventOp = iota
	eventReplay
	eventDelete
	numEventOps
)

var eventOps = [numEventOps]string{"append", "replay", "delete"}

// EventOperations lists the operations of a [store.EventStore] by the names under which
// their failures are counted.
func EventOperations() []string { return eventOps[:] }

// sessionEvents is the part of the event store that belongs to one session. The
// session's end lets go of it: after the last append that is under way, so that
// nothing is left behind.
type sessionEvents struct {
	core *Core
	name string // of the session in the store

	mu     sync.Mutex // guards the rest
	used   bool       // there is something to let go of
	using  int        // appends that have not returned
	ended  bool
	unread []string // streams with a stored answer that nobody has fetched, oldest first
}

// newSessionEvents returns the events of the session with an id, or nil without a store.
// The store learns only a digest of the id, which is a credential of a kind.
func newSessionEvents(c *Core, id string) *sessionEvents {
	if c.events == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(id))
	return &sessionEvents{core: c, name: base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20])}
}

// append keeps an event.
func (e *sessionEvents) append(ev store.Event) error {
	e.mu.Lock()
	if e.ended {
		e.mu.Unlock()
		return errEventsOver
	}
	e.used = true
	e.using++
	e.mu.Unlock()
	defer e.release()
	return e.core.eventCall(context.Background(), eventAppend, func(ctx context.Context) error {
		return e.core.events.Append(ctx, e.name, ev)
	})
}

// release ends an append. The last one after the session's end lets go of all.
func (e *sessionEvents) release() {
	e.mu.Lock()
	e.using--
	last := e.ended && e.using == 0
	e.mu.Unlock()
	if last {
		e.delete()
	}
}

// after returns the events of a stream that follow one.
func (e *sessionEvents) after(ctx context.Context, stream string, seq uint64) (events []store.Event, err error) {
	err = e.core.eventCall(ctx, eventReplay, func(ctx context.Context) (err error) {
		events, err = e.core.events.After(ctx, e.name, stream, seq)
		return err
	})
	return events, err
}

// end lets go of all that is kept for the session, which has ended. Answers that
// nobody has fetched never will be.
func (e *sessionEvents) end() {
	if e == nil {
		return
	}
	e.mu.Lock()
	unread := e.unread
	idle := e.used && !e.ended && e.using == 0
	e.ended, e.unread = true, nil
	e.mu.Unlock()
	e.core.answersExpired(len(unread))
	if idle {
		e.delete()
	}
}

// delete runs in the background: the teardown of a session does not wait for a store.
func (e *sessionEvents) delete() {
	e.core.tasks.start(func() {
		_ = e.core.eventCall(context.Background(), eventDelete, func(ctx context.Context) error {
			return e.core.events.Delete(ctx, e.name)
		})
	})
}

// kept notes that the answer on a stream is in the store and was not sent. As many are
// remembered as the default store keeps events: with more, the oldest is gone anyway.
func (e *sessionEvents) kept(stream string) {
	expired := 0
	e.mu.Lock()
	switch {
	case e.ended:
		expired = 1
	case len(e.unread) == e.core.limits.MaxEvents:
		expired = 1
		e.unread = append(e.unread[:0], e.unread[1:]...)
		fallthrough
	default:
		e.unread = append(e.unread, stream)
	}
	e.mu.Unlock()
	e.core.answersExpired(expired)
}

// fetched notes that a stream was replayed to its end.
func (e *sessionEvents) fetched(stream string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unread = slices.DeleteFunc(e.unread, func(unread string) bool { return unread == stream })
}

// answersExpired counts stored answers that nobody has fetched. They stay "stored" in
// the books: the fate of an answer is decided once.
func (c *Core) answersExpired(n int) {
	if n > 0 {
		c.ledger.count(func(t *tally) { t.expired += uint64(n) })
		c.logger.Debug("response.expired", "reason", mcp.DropStreamGone, "responses", n)
	}
}

// eventCall runs one operation of the store: bounded, its panic contained, its failure
// counted and logged, at most one line a second. An event that is too large is no
// failure of the store, and a client that has left meanwhile is none either.
func (c *Core) eventCall(ctx context.Context, op eventOp, call func(context.Context) error) (err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, c.limits.EventTimeout,
		fmt.Errorf("%s is reached: %w", limits.NameEventTimeout, context.DeadlineExceeded))
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the event store has panicked: %v", v)
		}
		switch {
		case err == nil || errors.Is(err, store.ErrEventTooLarge) || ctx.Err() != nil:
			return
		case bounded.Err() != nil:
			c.ledger.limitReached(limits.NameEventTimeout)
		}
		c.ledger.count(func(t *tally) { t.eventFailures[op]++ })
		if ok, silenced := c.lines.Allow("events.failed", eventOps[op], time.Now()); ok {
			c.logger.Warn("events.failed", "operation", eventOps[op], "error", err, "silenced", silenced)
		}
	}()
	return call(bounded)
}

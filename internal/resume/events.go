package resume

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// errEnded is the error of an event after the end of the session.
var errEnded = errors.New("session: the session has ended")

// events are the events of one session in the store. The session's end deletes them: after
// the last append that is under way, so that nothing is left behind.
type events struct {
	store *Store
	owner any    // of the session: its events count together with those of all its sessions
	name  string // of the session in the store
	of    Session

	mu    sync.Mutex // guards the rest
	used  bool       // there is something to delete
	using int        // appends that have not returned
	ended bool
	// endedFor is why answers expire after the end.
	endedFor mcp.ExpireReason
	unread   []unread // stored answers that the client has not fetched, oldest first
}

// newEvents returns the events of the session with an id. The store learns only a digest of
// the id, which is a credential of a kind.
func newEvents(s *Store, id string, owner any, of Session) *events {
	sum := sha256.Sum256([]byte(id))
	return &events{store: s, owner: owner, of: of, name: base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20])}
}

// append keeps an event.
func (e *events) append(ev store.Event) error {
	e.mu.Lock()
	if e.ended {
		e.mu.Unlock()
		return errEnded
	}
	e.used = true
	e.using++
	e.mu.Unlock()
	defer e.release()
	return e.call(context.Background(), OpAppend, ev.Stream, func(ctx context.Context) error {
		switch events := e.store.Events.(type) {
		case *Memory:
			return events.appendOf(e.owner, e.name, ev, e.evicted)
		case *Shared:
			return e.appendShared(ctx, events, ev)
		}
		return e.store.Events.Append(ctx, e.name, ev)
	})
}

// release ends an append. The last one after the session's end deletes all.
func (e *events) release() {
	e.mu.Lock()
	e.using--
	last := e.ended && e.using == 0 && e.endedFor != mcp.ExpireLeftInStore
	e.mu.Unlock()
	if last {
		e.delete()
	}
}

// after returns the events of a stream that follow one.
func (e *events) after(ctx context.Context, stream string, seq uint64) (all []store.Event, err error) {
	err = e.call(ctx, OpReplay, stream, func(ctx context.Context) (err error) {
		all, err = e.store.Events.After(ctx, e.name, stream, seq)
		return err
	})
	return all, err
}

// end deletes all that is kept for the session, which has ended for a cause. If the replicas share it, only
// the end of the session for all of them deletes it.
func (e *events) end(cause mcp.Cause) {
	outlives := e.outlives(cause)
	e.mu.Lock()
	if outlives {
		e.used = false
	}
	used := e.used || e.store.Shares() && !outlives // another replica may have stored something
	idle := used && !e.ended && e.using == 0
	if !e.ended {
		e.ended, e.endedFor = true, mcp.ExpireSessionEnded
		switch {
		case outlives:
			e.endedFor = mcp.ExpireLeftInStore
		case cause == mcp.CauseSessionIdle:
			e.endedFor = mcp.ExpireSessionIdle
		case cause == mcp.CauseSessionEvicted:
			e.endedFor = mcp.ExpireSessionEvicted
		}
	}
	reason := e.endedFor
	e.mu.Unlock()
	e.expire(reason, func(*unread) bool { return true })
	if idle {
		e.delete()
	}
}

// delete runs in the background: the teardown of a session does not wait for a store.
func (e *events) delete() {
	e.store.Go(func() {
		_ = e.call(context.Background(), OpDelete, "", func(ctx context.Context) error {
			return e.store.Events.Delete(ctx, e.name)
		})
	})
}

// id returns the id of an event: a part of the session's name in the store, the stream's key
// and the event's number, so that the id of one session means nothing in another.
func (e *events) id(stream string, seq uint64) string {
	return e.name[:10] + "-" + stream + "-" + strconv.FormatUint(seq, 10)
}

// parse takes an event id of this session apart; false if it is none.
func (e *events) parse(id string) (stream string, seq uint64, ok bool) {
	i := strings.LastIndexByte(id, '-')
	seq, err := strconv.ParseUint(id[i+1:], 10, 64)
	if _, stream, _ = strings.Cut(id[:max(i, 0)], "-"); err != nil {
		return "", 0, false
	}
	return stream, seq, id == e.id(stream, seq)
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

// appendShared appends an event to the log of several replicas, and notes what was deleted for it. Of events
// of others their replicas learn when a client asks for them.
func (e *events) appendShared(ctx context.Context, shared *Shared, ev store.Event) error {
	out, err := shared.append(ctx, e.name, ev)
	for _, o := range out {
		limit := limits.NameEvents
		if o.ByBytes {
			limit = limits.NameEventBytes
		}
		e.store.LimitReached(limit)
		e.evicted(o.Stream, o.Seq, limit)
	}
	return err
}

// outlives reports whether the events stay in the store when the session's object in this process ends for
// a cause: another replica may go on with the session.
func (e *events) outlives(cause mcp.Cause) bool {
	return e.store.Shares() && cause != mcp.CauseSessionDelete && cause != mcp.CauseOperator
}

package replica

import (
	"context"
	"errors"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/store"
)

// events are the events of a store behind a guard. It counts the writers that the store refuses.
type events struct {
	store.EventLog
	link *Link
}

// Events returns the log of events of the store, with the link's deadline and breaker.
func (l *Link) Events() store.EventLog { return events{l.Store.Events, l} }

// do makes a call that ends with the deadline of ctx, too. A call that takes so long says something about
// the store. The end of its caller does not end it.
func (e events) do(ctx context.Context, op string, call func(context.Context) error) error {
	return e.link.guard.do(context.WithoutCancel(ctx), op, nil, func(bounded context.Context) error {
		if ends, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			bounded, cancel = context.WithDeadline(bounded, ends)
			defer cancel()
		}
		return call(bounded)
	})
}

// Append implements [store.EventLog].
func (e events) Append(ctx context.Context, sess string, ev store.Event, b store.EventBounds) (out []store.EvictedEvent, err error) {
	var refused error // which says that the store answers
	err = e.do(ctx, session.StoreAppend, func(ctx context.Context) (err error) {
		out, err = e.EventLog.Append(ctx, sess, ev, b)
		if errors.Is(err, store.ErrEventFenced) || errors.Is(err, store.ErrEventTooLarge) {
			refused, err = err, nil
		}
		return err
	})
	if errors.Is(refused, store.ErrEventFenced) {
		e.link.fenced.Add(1)
	}
	return out, errors.Join(refused, err)
}

// After implements [store.EventLog].
func (e events) After(ctx context.Context, sess, stream string, seq uint64) (all []store.Event, err error) {
	err = e.do(ctx, session.StoreReplay, func(ctx context.Context) (err error) {
		all, err = e.EventLog.After(ctx, sess, stream, seq)
		return err
	})
	return all, err
}

// Delete implements [store.EventLog].
func (e events) Delete(ctx context.Context, sess string) error {
	return e.do(ctx, session.StoreDelete, func(ctx context.Context) error { return e.EventLog.Delete(ctx, sess) })
}

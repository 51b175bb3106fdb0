package session

import (
	"context"
	"runtime/debug"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// SetObserver replaces the observer. It must be called before the first message.
func (c *Core) SetObserver(o Observer) { c.observer = o }

// tell calls the observer, if there is one. A panic of a callback is counted and logged, and
// the core goes on as if it had returned: else it would end the process, or leave a session
// whose end nobody announces. (A callback that calls runtime.Goexit cannot be contained: the
// goroutine that it ends is the core's.)
func (c *Core) tell(callback string, f func(Observer)) {
	if c.observer == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			c.containedPanic(callback, v, debug.Stack())
		}
	}()
	f(c.observer)
}

// containedPanic counts and logs the panic of something that only records.
func (c *Core) containedPanic(where string, value any, stack []byte) {
	c.ledger.count(func(t *tally) { t.ObserverPanics++ })
	c.logger.Error("observer.panic", "callback", where, "panic", value, "stack", string(stack))
}

// ContainedPanic counts and logs a panic that a middleware has contained, of something
// that it was given only to record.
func (r *Request) ContainedPanic(where string, value any, stack []byte) {
	r.core.containedPanic(where, value, stack)
}

// tellAsked tells the observer that the client is asked, and returns the params that are
// sent, and what tells of the end.
func (c *Core) tellAsked(ctx context.Context, s *Session, method string, params []byte) (sent []byte, end func(mcp.ID, error)) {
	sent = params
	var done func(mcp.ID, error)
	c.tell("Asked", func(o Observer) { sent, done = o.Asked(ctx, s, method, params) })
	return sent, func(id mcp.ID, err error) {
		if done != nil {
			c.tell("Asked", func(Observer) { done(id, err) })
		}
	}
}

// tellNotified tells the observer of a notification, and returns the context for its
// handling, and what tells of the end. s may be nil.
func (c *Core) tellNotified(in *Inbound, s *Session) (ctx context.Context, end func()) {
	if ctx = in.Values; ctx == nil {
		ctx = context.Background()
	}
	ctx = context.WithoutCancel(ctx)
	if c.observer == nil {
		return ctx, func() {}
	}
	var done func()
	c.tell("Notified", func(o Observer) { ctx, done = o.Notified(ctx, in, s) })
	return ctx, func() {
		if done != nil {
			c.tell("Notified", func(Observer) { done() })
		}
	}
}

// tellEnded tells the observer what came of a notification. s may be nil.
func (c *Core) tellEnded(ctx context.Context, in *Inbound, s *Session, end NotificationEnd) {
	c.tell("NotificationEnded", func(o Observer) { o.NotificationEnded(ctx, in, s, end) })
}

// ExchangeEnded reports the end of an exchange to the observer.
func (c *Core) ExchangeEnded(e *ExchangeEnd) {
	c.tell("ExchangeEnded", func(o Observer) { o.ExchangeEnded(e) })
}

// through says that a message has come through this replica, for another one. ctx has the span of the message.
func (c *Core) through(ctx context.Context) *Through {
	t := &Through{Replica: c.elsewhere.Replica()}
	if ctx != nil {
		c.tell("TraceOf", func(o Observer) { t.Trace = o.TraceOf(ctx) })
	}
	return t
}

// cameThrough tells the observer that a message about a request has come through another replica. r and t may
// be nil.
func (c *Core) cameThrough(r *Request, kind string, t *Through) {
	if r != nil && t != nil {
		c.tell("CameThrough", func(o Observer) { o.CameThrough(r, kind, *t) })
	}
}

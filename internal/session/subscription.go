package session

import (
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is about subscriptions. A subscription is a request like any other until its
// handler has acknowledged it. From then on it may stay open for days: it has no slot and no
// deadline, and does not count for the age of the oldest request. A limit of its own bounds
// how many there are.
//
// What it sends is posted: queued without waiting for room. The poster keeps a bound by
// posting more only when what it has posted before was written.

// Acknowledge sends the first notification of a subscription, which stands from then on. It gives back the slots and takes the deadline away. The route must be one
// for subscriptions, and the caller the goroutine of its handler. The error is that of
// [Request.Post]; a deadline that has passed before comes first. A client that takes no
// event stream gets no subscription: an error answer says so.
func (r *Request) Acknowledge(method string, params []byte) error {
	if !r.Route.Subscription {
		panic("session: the route of " + r.Method + " is not one for subscriptions")
	}
	if r.stream.TakesAnswersOnly() {
		return mcp.NewError(mcp.CodeInvalidRequest, "a subscription needs an event stream, which the client does not accept")
	}
	if !r.verdict.listen() {
		return mcp.ErrRequestDone
	}
	r.disarm()
	r.slots.give()
	r.phase.Store(uint32(PhaseListening))
	r.acknowledged.Store(int64(max(time.Since(r.began), 1)))
	if err := r.Post(method, params, nil); err != nil {
		return err
	}
	r.core.tell("Acknowledged", func(o Observer) { o.Acknowledged(r) })
	return nil
}

// Acknowledged returns how long after its arrival the request has become a
// subscription, and false if it has not.
func (r *Request) Acknowledged() (time.Duration, bool) {
	d := r.acknowledged.Load()
	return time.Duration(d), d != 0
}

// Ending is closed when the server ends its subscriptions: before the drain waits
// for other requests, and when the byte stream that carries them ends. Handlers of
// subscriptions then return, without an error.
func (r *Request) Ending() <-chan struct{} {
	if r.session != nil && r.session.subscriptionsEnding != nil {
		return r.session.subscriptionsEnding
	}
	return r.core.subscriptionsEnding
}

// End returns why a subscription has ended. It is for requests that are settled.
func (r *Request) End() mcp.SubscriptionEnd {
	cause := mcp.CauseServerShutdown
	switch c, _ := r.Cancellation(); {
	case c != nil:
		cause = c.Cause
	case r.expired.Load():
		return mcp.EndTokenExpired
	case r.Error() != nil:
		return mcp.EndError
	case r.session != nil:
		r.session.update(func(st *state) {
			if st.subscriptionsEnd != "" {
				cause = st.subscriptionsEnd
			}
		})
	}
	return mcp.EndOf(cause)
}

// endSubscriptions ends the subscriptions of a byte stream. The first cause stays.
func (s *Session) endSubscriptions(cause mcp.Cause) {
	first := false
	s.update(func(st *state) {
		if first = st.subscriptionsEnd == ""; first {
			st.subscriptionsEnd = cause
		}
	})
	if first && s.subscriptionsEnding != nil {
		close(s.subscriptionsEnding)
	}
}

package session

import (
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is about requests that stand: a subscription is a request like any other
// until its handler has acknowledged it, and from then on one that may stay open for
// days. It then has no slot, no deadline and no part in the age of the oldest request;
// instead there is a limit of its own, and a polite end.
//
// What it sends is posted: queued without waiting for room. The poster bounds it, by
// posting more only when what it has posted before was written.

// Acknowledge sends the first notification of a subscription and makes it a standing
// request. It gives back the slots and takes the deadline away. The route must be one
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

// Post queues a notification about this request, before the answer, without waiting
// for room. params is the JSON of its params member. done, if it is not nil, is called
// once, when the notification was written or dropped: by any goroutine, also before
// Post returns, so that it must not block. The errors are those of [Request.Notify]; a
// cancelled request may post until its outcome is decided.
func (r *Request) Post(method string, params []byte, done func()) error {
	n := newNotice(r.core, r, method, params)
	n.done = done
	return r.stream.Post(&n.Message)
}

// Post queues a notification that belongs to no request, as [Request.Post] does. It is
// dropped if the client has no stream open.
func (s *Session) Post(method string, params []byte, done func()) {
	s.post(method, params, done, true)
}

// PostEach is [Session.Post] of a notification that says what has happened, and not that
// something is not what it was: it is kept for a client that is away, however often the
// same was said before.
func (s *Session) PostEach(method string, params []byte, done func()) {
	s.post(method, params, done, false)
}

func (s *Session) post(method string, params []byte, done func(), once bool) {
	n := newNotice(s.core, nil, method, params)
	n.done, n.Once = done, once
	st, reason := s.own()
	if st == nil {
		n.Dropped(reason)
		return
	}
	_ = st.Post(&n.Message) // a stream that has failed meanwhile is as good as none: the drop is counted
}

// goodbye is what precedes the answer to a subscription on a byte stream, where the end
// of the exchange cannot tell that nothing follows (specification: "Cancellation"). No
// other request may be cancelled by the server, and nothing may follow the answer, so
// that the cancellation comes first.
func (r *Request) goodbye() *notice {
	if r.session == nil || !r.verdict.listening() {
		return nil
	}
	params := append(append([]byte(`{"requestId":`), r.ID.Raw()...), `,"reason":"`...)
	params = append(append(params, r.End()...), `","_meta":{"`+mcp.MetaSubscriptionID+`":`...)
	params = append(append(params, r.ID.Raw()...), "}}"...)
	return newNotice(r.core, r, mcp.NotificationCancelled, params)
}

// Acknowledged returns how long after its arrival the request has become a standing
// one, and false if it has not.
func (r *Request) Acknowledged() (time.Duration, bool) {
	d := r.acknowledged.Load()
	return time.Duration(d), d != 0
}

// Parting is closed when the server ends its standing requests: before the drain waits
// for the other ones, and when the byte stream that carries them ends. Handlers of
// subscriptions then return, without an error.
func (r *Request) Parting() <-chan struct{} {
	if r.session != nil && r.session.parting != nil {
		return r.session.parting
	}
	return r.core.parting
}

// End returns why a subscription has ended. It is for requests that are settled.
func (r *Request) End() mcp.SubscriptionEnd {
	cause := mcp.CauseServerShutdown
	switch c, _ := r.Cancellation(); {
	case c != nil:
		cause = c.Cause
	case r.Error() != nil:
		return mcp.EndError
	case r.session != nil:
		r.session.update(func(st *state) {
			if st.parted != "" {
				cause = st.parted
			}
		})
	}
	return mcp.EndOf(cause)
}

// part ends the subscriptions of a byte stream. The first cause stays.
func (s *Session) part(cause mcp.Cause) {
	first := false
	s.update(func(st *state) {
		if first = st.parted == ""; first {
			st.parted = cause
		}
	})
	if first && s.parting != nil {
		close(s.parting)
	}
}

// vacate gives back the place among the subscriptions, if the request has one.
func (r *Request) vacate() {
	if r.seated {
		r.core.subscriptions.leave()
	}
}

// Go runs background work of the server room, for which Shutdown waits. It must end
// by itself, and soon.
func (c *Core) Go(f func()) { c.tasks.start(f) }

// OnClosed has f called when the session is closed, and at once if it is.
func (s *Session) OnClosed(f func()) {
	late := false
	s.update(func(st *state) {
		if late = st.phase == sessionClosed; !late {
			st.onClosed = append(st.onClosed, f)
		}
	})
	if late {
		f()
	}
}

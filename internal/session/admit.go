package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// admit admits a request or rejects it with an answer. What the caller can change is checked
// first: its rights, then the load of the server, then the id.
func (c *Core) admit(in *Inbound, s *Session, st *stream.Stream) {
	rt := c.dispatcher.Route(in, s)
	c.checkClient(in)
	if in.Refusal != nil {
		rt = rt.Refuse(in.Refusal)
	}
	r := newRequest(c, in, s, st, rt)
	if reason, err := c.check(r); err != nil {
		c.reject(r, reason, err)
		return
	}
	r.needSlots()
	r.queued = !r.slots.try()
	if r.queued {
		if full := r.queue(); full != "" {
			c.reject(r, mcp.RejectOverload, r.queueFull(full))
			return
		}
	}
	if reason, err := c.enter(r); err != nil {
		if r.queued {
			r.unqueue()
		} else {
			r.slots.give()
		}
		c.reject(r, reason, err)
		return
	}
	r.alarm.Store(c.alarms.set(r))
	if !r.onByteStream() {
		st.Own((*answer)(r), r.opener())
	}
	c.hooks.at(pointAdmitted, r)
	if r.queued {
		r.placed()
	}
	go r.run()
	if r.decided != nil && r.onByteStream() {
		<-r.decided // messages after a handshake may rely on it
	}
}

// check does what comes before a slot or a place in the queue is taken: it asks the rules and the rate limits, charges the
// body, opens the session and takes a place among the subscriptions. It returns why the request cannot be admitted; reject
// gives back what it took.
func (c *Core) check(r *Request) (mcp.RejectReason, *mcp.Error) {
	if !c.Serves(r.Era) {
		return mcp.RejectEra, c.EraForbidden(r.Inbound)
	}
	if refused := c.askRules(r); refused != nil {
		return mcp.RejectRefused, refused
	}
	if refused := c.rateLimited(r.Inbound, r.Route.Series.Method, r.limited(), r.began); refused != nil {
		return mcp.RejectRefused, refused.RPC()
	}
	if !r.chargeBody() {
		return mcp.RejectOverload, Overload(limits.NameBodyBytes)
	}
	if s := r.session; s != nil && s.unopened {
		if reason, err := c.open(s); err != nil {
			return reason, err
		}
	}
	if r.Route.Subscription {
		if r.hasPlace = c.subscriptions.TryAcquire(r.caller); !r.hasPlace {
			return mcp.RejectOverload, Overload(limits.NameSubscriptions)
		}
	}
	return "", nil
}

// enter puts the request into the tables, or says why it cannot be admitted.
func (c *Core) enter(r *Request) (reason mcp.RejectReason, err *mcp.Error) {
	ln := c.ledger.lane()
	if r.session == nil {
		switch {
		case !c.unread.Allows(r.caller):
			return mcp.RejectOverload, Overload(limits.NameUnread)
		case !ln.enter(&r.work):
			return mcp.RejectShuttingDown, ShuttingDown()
		}
		return "", nil
	}
	presume := false
	r.session.update(func(st *state) {
		key := r.ID.Key()
		switch {
		case !st.accepting() && r.session.stream == nil:
			reason, err = mcp.RejectSessionUnknown, SessionUnknown()
		case !st.accepting():
			reason, err = mcp.RejectShuttingDown, ShuttingDown()
		case r.Era == mcp.Legacy && st.peer == nil && !r.Route.BeforeInitialize:
			reason = mcp.RejectNotInitialized
			err = mcp.NewError(mcp.CodeInvalidRequest, "the session is not initialized: %s", c.WaysIn())
		case st.index[key] != nil || r.repeated:
			reason, err = mcp.RejectDuplicateID, duplicateID(r)
		case len(st.live) >= c.maxLive(r):
			reason, err = mcp.RejectOverload, Overload(limits.NameInFlight)
		case r.session.stream.Overfull():
			reason, err = mcp.RejectOverload, Overload(limits.NameQueuedBytes)
		case !ln.enter(&r.work):
			reason, err = mcp.RejectShuttingDown, ShuttingDown()
		default:
			st.index[key] = r
			st.live[r] = struct{}{}
			st.total++
			presume = !st.ready && r.session.sealed() && !r.Route.BeforeInitialize
		}
	})
	if presume {
		r.session.presumeReady()
	}
	return reason, err
}

// maxLive returns how many requests may be live in the session of a request, before it. Requests about
// the connection have room of their own.
func (c *Core) maxLive(r *Request) int {
	if r.Route.Control {
		return c.limits.MaxInFlight + c.limits.MaxQueue + c.limits.MaxInFlightControl
	}
	return c.limits.MaxInFlight + c.limits.MaxQueue
}

// reject answers a request that was not admitted.
func (c *Core) reject(r *Request, reason mcp.RejectReason, err *mcp.Error) {
	r.leaveSubscriptions()
	if reason == mcp.RejectOverload && c.Draining() { // waiting for a slot would not help
		reason, err = mcp.RejectShuttingDown, ShuttingDown()
	}
	// An id that was in flight at the admission counts as taken, even if the answer to the
	// first request has been decided since: it may not be queued yet.
	taken := r.repeated || reason == mcp.RejectDuplicateID && r.session.stream != nil || r.session.uses(r.ID)
	c.ledger.rejected(receivedRequest, reason)
	c.countRefusal(err)
	if data, ok := err.Data.(mcp.ErrorData); ok && data.Limit != "" && reason == mcp.RejectOverload {
		c.ledger.limitReached(data.Limit)
	}
	c.tell("Rejected", func(o Observer) { o.Rejected(r, reason, err) })
	c.logRejected(r, reason, err)
	r.cancel(nil)
	r.letGo()
	frame := wire.AppendError(nil, r.ID, err)
	if taken {
		// Whatever the reason is: an answer with this id would resolve the first request.
		data, _ := err.Data.(mcp.ErrorData)
		data.Reason, data.ID = string(reason), r.ID
		err = err.WithData(data)
		frame = anonymousError(err, r.Era == mcp.Legacy && r.session.Peer().wantsNullID())
	}
	r.GiveTurn()
	m := &stream.Message{Kind: stream.Answer, Frame: frame, Err: err, Reject: reason, Delivery: stream.Unobserved}
	if r.batch != nil {
		r.batch.reject(m)
		return
	}
	r.stream.Reject(m)
}

// uses reports whether an answer with this id would reach a request that is in flight:
// on a byte stream, where all answers leave on one stream. s may be nil.
func (s *Session) uses(id mcp.ID) (used bool) {
	if s != nil && s.stream != nil {
		s.update(func(st *state) { used = st.index[id.Key()] != nil })
	}
	return used
}

func newRequest(c *Core, in *Inbound, s *Session, st *stream.Stream, rt *Route) *Request {
	r := makeRequest(c, in, s, st, rt)
	r.observed = true
	c.tell("Begin", func(o Observer) { r.ctx = o.Begin(&r.bounded, r) })
	return r
}

// makeRequest returns a request that the observer does not know.
func makeRequest(c *Core, in *Inbound, s *Session, st *stream.Stream, rt *Route) *Request {
	r := &Request{Inbound: in, Route: rt, session: s, stream: st, caller: c.callerOf(in, s)}
	in.request = r
	in.Body.Hold()
	r.core, r.self, r.began = c, r, time.Now()
	r.setDeadline()
	if r.values.Context = in.Values; in.Values == nil {
		r.values.Context = context.Background()
	}
	r.bounded.Context, r.cancel = context.WithCancelCause(&r.values)
	r.ctx = &r.bounded
	r.holds.Store(2)
	if rt.Handshake {
		r.decided = make(chan struct{})
	}
	return r
}

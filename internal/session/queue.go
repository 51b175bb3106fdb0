package session

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is about requests that wait for their slots. Each has a place in its session, if it
// has one, and a place in the queue of the process, which callers and classes share: a request
// may lose that one to a request of a caller with fewer (see [share.Queue]).

// needSlots says which slots the request needs. Requests about the connection itself have slots
// of their own, so that a server that is full still answers them.
func (r *Request) needSlots() {
	r.slots.caller = r.caller
	if r.Route.Control {
		r.slots.process = r.core.control
		return
	}
	r.slots.process = r.core.slots
	if r.session != nil {
		r.slots.session = r.session.slots
	}
	if r.Route.Class != nil {
		r.slots.wantClass(r.Route.Class)
	}
}

// queue takes the places of a request that waits for its slots. It returns the limit that is
// reached, or "".
func (r *Request) queue() (full string) {
	if r.session != nil && !r.session.waiting.enter() {
		return limits.NameQueueSession
	}
	place, displaced := r.core.waiting.Enter(r.caller, r.Route.waitsFor(), r)
	if place == nil || displaced != nil {
		r.core.saturation.overflow(r.core.waiting, time.Now)
	}
	if displaced != nil {
		displaced.(*Request).displace()
	}
	if place == nil {
		if r.session != nil {
			r.session.waiting.leave()
		}
		return limits.NameQueue
	}
	r.place = place
	return ""
}

// queueFull is the answer to a request that finds no place in the queue, has lost it, or has waited for too long. If it needs a
// slot of a class, it names the class.
func (r *Request) queueFull(limit string) *mcp.Error {
	state := r.classState()
	if state == nil {
		return Overload(limit)
	}
	if state.InUse >= state.Limit {
		r.core.ledger.limitReached(ClassPrefix + state.Name)
	}
	return mcp.NewError(mcp.CodeInternalError, "the server is overloaded: %s (%d) is reached: class %q has %d of %d slots in use, and %d requests wait for it",
		limit, r.core.queueSize(limit), state.Name, state.InUse, state.Limit, state.Queued).
		WithData(mcp.ErrorData{Reason: string(mcp.RejectOverload), Limit: limit, Class: state})
}

// queueSize returns the bound that has the name of a limit of [Request.queue].
func (c *Core) queueSize(limit string) int {
	switch limit {
	case limits.NameQueueSession:
		return c.limits.MaxQueuePerSession
	case limits.NameQueueWait:
		return c.limits.MaxQueueWait
	}
	return c.limits.MaxQueue
}

// waitsFor tells apart what requests wait for: each class, requests about the connection, and
// all others share the queue.
func (rt *Route) waitsFor() any {
	if rt.Control {
		return "control"
	}
	return rt.Class
}

// unqueue gives up the places of a request that waits no more.
func (r *Request) unqueue() {
	r.place.Leave()
	r.core.saturation.relieved(r.core.waiting, time.Now)
	if r.session != nil {
		r.session.waiting.leave()
	}
}

// A placing says whether a request that may lose its place in the queue is in the tables. Others
// know of the place before it is.
const (
	entering int32 = iota
	entered
	displacedEarly
)

// placed notes that the request is in the tables. If it has lost its place already, it is answered.
func (r *Request) placed() {
	if !r.placing.CompareAndSwap(entering, entered) {
		r.displace()
	}
}

// displace answers a request that has lost its place in the queue, unless its handler is about
// to be called. If it is not in the tables yet, it is answered when it is: see [Request.placed].
func (r *Request) displace() {
	if r.placing.CompareAndSwap(entering, displacedEarly) || !r.hold() {
		return
	}
	defer r.release()
	r.lose(limits.NameQueue, func(attrs []any) {
		r.core.ledger.count(func(t *tally) { t.Displaced++ })
		r.core.logger.InfoContext(r.ctx, "request.displaced", attrs...)
	})
}

// shed answers a request that has got its slots too late.
func (r *Request) shed() {
	r.lose(limits.NameQueueWait, func(attrs []any) { r.core.logger.InfoContext(r.ctx, "request.shed", attrs...) })
}

// lose answers a request that shall not run because of a limit, unless it is settled.
func (r *Request) lose(limit string, note func(attrs []any)) {
	if won, _ := r.settle(startedBit, answering, -1); !won {
		return
	}
	r.cancel(mcp.ErrRequestDone) // it waits no more
	r.core.ledger.limitReached(limit)
	full := r.queueFull(limit)
	attrs := append(r.LogAttrs(), "caller", r.caller.Key(), "limit", limit)
	note(append(attrs, logClass(r.classState())...))
	r.rejected = mcp.RejectOverload
	r.answerError(full)
}

// late reports whether a request that has got its slots has waited for more of its time than max_queue_wait allows, and others wait.
// Of callers that ask for more than the slots can do, every request would otherwise get its slots just before its deadline, and
// none would be answered in time.
func (r *Request) late() bool {
	whole := r.Deadline().Sub(r.began)
	return 100*r.age() > time.Duration(r.core.limits.MaxQueueWait)*whole && r.core.waiting.LenOf(r.Route.waitsFor()) > 0
}

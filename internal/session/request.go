package session

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Request is one inbound request from its arrival to the moment when its
// handler has returned and the fate of its answer is known. Handlers may use it
// from any goroutine.
type Request struct {
	*Inbound
	Route *Route
	work

	session *Session // nil for a modern HTTP exchange
	stream  *stream.Stream

	ctx     context.Context // the handler's
	values  valuesContext   // what ctx has from outside
	bounded requestContext

	alarm atomic.Pointer[alarm] // of the deadline
	// The times of events are in ns after the arrival; 0 is not yet.
	startedAt   atomic.Int64 // the handler was called
	settledAt   atomic.Int64
	handlerDone atomic.Int64 // the handler has returned
	blocked     blockedTime

	verdict verdict
	phase   atomic.Uint32 // a Phase
	asked   atomic.Bool   // it may have outbound requests
	decided chan struct{} // closed at the settle of a handshake; nil for all others
	slots   slots
	// acknowledged is when it has become a subscription, in ns after the arrival; 0 is not yet.
	acknowledged atomic.Int64

	reply    stream.Message
	buffer   *[]byte // of the frame of a result; nil if none was encoded
	replyErr atomic.Pointer[mcp.Error]

	// Guarded by lane.mu.
	reason mcp.DropReason
	fate   Fate

	// Written before the request is admitted.
	seated bool // it has a place among the subscriptions
	queued bool // it had to wait for its slots
}

// A Fate is what became of a request's answer.
type Fate uint8

const (
	FateUnknown Fate = iota
	FateSent         // handed to the kernel and flushed: not a proof that it was read
	FateStored       // kept for replay
	FateDropped
)

// String returns the value of the attribute vitrine.response.outcome.
func (f Fate) String() string {
	return [...]string{"", "sent", "stored", "dropped"}[f]
}

// A Phase is where a request is, as the snapshot shows it.
type Phase uint32

const (
	PhaseQueued    Phase = iota
	PhaseRunning         // in middleware or the handler
	PhaseBlocked         // the handler waits for the client's answer
	PhaseWriting         // settled with an answer that is on its way
	PhaseListening       // a subscription that was acknowledged
)

func newRequest(c *Core, in *Inbound, s *Session, st *stream.Stream, rt *Route) *Request {
	r := &Request{Inbound: in, Route: rt, session: s, stream: st}
	r.core, r.self, r.began, r.observed = c, r, time.Now(), true
	patience, _ := rt.deadline(&c.limits)
	r.bounded.deadline = r.began.Add(patience)
	if r.values.Context = in.Values; in.Values == nil {
		r.values.Context = context.Background()
	}
	r.bounded.Context, r.cancel = context.WithCancelCause(&r.values)
	r.ctx = &r.bounded
	c.tell("Begin", func(o Observer) { r.ctx = o.Begin(&r.bounded, r) })
	r.holds.Store(2)
	if rt.Handshake {
		r.decided = make(chan struct{})
	}
	return r
}

// valuesContext has the values of a context, and not its end. It is what
// context.WithoutCancel makes, as a part of the request.
type valuesContext struct{ context.Context }

func (*valuesContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (*valuesContext) Done() <-chan struct{}                   { return nil }
func (*valuesContext) Err() error                              { return nil }

// requestContext is the context of a handler: it is cancelled by the core alone,
// always with a *mcp.CancelError, and knows the request's deadline although the
// core's own timer enforces it (so that the outcome and the cause are decided in
// one place).
type requestContext struct {
	context.Context
	deadline time.Time
}

func (c *requestContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *requestContext) Err() error {
	err := c.Context.Err()
	if err != nil {
		if cause, ok := mcp.CauseOf(c.Context); ok && cause == mcp.CauseDeadline {
			return context.DeadlineExceeded
		}
	}
	return err
}

func (r *Request) labels() *Series          { return r.Route.Series }
func (r *Request) context() context.Context { return r.ctx }
func (r *Request) started() bool            { return r.verdict.started() }
func (r *Request) number() string           { return "id " + r.ID.String() }

// onByteStream reports whether the request has come over a byte stream.
func (r *Request) onByteStream() bool { return r.session != nil && r.session.stream != nil }

// Session returns the request's session, or nil for a modern HTTP exchange.
func (r *Request) Session() *Session { return r.session }

// ArrivedAt returns when the request arrived.
func (r *Request) ArrivedAt() time.Time { return r.began }

// Deadline returns when the request is answered with an error if nothing else happens.
func (r *Request) Deadline() time.Time { return r.bounded.deadline }

// QueueWait returns how long the request waited for a slot, and false while it
// still waits or if its handler was never called.
func (r *Request) QueueWait() (time.Duration, bool) {
	d := r.startedAt.Load()
	return time.Duration(d), d != 0
}

// HandlerDone returns the time from arrival to the return of the handler, and
// false while it runs or if it was never called.
func (r *Request) HandlerDone() (time.Duration, bool) {
	d := r.handlerDone.Load()
	return time.Duration(d), d != 0
}

// Blocked returns how long the handler has waited for answers of the client so far.
func (r *Request) Blocked() time.Duration { return r.blocked.total() }

// Latency returns the time from arrival to the outcome, and to now before that.
func (r *Request) Latency() time.Duration {
	if d := r.settledAt.Load(); d != 0 {
		return time.Duration(d)
	}
	return time.Since(r.began)
}

// Settled reports whether it is decided if the request gets an answer.
func (r *Request) Settled() bool { return r.verdict.outcome() != open }

// Fate returns what became of the answer, and the reason if it was dropped.
func (r *Request) Fate() (Fate, mcp.DropReason) {
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	return r.fate, r.reason
}

// Error returns the JSON-RPC error that the request was settled with, or nil.
func (r *Request) Error() *mcp.Error { return r.replyErr.Load() }

// ReplyBytes returns the size of the answer in bytes, or 0 if there is none.
func (r *Request) ReplyBytes() int { return r.reply.Size() }

// settle fixes the outcome of the request and, in the same critical section, frees
// its id. cause is an index of causes, or -1.
func (r *Request) settle(to outcome, cause int) (won, first bool) {
	return r.settleUnless(0, to, cause)
}

// settleUnless is settle, but not for a request with one of the given bits of its
// verdict: one whose handler was called, one that has become a subscription.
func (r *Request) settleUnless(bits uint32, to outcome, cause int) (won, first bool) {
	if bits != startedBit {
		r.core.hooks.at(pointBeforeSettle, r)
	}
	if r.session == nil {
		won, first = r.verdict.settle(bits, to, cause)
	} else {
		r.session.update(func(st *state) {
			if won, first = r.verdict.settle(bits, to, cause); won {
				st.settled(r, to)
			}
		})
	}
	if won {
		r.afterSettle()
	}
	return won, first
}

func (r *Request) afterSettle() {
	at := r.handlerDone.Load() // which was just now
	if at == 0 {
		at = int64(max(time.Since(r.began), 1))
	}
	r.settledAt.Store(at)
	if r.decided != nil {
		close(r.decided)
	}
	r.core.hooks.at(pointAfterSettle, r)
}

// disarm ends the alarm. A request that is settled keeps it until the end: its answer may take
// time to be encoded, and its deadline does nothing any more.
func (r *Request) disarm() {
	if a := r.alarm.Swap(nil); a != nil {
		r.core.timers.unset(a)
	}
}

// release gives up a hold. Whoever gives up the last one ends the request.
func (r *Request) release() {
	if r.holds.Add(-1) > 0 {
		return
	}
	r.disarm()
	r.vacate()
	r.finish()
}

// leave implements [Work].
func (r *Request) leave() {
	if r.session != nil {
		r.session.update(func(st *state) { st.left(r) })
	}
}

// conclude records the fate of the answer, once. That its session was removed is
// the better reason than what the wire then said, and with it goes what is stored.
func (r *Request) conclude(fate Fate, reason mcp.DropReason) {
	if fate != FateSent && reason != mcp.DropCancelled && r.session != nil && r.session.removed() {
		fate, reason = FateDropped, mcp.DropSessionGone
	}
	ln := r.lane
	ln.mu.Lock()
	if r.fate != FateUnknown {
		ln.mu.Unlock()
		return
	}
	r.fate, r.reason = fate, reason
	counts := ln.of(r.Route.Series)
	switch fate {
	case FateSent:
		counts.sent++
	case FateStored:
		counts.stored++
	case FateDropped:
		counts.dropped[indexOf(dropReasons, reason)]++
	}
	sealed := ln.sealed
	ln.mu.Unlock()
	if r.session == nil && r.verdict.outcome() == answering {
		r.core.unread.Add(-1)
	}
	if sealed {
		r.core.ledger.concluded()
	}
	if fate == FateStored {
		r.stream.Log().(*resume.Log).NoteUnread()
	}
	if fate == FateDropped {
		r.core.tell("Dropped", func(o Observer) { o.Dropped(r, reason) })
		r.core.logDrop(r, reason)
	}
	r.release()
}

// suppress settles the request without an answer and cancels its handler. It
// reports whether this call decided the outcome.
func (r *Request) suppress(err *mcp.CancelError, reason mcp.DropReason) bool {
	won, first := r.settle(suppressed, indexOf(causes, err.Cause))
	if !won {
		return false
	}
	calls := r.takeCalls()
	if first {
		r.cancelWith(err)
	}
	endCalls(calls, err)
	r.conclude(FateDropped, reason)
	return true
}

// forgo tells whoever waits for the answer that it will not come.
func (r *Request) forgo() {
	if r.batch != nil {
		r.batch.Skip()
		return
	}
	r.stream.Skip()
}

// disconnect is suppress for a request whose own response stream is gone.
func (r *Request) disconnect(reason mcp.DropReason) {
	err := &mcp.CancelError{Cause: mcp.CauseClientDisconnect}
	level := slog.LevelInfo
	if !r.started() {
		level = slog.LevelDebug // no work is lost
	}
	if r.suppress(err, reason) {
		r.core.logger.Log(r.ctx, level, "request.cancelled", append(r.LogAttrs(), "cause", err.Cause)...)
	}
}

// refuse settles the request with an error of the core and cancels its handler.
func (r *Request) refuse(err *mcp.CancelError, answer *mcp.Error) bool {
	return r.refuseUnless(0, err, answer)
}

// refuseUnless is refuse with the bits of settleUnless.
func (r *Request) refuseUnless(bits uint32, err *mcp.CancelError, answer *mcp.Error) bool {
	won, first := r.settleUnless(bits, answering, indexOf(causes, err.Cause))
	if !won {
		return false
	}
	calls := r.takeCalls()
	if first {
		r.cancelWith(err)
	}
	endCalls(calls, err)
	r.answerError(answer)
	return true
}

// refuseQueued is refuse for a request whose handler was not called.
func (r *Request) refuseQueued(err *mcp.CancelError, answer *mcp.Error) bool {
	return r.refuseUnless(startedBit, err, answer)
}

// interrupt cancels the handler and leaves it time to answer.
func (r *Request) interrupt(err *mcp.CancelError) bool {
	if !r.hold() {
		return false
	}
	defer r.release()
	if !r.verdict.cancel(indexOf(causes, err.Cause)) {
		return false
	}
	r.cancelWith(err)
	return true
}

// expire runs when the deadline has passed: the error goes out now, not when the
// handler returns.
func (r *Request) expire() {
	_, limit := r.Route.deadline(&r.core.limits)
	data := mcp.ErrorData{Reason: string(mcp.CauseDeadline), Limit: limit}
	answer := mcp.NewError(mcp.CodeInternalError, "the request took longer than its deadline of %v",
		r.Deadline().Sub(r.began)).WithData(data)
	data.Phase = "queued"
	err := &mcp.CancelError{Cause: mcp.CauseDeadline}
	if r.refuseQueued(err, answer.WithData(data)) || r.refuseUnless(listeningBit, err, answer) {
		if limit != "" {
			r.core.ledger.limitReached(limit)
		}
		r.core.logger.WarnContext(r.ctx, "request.deadline", r.LogAttrs()...)
	}
}

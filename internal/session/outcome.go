package session

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// settle fixes the outcome of the request and, in the same critical section, frees its id.
// It does nothing for a request with one of the given bits of its verdict: one whose handler
// was called, one that has become a subscription. cause is an index of causes, or -1.
func (r *Request) settle(unless uint32, to outcome, cause int) (won, first bool) {
	if unless != startedBit {
		r.core.hooks.at(pointBeforeSettle, r)
	}
	if r.session == nil {
		won, first = r.verdict.settle(unless, to, cause)
	} else {
		r.session.update(func(st *state) {
			if won, first = r.verdict.settle(unless, to, cause); won {
				st.settled(r, to)
			}
		})
	}
	if !won {
		return false, false
	}
	at := r.handlerDone.Load() // just now, if the handler has answered
	if at == 0 {
		at = int64(max(r.age(), 1))
	}
	r.settledAt.Store(at)
	r.settledIn.Store(r.phase.Load())
	if r.decided != nil {
		close(r.decided)
	}
	r.core.hooks.at(pointAfterSettle, r)
	return true, first
}

// decide settles the request, cancels its handler, and ends its own requests to the client. It
// reports whether this call decided the outcome.
func (r *Request) decide(unless uint32, to outcome, err *mcp.CancelError) bool {
	won, first := r.settle(unless, to, indexOf(causes, err.Cause))
	if !won {
		return false
	}
	calls := r.takeCalls()
	if first {
		r.cancelWith(err)
	}
	endCalls(calls, err)
	return true
}

// disarm ends the alarm. A request that is settled keeps it until the end: its answer may take
// time to be encoded, and its deadline does nothing any more.
func (r *Request) disarm() {
	if a := r.alarm.Swap(nil); a != nil {
		r.core.alarms.unset(a)
	}
}

// release gives up a hold. The last one ends the request.
func (r *Request) release() {
	if r.holds.Add(-1) > 0 {
		return
	}
	r.disarm()
	if t := r.orphan.Load(); t != nil {
		t.Stop()
	}
	r.leaveSubscriptions()
	r.finish()
	r.letGo()
}

// letGo gives up what the request has held since it was made.
func (r *Request) letGo() {
	r.Body.Release()
	r.caller.Release()
}

// leave implements [Work].
func (r *Request) leave() {
	if r.session != nil {
		r.session.update(func(st *state) { st.left(r) })
	}
}

// conclude records the fate of the answer, once. If the session was removed meanwhile, that is
// the reason, whatever has failed on the wire, and what was stored is gone as well.
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
		r.core.unread.Add(r.caller, -1)
	}
	if sealed {
		r.core.ledger.concluded()
	}
	if fate == FateStored {
		r.noteStored()
	}
	if fate == FateDropped {
		r.core.tell("Dropped", func(o Observer) { o.Dropped(r, reason) })
		r.core.logDrop(r, reason)
	}
	r.release()
}

// dropAnswer settles the request without an answer and cancels its handler. It
// reports whether this call decided the outcome.
func (r *Request) dropAnswer(err *mcp.CancelError, reason mcp.DropReason) bool {
	if !r.decide(0, suppressed, err) {
		return false
	}
	r.conclude(FateDropped, reason)
	return true
}

// skipAnswer tells the batch or the stream that the answer will not come.
func (r *Request) skipAnswer() {
	if r.batch != nil {
		r.batch.Skip()
		return
	}
	r.stream.Skip()
}

// maxReason bounds what is kept of the reason of a cancellation, in bytes.
const maxReason = 256

// cancelRequest cancels a request on behalf of its client, which gets no answer. Only
// a legacy HTTP exchange must end with something, so that it gets the terminator
// -32800, unless it has become an event stream already, which can just end, or the
// exchange is that of a batch, which ends without an answer when none is left.
func (s *Session) cancelRequest(r *Request, text string) bool {
	err := &mcp.CancelError{Cause: mcp.CauseClientCancel, Detail: logline.Printable(text, maxReason)}
	var won bool
	if s.stream == nil && r.batch == nil && !r.stream.EndsWithoutAnswer() {
		won = r.cancelAnswered(err, mcp.NewError(mcp.CodeRequestCancelled, "Request cancelled"))
	} else if won = r.dropAnswer(err, mcp.DropCancelled); won {
		r.skipAnswer()
	}
	if won {
		s.core.logger.InfoContext(r.ctx, "request.cancelled",
			append(r.LogAttrs(), "started", r.started(), "cause", err.Cause, "reason", err.Detail)...)
	}
	return won
}

// disconnect is dropAnswer for a request whose own response stream is gone.
func (r *Request) disconnect(reason mcp.DropReason) {
	err := &mcp.CancelError{Cause: mcp.CauseClientDisconnect}
	if r.dropAnswer(err, reason) {
		r.core.logger.InfoContext(r.ctx, "request.cancelled", append(r.LogAttrs(), "started", r.started(), "cause", err.Cause)...)
	}
}

// cancelAnswered settles the request with an error of the core and cancels its handler.
func (r *Request) cancelAnswered(err *mcp.CancelError, answer *mcp.Error) bool {
	return r.cancelUnless(0, err, answer)
}

// cancelUnless is cancelAnswered with the bits of settle.
func (r *Request) cancelUnless(bits uint32, err *mcp.CancelError, answer *mcp.Error) bool {
	if !r.decide(bits, answering, err) {
		return false
	}
	r.answerError(answer)
	return true
}

// cancelQueued is cancelAnswered for a request whose handler was not called.
func (r *Request) cancelQueued(err *mcp.CancelError, answer *mcp.Error) bool {
	return r.cancelUnless(startedBit, err, answer)
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
	if !r.started() {
		data.Phase, data.Class = "queued", r.classState()
	}
	err := &mcp.CancelError{Cause: mcp.CauseDeadline}
	if r.cancelQueued(err, answer.WithData(data)) || r.cancelUnless(listeningBit, err, answer) {
		if limit != "" {
			r.core.ledger.limitReached(limit)
		}
		attrs := append(r.LogAttrs(), "started", r.started())
		if !r.started() {
			attrs = append(attrs, logClass(data.Class)...)
		}
		r.core.logger.WarnContext(r.ctx, "request.deadline", attrs...)
	}
}

// leaveSubscriptions gives back the place among the subscriptions, if the request has one.
func (r *Request) leaveSubscriptions() {
	if r.hasPlace {
		r.core.subscriptions.Release(r.caller)
	}
}

// An answer is a request in its roles as the delivery of its answer and as the owner of its
// stream.
type answer Request

// Claim implements [stream.Delivery].
func (a *answer) Claim() bool { return true }

// Sent implements [stream.Delivery].
func (a *answer) Sent() {
	r := (*Request)(a)
	r.core.hooks.at(pointAfterFlush, r)
	r.conclude(FateSent, "")
	if !r.reply.Shown() {
		r.recycle(r.reply.Frame)
	}
}

// Stored implements [stream.Delivery].
func (a *answer) Stored() {
	r := (*Request)(a)
	r.core.hooks.at(pointAfterFlush, r)
	r.conclude(FateStored, "")
}

// Dropped implements [stream.Delivery].
func (a *answer) Dropped(reason mcp.DropReason) { (*Request)(a).conclude(FateDropped, reason) }

// Orphan implements [stream.Owner]. A request that ends earlier keeps no timer.
func (a *answer) Orphan(grace time.Duration, over func()) {
	r, t := (*Request)(a), time.AfterFunc(grace, over)
	if old := r.orphan.Swap(t); old != nil {
		old.Stop()
	}
	if r.holds.Load() == 0 { // it has not seen the timer
		t.Stop()
	}
}

// Disconnect implements [stream.Owner].
func (a *answer) Disconnect(reason mcp.DropReason) { (*Request)(a).disconnect(reason) }

// answerError queues an error answer. The request is settled.
func (r *Request) answerError(err *mcp.Error) {
	r.replyErr.Store(err)
	r.core.countRefusal(err)
	r.send(wire.AppendError(nil, r.ID, err), nil, err)
}

// send hands the answer to the stream.
func (r *Request) send(frame, rest []byte, err *mcp.Error) {
	r.phase.Store(uint32(PhaseWriting))
	r.reply = stream.Message{
		Kind: stream.Answer, Frame: frame, Rest: rest, Err: err, Reject: r.rejected, Delivery: (*answer)(r),
	}
	if err == nil && !r.stream.Reserve(&r.reply, r.core.limits.NotifyTimeout) {
		r.tooMuch()
		return
	}
	if n := r.cancelledNotice(); n != nil {
		r.stream.Push(&n.Message)
	}
	if r.session == nil {
		r.core.unread.Add(r.caller, 1)
	}
	if r.batch != nil {
		r.batch.Push(&r.reply)
	} else {
		r.stream.Push(&r.reply)
	}
}

// tooMuch answers with an error because there is no room for the result.
func (r *Request) tooMuch() {
	size := r.reply.Size()
	r.recycle(r.reply.Frame)
	r.answerError(r.noRoom(size))
}

// noRoom returns the error for a result of so many bytes, or more, that cannot wait for its reader: the
// caller, or all of them together, let too much wait unread.
func (r *Request) noRoom(size int) *mcp.Error {
	r.core.ledger.limitReached(limits.NameQueuedBytesTotal)
	return mcp.NewError(mcp.CodeInternalError, "the result has %d bytes, and there is no room for it to wait: %s is reached",
		size, limits.NameQueuedBytesTotal).WithData(mcp.ErrorData{Reason: string(mcp.DropOverload), Limit: limits.NameQueuedBytesTotal})
}

// cancelledNotice returns the notifications/cancelled that precedes the answer to a
// subscription on a byte stream; nil for any other request. There the end of the exchange
// cannot tell the client that nothing follows (specification: "Cancellation"). It precedes the
// answer because nothing may follow that.
func (r *Request) cancelledNotice() *notice {
	if r.session == nil || !r.verdict.listening() {
		return nil
	}
	params := append(append([]byte(`{"requestId":`), r.ID.Raw()...), `,"reason":"`...)
	params = append(append(params, r.End()...), `","_meta":{"`+mcp.MetaSubscriptionID+`":`...)
	params = append(append(params, r.ID.Raw()...), "}}"...)
	return newNotice(r.core, r, mcp.NotificationCancelled, params)
}

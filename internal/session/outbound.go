package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An outbound is a request of ours that a legacy client has not answered yet.
type outbound struct {
	id      mcp.ID
	method  string
	session *Session
	request *Request // on whose behalf, or nil
	since   time.Time
	message stream.Message
	to      *stream.Stream // where it is sent first; nil is the session's own
	early   bool           // it was made before the handshake was over, see send
	stream  *stream.Stream // where it was sent; nil while it waits for one. Guarded by session.mu
	handed  atomic.Uint32  // to the wire, see callQueued
	// reply has room for one value: the first event that can end the wait wins, and
	// no sender ever blocks.
	reply chan outboundReply
}

// Where a call is. The first swap of callQueued decides: the writer writes the call, or the
// caller takes it back and the client never learns of it.
const (
	callQueued uint32 = iota
	callHanded
	callWithdrawn
)

// ID returns the id of a request that was made, else the zero value.
func (o *outbound) ID() mcp.ID {
	if o == nil {
		return mcp.ID{}
	}
	return o.id
}

func (o *outbound) end(reply outboundReply) {
	select {
	case o.reply <- reply:
	default:
	}
}

// maxEndedCalls is how many ended outbound requests a session remembers, to tell
// a late or second answer from one that makes no sense.
const maxEndedCalls = 64

// Ask sends a request to the client on behalf of r and waits for the answer. Meanwhile r is in
// state "blocked"; if several goroutines ask at once, until the last of them has its answer.
// The wait ends with the first of: the client's answer (its error is a [*mcp.ClientError]), the end of ctx, the cancellation of
// r (its cause), the loss of the stream before the client could be asked
// ([mcp.ErrPeerGone]) and the end of the session (a [*mcp.CancelError]). A client
// that was asked is told that the wait is over. Modern clients cannot be
// asked: [mcp.ErrNoBackChannel]. One that takes no event stream for the answer is asked
// on the session's own stream. Until its notifications/initialized has come, a client is
// sent nothing but pings: everything else waits for that. In a session with a sealed id that may have gone
// to another replica, and the first request or the stream of the client counts as it.
func (r *Request) Ask(ctx context.Context, method string, params []byte) (jsontext.Value, error) {
	if r.Era == mcp.Modern || r.session == nil {
		return nil, mcp.ErrNoBackChannel
	}
	return r.session.ask(ctx, method, params, r)
}

// ask sends a request on behalf of r, which may be nil, and waits for the answer.
func (s *Session) ask(ctx context.Context, method string, params []byte, r *Request) (result jsontext.Value, err error) {
	var o *outbound
	params, end := s.core.tellAsked(ctx, s, method, params)
	defer func() { end(o.ID(), err) }()
	to, cancelled := s.stream, context.Background()
	if r != nil {
		r.asked.Store(true)
		to, cancelled = r.stream, r.ctx
	}
	if o, err = s.newOutbound(method, params, r, to); err != nil {
		return nil, err
	}
	if r != nil {
		r.block()
		defer func() {
			if lost := r.unblock(); lost != nil {
				result, err = nil, lost
			}
		}()
	}
	if !o.early {
		o.send()
	}
	select {
	case reply := <-o.reply:
		return reply.result, reply.err
	case <-cancelled.Done():
		return o.giveUp(context.Cause(cancelled))
	case <-ctx.Done():
		return o.giveUp(context.Cause(ctx))
	}
}

// newOutbound enters an outbound request into the table. r is the request on whose
// behalf it is sent, or nil.
func (s *Session) newOutbound(method string, params []byte, r *Request, to *stream.Stream) (o *outbound, err error) {
	full := false
	s.update(func(st *state) {
		switch {
		case r != nil && r.verdict.outcome() != open:
			err = mcp.ErrRequestDone
		case r == nil && st.peer == nil:
			err = mcp.ErrNoBackChannel
		case st.phase == sessionEOF:
			err = &mcp.CancelError{Cause: mcp.CauseTransportClose}
		case st.phase > sessionEOF:
			err = &mcp.CancelError{Cause: st.cause}
		case len(st.outbound) >= s.core.limits.MaxOutbound:
			full, err = true, Overload(limits.NameOutbound)
		default:
			st.outboundSeq++
			o = &outbound{
				id: s.outboundID(st.outboundSeq), method: method, session: s, request: r, since: time.Now(),
				to: to, early: !st.ready && method != mcp.MethodPing, stream: to,
				reply: make(chan outboundReply, 1),
			}
			o.message = stream.Message{
				Kind: stream.Call, Method: method, Frame: wire.AppendRequest(nil, o.id, method, params), Delivery: o,
			}
			if st.outbound == nil {
				st.outbound = map[string]*outbound{}
			}
			st.outbound[o.id.Key()] = o
			if o.early {
				st.early = append(st.early, o)
			}
		}
	})
	if full {
		s.core.ledger.limitReached(limits.NameOutbound)
	}
	if o != nil && o.early {
		s.core.logger.Debug("outbound.early", "session", s.LogID(), "method", method)
	}
	return o, err
}

// send queues the call on its stream, or on the session's own if its stream takes only
// answers. A call that was made before the client has finished the
// handshake is sent when it has (specification 2025-11-25: "Lifecycle", initialization):
// of two POSTs, the first call and notifications/initialized, either may come first.
// Until then it is in the table like any other, and whatever ends the wait for an answer
// ends this one.
func (o *outbound) send() {
	if o.to == nil || o.to.TakesAnswersOnly() {
		o.session.findOwn(context.Background())
		o.Dropped(mcp.DropStreamGone)
		return
	}
	o.pushTo(o.to)
}

// giveUp ends the wait for an outbound request and tells the client, if it was asked. If an
// answer has taken the request out of the table before, the answer counts.
func (o *outbound) giveUp(err error) (jsontext.Value, error) {
	if !o.session.removeCall(o) {
		reply := <-o.reply
		return reply.result, reply.err
	}
	if o.early {
		o.logNeverReady()
	}
	if !o.withdraw() {
		o.tellCancelled()
	} else if o.request == nil && errors.Is(err, context.DeadlineExceeded) {
		err = stream.SendError(mcp.DropStreamGone) // there was no stream to carry it
	}
	return nil, err
}

// logNeverReady logs that a call has waited in vain for notifications/initialized: a client
// that never sends it is never asked anything.
func (o *outbound) logNeverReady() {
	ready := false
	o.session.update(func(st *state) { ready = st.ready })
	if !ready {
		o.session.core.logger.Warn("outbound.uninitialized", "session", o.session.LogID(), "method", o.method)
	}
}

// withdraw takes the call back, also out of the queue; false if it was handed to the wire. The
// caller must have taken the call out of the table, so that no other stream gets it meanwhile.
func (o *outbound) withdraw() bool {
	if !o.handed.CompareAndSwap(callQueued, callWithdrawn) {
		return false
	}
	var st *stream.Stream
	o.session.update(func(*state) { st = o.stream })
	if st != nil {
		st.Remove(&o.message)
	}
	return true
}

// pushTo queues the call, unless it is taken back meanwhile.
func (o *outbound) pushTo(st *stream.Stream) {
	st.Push(&o.message)
	if o.handed.Load() == callWithdrawn {
		st.Remove(&o.message)
	}
}

// Claim implements [stream.Delivery].
func (o *outbound) Claim() bool { return o.handed.CompareAndSwap(callQueued, callHanded) }

// Sent implements [stream.Delivery].
func (o *outbound) Sent() {}

// Stored implements [stream.Delivery].
func (o *outbound) Stored() {}

// tellCancelled tells the client that its answer is not wanted any more. The message is queued
// at once if there is room, so that it precedes an answer that ends the stream. Otherwise a
// goroutine waits for room.
func (o *outbound) tellCancelled() {
	s := o.session
	var st *stream.Stream
	s.update(func(*state) { st = o.stream })
	if st == nil || st.Reason() != "" {
		if own, _ := s.noticeStream(); own != nil {
			st = own
		}
	}
	if st == nil {
		return
	}
	params := append(append([]byte(`{"requestId":`), o.id.Raw()...), '}')
	n := newNotice(s.core, nil, mcp.NotificationCancelled, params) // its loss is counted as any other
	if !st.Offer(&n.Message) {
		s.core.tasks.start(func() { _ = st.Notify(context.Background(), &n.Message, s.core.limits.CourtesyTimeout) })
	}
}

// Dropped implements [stream.Delivery]: the stream that had the call will not write it. A
// byte stream's loss ends the session, and that ends the wait. Elsewhere a call that
// was not handed to the wire may find another stream.
func (o *outbound) Dropped(reason mcp.DropReason) {
	s := o.session
	if s.stream != nil {
		return
	}
	switch reason {
	case mcp.DropStreamGone, mcp.DropBrokenPeer, mcp.DropWriteTimeout:
		if o.handed.Load() == callQueued && s.reroute(o) {
			return
		}
	}
	if s.removeCall(o) {
		s.core.logger.Debug("outbound.failed", "session", s.LogID(), "method", o.method, "reason", reason)
		o.end(outboundReply{err: stream.SendError(reason)})
	}
}

// takeCalls takes the calls of a request that is settled out of the table. newOutbound makes
// no later ones.
func (r *Request) takeCalls() (calls []*outbound) {
	if !r.asked.Load() {
		return nil
	}
	r.session.update(func(st *state) {
		for _, o := range st.outbound {
			if o.request == r {
				calls = append(calls, o)
			}
		}
		for _, o := range calls {
			st.removeCall(o, mcp.IgnoreLate)
		}
	})
	return calls
}

// endCalls ends the wait for calls that were taken, and tells the client before the
// answer can end the stream.
func endCalls(calls []*outbound, err error) {
	for _, o := range calls {
		if o.early {
			o.logNeverReady()
		}
		o.end(outboundReply{err: err})
		if !o.withdraw() {
			o.tellCancelled()
		}
	}
}

// removeCall takes o out of the table; false if it is not there any more.
func (s *Session) removeCall(o *outbound) (mine bool) {
	s.update(func(st *state) {
		if mine = st.outbound[o.id.Key()] == o; mine {
			st.removeCall(o, mcp.IgnoreLate)
		}
	})
	return mine
}

// removeCall moves an outbound request from the table to the memory of ended
// ones. late is what a further answer to it will be.
func (st *state) removeCall(o *outbound, late mcp.IgnoreReason) {
	delete(st.outbound, o.id.Key())
	st.waitingCalls = slices.DeleteFunc(st.waitingCalls, func(p *outbound) bool { return p == o })
	st.early = slices.DeleteFunc(st.early, func(p *outbound) bool { return p == o })
	if len(st.endedCalls) == maxEndedCalls {
		st.endedCalls = append(st.endedCalls[:0], st.endedCalls[1:]...)
	}
	st.endedCalls = append(st.endedCalls, endedCall{o.id.Key(), late})
}

type endedCall struct {
	key  string
	late mcp.IgnoreReason
}

// takeOutbound swaps the table of outbound requests out under the lock, to be walked
// outside it by endOutbound. The client is not told: it is not there any more.
func (s *Session) takeOutbound() (table map[string]*outbound) {
	s.update(func(st *state) {
		table, st.outbound = st.outbound, nil
		for _, o := range table {
			st.removeCall(o, mcp.IgnoreLate)
		}
	})
	return table
}

// endOutbound ends the wait for the outbound requests of a table. The caller must cancel their
// handlers before, if it does: a handler that wakes first could answer, and would not count as
// cancelled.
func (s *Session) endOutbound(table map[string]*outbound, err error) {
	for _, o := range table {
		s.core.logger.Debug("outbound.failed", "session", s.LogID(), "method", o.method, "error", err)
		o.withdraw()
		o.end(outboundReply{err: err})
	}
}

// Ask sends a request that belongs to no request of the client, such as a ping, and
// waits for the answer at most for the request time-out. A legacy HTTP client that
// has no stream open is asked as soon as it opens one; if it does not in time, the
// error is [mcp.ErrPeerGone]. The other errors are those of [Request.Ask].
func (s *Session) Ask(ctx context.Context, method string, params []byte) (jsontext.Value, error) {
	patience := s.core.limits.RequestTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, patience,
		fmt.Errorf("the client has not answered within %v: %w", patience, context.DeadlineExceeded))
	defer cancel()
	return s.ask(ctx, method, params, nil)
}

// reroute sends a call that was not written to the session's own stream, at whichever replica that is. Without
// one, a call that belongs there waits for the client to open it, up to its own deadline.
// reroute returns false for any other call: there is no stream for it.
func (s *Session) reroute(o *outbound) (ok bool) {
	var to *stream.Stream
	s.update(func(st *state) {
		if ok = st.outbound[o.id.Key()] != o; ok {
			return // the wait has ended meanwhile
		}
		if to = s.callStream(st); to != nil {
			o.stream, ok = to, true
			return
		}
		if ok = !st.leaving && (o.stream == nil || o.stream.Standing()); ok {
			o.stream = nil
			st.waitingCalls = append(st.waitingCalls, o)
		}
	})
	if to != nil {
		o.pushTo(to)
	}
	return ok
}

// outboundID returns the id of our n-th request. The objects of a session with a sealed id have different
// ones, so that none takes the response to the question of another. If there are several replicas it
// begins with the name of this one, which gets the answer wherever that arrives.
func (s *Session) outboundID(n int64) mcp.ID {
	if s.object == "" {
		return mcp.IntID(n)
	}
	text := s.object[:8] + "-" + strconv.FormatInt(n, 10)
	if e := s.core.elsewhere; e != nil {
		text = e.Replica() + "-" + text
	}
	return mcp.StringID(text)
}

// takeWaitingCalls returns the calls that wait for a stream, and gives them one.
func (st *state) takeWaitingCalls(to *stream.Stream) (waitingCalls []*outbound) {
	waitingCalls, st.waitingCalls = st.waitingCalls, nil
	for _, o := range waitingCalls {
		o.stream = to
	}
	return waitingCalls
}

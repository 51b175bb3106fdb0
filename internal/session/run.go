package session

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// run is the request's goroutine.
func (r *Request) run() {
	growStack(0)
	if r.queued {
		got := r.slots.wait(r.ctx)
		r.core.unqueue(r.session)
		if !got {
			r.release() // settled while it waited
			return
		}
	}
	if !r.verdict.start() {
		r.slots.give()
		r.release()
		return
	}
	r.startedAt.Store(int64(max(r.age(), 1)))
	r.phase.Store(uint32(PhaseRunning))
	r.core.tell("Started", func(o Observer) { o.Started(r) })
	r.handle()
}

// handle calls the handler and answers with what it returns. A panic and a
// runtime.Goexit end up here too: the request must settle in any case.
func (r *Request) handle() {
	defer r.done()
	normal := false
	var result mcp.Result
	var err error
	defer func() {
		if !normal {
			result, err = nil, r.recovered(recover())
		}
		r.handlerReturned()
		r.answer(result, err)
	}()
	result, err = r.Route.Handle(r.ctx, r)
	normal = true
}

// recovered records a panic of the handler and returns what the peer may know of it.
func (r *Request) recovered(value any) *mcp.Error {
	stack := debug.Stack()
	if p, carried := value.(*HandlerPanic); carried {
		value, stack = p.Value, p.Stack
	}
	r.panicked(value, stack)
	return mcp.NewError(mcp.CodeInternalError, "internal error")
}

// handlerReturned notes the return, late or not, and frees the slots: before the
// answer is queued, so that a client that reads it finds room for its next request.
func (r *Request) handlerReturned() {
	r.slots.give()
	r.handlerDone.Store(int64(max(r.age(), 1)))
	r.noteReturn()
}

// done gives up the handler's hold. Goroutines that the handler has left behind are
// told by the end of its context.
func (r *Request) done() {
	r.cancel(mcp.ErrRequestDone)
	r.release()
}

// answer settles the request with what the handler returned and queues the
// answer. A result that comes too late is discarded.
func (r *Request) answer(result mcp.Result, err error) {
	if won, _ := r.settle(answering, -1); !won {
		return
	}
	endCalls(r.takeCalls(), mcp.ErrRequestDone)
	normal := false
	var frame, rest []byte
	var failed *mcp.Error
	defer func() {
		// A user's marshaler or error type may panic or exit too: nothing of the answer
		// was written yet.
		if !normal {
			failed = r.recovered(recover())
		}
		if failed != nil {
			r.answerError(failed)
		} else {
			r.send(frame, rest, nil)
		}
	}()
	if err == nil {
		frame, rest, err = r.encode(result)
	}
	if err != nil {
		failed = r.public(err)
	}
	normal = true
}

// encode builds the frame of a result.
func (r *Request) encode(result mcp.Result) (frame, rest []byte, err error) {
	series := r.Route.Series
	r.buffer = r.core.frames.get(int(series.answer.Load()))
	frame = wire.AppendResponseHead(*r.buffer, r.ID)
	frame, rest, err = r.core.dispatcher.Encode(frame, r, result)
	if err != nil {
		r.core.logger.ErrorContext(r.ctx, "result.encode", append(r.LogAttrs(), "error", err)...)
		return nil, nil, mcp.NewError(mcp.CodeInternalError, "internal error: the result cannot be encoded")
	}
	series.answer.Store(int64(len(frame)))
	if rest == nil {
		frame = append(frame, '}')
	}
	return frame, rest, nil
}

// public returns what the peer may know of a handler's error.
func (r *Request) public(err error) *mcp.Error {
	if known, _ := mcp.AsError(err); known != nil {
		return known
	}
	if refusal, ok := mcp.AsRefusal(err); ok {
		return refusal.RPC()
	}
	// A handler that gives up because it was told to has not failed.
	if c, _ := r.Cancellation(); c != nil && (errors.Is(err, c) || errors.Is(err, context.Canceled)) {
		return causeError(c.Cause, "")
	}
	r.core.logger.ErrorContext(r.ctx, "handler.error", append(r.LogAttrs(), "error", err)...)
	return mcp.NewError(mcp.CodeInternalError, "internal error")
}

// answerError queues an error answer. The request is settled.
func (r *Request) answerError(err *mcp.Error) {
	r.replyErr.Store(err)
	r.core.countRefusal(err)
	r.send(wire.AppendError(nil, r.ID, err), nil, err)
}

// send hands the answer to the stream.
func (r *Request) send(frame, rest []byte, err *mcp.Error) {
	r.phase.Store(uint32(PhaseWriting))
	if n := r.goodbye(); n != nil {
		r.stream.Push(&n.Message)
	}
	r.reply = stream.Message{Kind: stream.Answer, Frame: frame, Rest: rest, Err: err, Delivery: (*answer)(r)}
	if r.session == nil {
		r.core.unread.Add(1)
	}
	if r.batch != nil {
		r.batch.Push(&r.reply)
	} else {
		r.stream.Push(&r.reply)
	}
}

// Notify sends a notification about this request on its stream, before the
// answer. params is the JSON of its params member. A notification with a key
// replaces one with the same key that still waits in a full queue, as progress
// does. Notify waits for room at most as long as the notify time-out and the
// request's context allow, and returns [mcp.ErrRequestDone] once the request is
// settled, [mcp.ErrPeerGone] or [mcp.ErrClosed] when the stream has failed, and
// the context's cause when the request was cancelled meanwhile. Every
// notification that is not sent is counted.
func (r *Request) Notify(method string, params []byte, key string) error {
	if to := r.verdict.outcome(); to != open {
		reason := r.verdict.dropReason()
		if failed := r.stream.Reason(); to == suppressed && failed != "" {
			reason = failed
		}
		r.core.dropNotification(r, method, r.noticeReason(reason))
		return mcp.ErrRequestDone
	}
	n := newNotice(r.core, r, method, params)
	n.Key = stream.Key{Of: r, Name: key}
	r.core.hooks.at(pointBeforeNotify, r)
	return r.stream.Notify(r.ctx, &n.Message, r.core.limits.NotifyTimeout)
}

// noticeReason is the reason for which a notification about the request is dropped, given
// what the wire says of it: the same as that of its answer, if there is none either. That
// the client wants nothing more is the better reason, and that its session was removed
// the second best.
func (r *Request) noticeReason(said mcp.DropReason) mcp.DropReason {
	if r.verdict.byClient() {
		return mcp.DropCancelled
	}
	switch said {
	case mcp.DropClosedWriter, mcp.DropBrokenPeer, mcp.DropWriteTimeout, mcp.DropStreamGone:
		if r.session != nil && r.session.removed() {
			return mcp.DropSessionGone
		}
	}
	return said
}

// TakesNotifications reports whether notifications about this request reach the client: one
// that takes no event stream for the answer gets none.
func (r *Request) TakesNotifications() bool { return !r.stream.TakesAnswersOnly() }

// DropNotification counts a notification that was not even tried.
func (r *Request) DropNotification(method string, reason mcp.DropReason) {
	r.core.dropNotification(r, method, reason)
}

// maxIDLogged bounds the bytes of an id in the log: a client's may be as long as a frame.
const maxIDLogged = 256

// LogAttrs are the fields by which logs name a request.
func (r *Request) LogAttrs() []any {
	attrs := []any{"method", r.Route.Series.Method, "id", logline.Printable(r.ID.String(), maxIDLogged)}
	if t := r.Route.Series.Target; t != "" {
		attrs = append(attrs, "target", t)
	}
	if r.session != nil {
		attrs = append(attrs, "session", r.session.LogID())
	}
	if r.Conn != nil && r.Conn.Principal != nil {
		attrs = append(attrs, "principal", logline.Printable(r.Conn.Principal.String(), maxClientText))
	}
	return append(attrs, "age", r.age())
}

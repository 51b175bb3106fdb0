package session

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// run is the request's goroutine.
func (r *Request) run() {
	growStack(0)
	if r.queued {
		r.GiveTurn()
		got := r.slots.wait(r.ctx)
		r.unqueue()
		if !got {
			r.release() // settled while it waited
			return
		}
		if r.late() {
			r.shed()
			r.slots.give()
			r.release()
			return
		}
	}
	if !r.verdict.start() {
		r.GiveTurn()
		r.slots.give()
		r.release()
		return
	}
	r.startedAt.Store(int64(max(r.age(), 1)))
	r.phase.Store(uint32(PhaseRunning))
	r.core.tell("Started", func(o Observer) { o.Started(r) })
	r.GiveTurn() // the handler may wait
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
	if r.noteReturn() {
		r.logLateReturn()
	}
}

// done gives up the handler's hold, and ends its context, so that goroutines which the handler
// has left behind end as well.
func (r *Request) done() {
	r.cancel(mcp.ErrRequestDone)
	r.release()
}

// answer settles the request with what the handler returned and queues the
// answer. A result that comes too late is discarded.
func (r *Request) answer(result mcp.Result, err error) {
	size := leastSize(result)
	turn := r.encodingTurn(size)
	if won, _ := r.settle(0, answering, -1); !won {
		turn.Give()
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
		turn.Give() // the answer may wait for room
		if failed != nil {
			r.answerError(failed)
		} else {
			r.send(frame, rest, nil)
		}
	}()
	switch {
	case err != nil:
	case size > stream.LargeFrame && r.stream.NoRoom(size):
		err = r.noRoom(size)
	default:
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
	return r.fit(frame), rest, nil
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

package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// CloseStream ends the HTTP response to r, and the rest of what r sends, its answer
// included, waits for the client to come and get it (specification 2025-11-25:
// "Sending Messages to the Server"). The response becomes an event stream if it is
// none yet, so that the client has an event to resume from. retry is how long the
// client should wait before it comes; 0 says nothing about it.
//
// CloseStream returns when the response has ended, after at most the write time-out,
// and at once if no exchange reads the stream any more. Only legacy HTTP clients
// from revision 2025-11-25 on, of a server with an event store, know how to come
// back: for all others, and if the store fails, it does nothing and returns an
// error that matches [errors.ErrUnsupported]. Once the request is settled it returns
// [mcp.ErrRequestDone], and the cause if it was cancelled meanwhile.
func (r *Request) CloseStream(retry time.Duration) error {
	if r.session == nil || r.session.logs == nil || r.Era != mcp.Legacy || r.batch != nil || r.Route.Handshake {
		return stream.ErrNotResumable
	}
	if p := r.session.Peer(); p == nil || !p.Version.AtLeast(mcp.Version20251125) {
		return stream.ErrNotResumable
	}
	end := &exchangeEnd{r, make(chan error, 1)}
	mark := &stream.Message{Kind: stream.Mark, Retry: retry, EndsExchange: true, Delivery: end}
	if queued, err := r.stream.CloseExchange(mark); !queued {
		return err
	}
	select {
	case err := <-end.over:
		return err
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// An exchangeEnd is the delivery of a mark that ends the exchange of a request.
type exchangeEnd struct {
	of   *Request
	over chan error // how that has gone; capacity 1
}

// Claim implements [stream.Delivery].
func (e *exchangeEnd) Claim() bool { return true }

// Sent implements [stream.Delivery]. The mark is not stored: the stream cannot be resumed.
func (e *exchangeEnd) Sent() { e.over <- stream.ErrNotResumable }

// Stored implements [stream.Delivery].
func (e *exchangeEnd) Stored() { e.over <- nil }

// Dropped implements [stream.Delivery].
func (e *exchangeEnd) Dropped(reason mcp.DropReason) { e.over <- stream.SendError(reason) }

// Refused implements [stream.Notice].
func (e *exchangeEnd) Refused(_ context.Context, failed mcp.DropReason, _ bool) (mcp.DropReason, error) {
	switch {
	case e.of.verdict.outcome() != open:
		return mcp.DropAfterResponse, mcp.ErrRequestDone
	case failed != "":
		return failed, stream.SendError(failed)
	}
	return "", nil
}

package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// errNotResumable is the answer to a request whose exchange cannot be closed.
var errNotResumable = fmt.Errorf("mcp: the response to this request cannot be closed before its end: %w", errors.ErrUnsupported)

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
	if r.session == nil || r.session.events == nil || r.Era != mcp.Legacy || r.batch != nil || r.Route.Handshake {
		return errNotResumable
	}
	if p := r.session.Peer(); p == nil || !p.Version.AtLeast(mcp.Version20251125) {
		return errNotResumable
	}
	m := &Message{Kind: Mark, Retry: retry, hungUp: make(chan error, 1), request: r}
	r.stream.closeFor(m)
	select {
	case err := <-m.hungUp:
		return err
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// closeFor queues a mark that ends the exchange, if that is of any use.
func (st *Stream) closeFor(m *Message) {
	st.mu.Lock()
	err := error(nil)
	queued := false
	switch {
	case m.request.verdict.outcome() != open:
		err = mcp.ErrRequestDone
	case st.failed != "":
		err = sendError(st.failed)
	case st.unlogged || st.plain:
		err = errNotResumable
	case st.log != nil && st.reader == 0 || st.hangUp:
		// Nobody reads the stream, or soon nobody will.
	default:
		st.append(m)
		st.hangUp, queued = true, true
	}
	st.mu.Unlock()
	if queued {
		st.signal()
	} else {
		m.hang(err)
	}
}

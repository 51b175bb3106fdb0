package streamable

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// get serves the stream of a legacy session for messages that belong to no request, or the
// rest of a stream whose exchange was lost.
func (x *exchange) get() {
	id := x.r.Header.Get(headerSessionID)
	if id == "" || x.onlyPost() {
		x.methodNotAllowed()
		return
	}
	if !acceptsEvents(x.r.Header) {
		x.refuse(http.StatusNotAcceptable, mcp.RefuseAccept, invalid("Accept must allow text/event-stream"))
		return
	}
	if x.events = canFlush(x.w); !x.events {
		x.unflushable(x.w)
		x.refuseEvents()
		return
	}
	s := x.sessionOrRefuse(id)
	if s == nil {
		return
	}
	if last := x.r.Header.Get(headerLastEvent); last != "" {
		x.resume(s, last)
		return
	}
	st := x.core.Exchange(x.conn, 0, mcp.Legacy)
	if !s.Attach(st) {
		if x.core.Draining() {
			x.w.Header().Set("Retry-After", "1")
			x.refuse(http.StatusServiceUnavailable, mcp.RefuseShuttingDown, session.ShuttingDown())
			return
		}
		x.refuse(http.StatusConflict, mcp.RefuseConflict, invalid("the session has a stream already"))
		return
	}
	defer s.Detach(st)
	x.serveReader(session.StreamStanding, s, st)
}

// serveReader writes what a client reads with GET until it ends, or until the token of the client expires. Then
// the exchange ends as if its connection was lost: a client with another token can resume the stream.
func (x *exchange) serveReader(kind string, s *session.Session, reader pumper) {
	x.leave() // the stream keeps the session from now on
	sink := x.sink(mcp.Legacy)
	until, stop := x.conn.UntilExpiry(x.r.Context())
	defer stop()
	sink.lost = until
	err := x.openReader(sink)
	if err == nil {
		err = x.pump(reader, sink)
	}
	if context.Cause(until) == session.ErrTokenExpired {
		s.StreamExpired(x.conn)
	}
	x.readerEnded(kind, s, until, reader, err)
}

// openReader writes the header of what a client reads with GET, before there is a message.
func (x *exchange) openReader(sink *httpSink) error {
	sink.SetWriteDeadline(time.Now().Add(x.core.Limits().WriteTimeout))
	err := sink.open()
	if sink.http2 {
		sink.SetWriteDeadline(time.Time{})
	}
	if err != nil && stream.WriteReason(err) == mcp.DropWriteTimeout {
		x.core.LimitReached(limits.NameWriteTimeout)
	}
	return err
}

// resume serves a GET that goes on after an event: first the stored events that followed on
// that stream, then new ones (specification 2025-11-25: "Resumability and Redelivery"). If the
// session exists the status is never 404, which tells a client that its session is gone.
func (x *exchange) resume(s *session.Session, lastEventID string) {
	reader, err := s.Resume(x.r.Context(), lastEventID)
	switch {
	case err == nil:
		defer reader.Close()
		x.serveReader(session.StreamResumed, s, reader)
	case errors.Is(err, resume.ErrEventUnknown):
		x.refuse(http.StatusBadRequest, mcp.RefuseEventUnknown, unresumable("there is no stream to be resumed from this event", mcp.RefuseEventUnknown))
	case errors.Is(err, resume.ErrStreamTaken):
		x.refuse(http.StatusConflict, mcp.RefuseConflict, unresumable("another connection reads this stream", mcp.RefuseConflict))
	case errors.Is(err, mcp.ErrClosed): // the session has ended just now
		x.refuse(http.StatusNotFound, mcp.RefuseSessionUnknown, session.SessionUnknown())
	case x.r.Context().Err() != nil: // the client has gone
	default:
		x.w.Header().Set("Retry-After", "1") // not 503, see rejectStatus: other requests can be served
		x.refuse(http.StatusTooManyRequests, mcp.RefuseEventStore, mcp.NewError(mcp.CodeInternalError,
			"the stream cannot be read just now").WithData(mcp.ErrorData{Reason: string(mcp.RefuseEventStore)}))
	}
}

func unresumable(text string, reason mcp.RefuseReason) *mcp.Error {
	return invalid("%s", text).WithData(mcp.ErrorData{Reason: string(reason)})
}

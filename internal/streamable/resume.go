package streamable

import (
	"errors"
	"net/http"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// resume serves a GET that goes on after an event: with what followed on that stream,
// and then with what comes (specification 2025-11-25: "Resumability and Redelivery").
// A refusal is never a 404, by which a client would learn that its session is gone.
func (x *exchange) resume(s *session.Session, lastEventID string) {
	reader, err := s.Resume(x.r.Context(), lastEventID)
	switch {
	case err == nil:
	case errors.Is(err, session.ErrEventUnknown):
		x.refuse(http.StatusBadRequest, mcp.RefuseEventUnknown, refusal("there is no stream to be resumed from this event", mcp.RefuseEventUnknown))
		return
	case errors.Is(err, session.ErrStreamTaken):
		x.refuse(http.StatusConflict, mcp.RefuseConflict, refusal("another connection reads this stream", mcp.RefuseConflict))
		return
	case errors.Is(err, mcp.ErrClosed): // the session has ended just now
		x.refuse(http.StatusNotFound, mcp.RefuseSessionUnknown, session.SessionUnknown())
		return
	case x.r.Context().Err() != nil:
		return // nobody hears it
	default:
		x.w.Header().Set("Retry-After", "1")
		x.refuse(http.StatusServiceUnavailable, mcp.RefuseEventStore, mcp.NewError(mcp.CodeInternalError,
			"the stream cannot be read just now").WithData(mcp.ErrorData{Reason: string(mcp.RefuseEventStore)}))
		return
	}
	defer reader.Close()
	sink := x.sink(mcp.Legacy)
	if sink.open() == nil {
		_ = x.pump(reader, sink)
	}
}

func refusal(text string, reason mcp.RefuseReason) *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidRequest, "%s", text).WithData(mcp.ErrorData{Reason: string(reason)})
}

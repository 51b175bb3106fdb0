package streamable

import (
	"fmt"
	"net/http"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// acceptBoth is what nearly all clients send; it is not taken apart each time.
const acceptBoth = "application/json, text/event-stream"

// negotiate finds out in which forms the client takes the answer, and refuses the
// exchange if there is none.
func (x *exchange) negotiate() bool {
	if accept := x.r.Header["Accept"]; len(accept) == 1 && accept[0] == acceptBoth {
		x.json, x.events = true, true
	} else {
		x.json, x.events = acceptsAny(x.r.Header, "application/json", "application/*"), acceptsEvents(x.r.Header)
	}
	if !x.json && !x.events {
		x.refuse(http.StatusNotAcceptable, mcp.RefuseAccept, mcp.NewError(mcp.CodeInvalidRequest,
			"Accept must allow application/json or text/event-stream"))
		return false
	}
	if x.events && !canFlush(x.w) {
		x.unflushable(x.w)
		if x.events = false; !x.json {
			x.refuseEvents()
			return false
		}
	}
	return true
}

// stream opens the stream for the one answer of the exchange. To a client that takes no
// event stream it carries nothing else.
func (x *exchange) stream(era mcp.Era) *session.Stream {
	st := x.core.Exchange(x.conn, 1, era)
	switch {
	case !x.events:
		st.AnswersOnly()
	case !x.json:
		st.EventsOnly()
	}
	return st
}

// canFlush reports whether what was written to w can be handed to the client before the
// exchange ends. It looks where http.ResponseController looks.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case interface{ FlushError() error }, http.Flusher:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// unflushable logs once that something around the endpoint hides Flush. That is a fault
// of the program, and no peer's.
func (h *Endpoint) unflushable(w http.ResponseWriter) {
	h.warned.Do(func() {
		h.core.Logger().Error("http.flush_unsupported", "writer", fmt.Sprintf("%T", w),
			"effect", "no event streams, and answers leave when the exchange ends",
			"remedy", "wrap the endpoint in nothing whose ResponseWriter has neither Flush nor Unwrap, such as http.TimeoutHandler")
	})
}

// refuseEvents answers who wants an event stream that cannot be had.
func (x *exchange) refuseEvents() {
	x.refuse(http.StatusInternalServerError, mcp.RefuseNoFlush, mcp.NewError(mcp.CodeInternalError,
		"this server has no event streams: something around its MCP endpoint hides Flush of http.ResponseWriter"))
}

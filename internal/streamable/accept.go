package streamable

import (
	"net/http"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// acceptBoth is the header of nearly all clients. It is compared first. The plain version parses it for
// each request, which takes 5 % more instructions (BenchmarkCost of package server).
const acceptBoth = "application/json, text/event-stream"

// negotiate finds the forms in which the client takes the answer, and refuses the exchange
// if there is none.
func (x *exchange) negotiate() bool {
	if accept := x.r.Header["Accept"]; len(accept) == 1 && accept[0] == acceptBoth {
		x.json, x.events = true, true
	} else {
		x.json, x.events = accepts(x.r.Header, "application/json", "application/*"), acceptsEvents(x.r.Header)
	}
	if !x.json && !x.events {
		x.refuse(http.StatusNotAcceptable, mcp.RefuseAccept, invalid("Accept must allow application/json or text/event-stream"))
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

// canFlush reports whether w can send written bytes to the client before the exchange ends.
// It looks for the methods that http.ResponseController uses.
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

// refuseEvents refuses an exchange that needs an event stream, because w cannot flush.
func (x *exchange) refuseEvents() {
	x.refuse(http.StatusInternalServerError, mcp.RefuseNoFlush, mcp.NewError(mcp.CodeInternalError,
		"this server has no event streams: something around its MCP endpoint hides Flush of http.ResponseWriter"))
}

// acceptsEvents reports whether the client takes an event stream.
func acceptsEvents(h http.Header) bool { return accepts(h, "text/event-stream", "text/*") }

// accepts reports whether the client takes a media type, which is one of a group. A missing header counts as yes. Of several
// ranges that have the type, the most exact one decides (RFC 9110, section 12.5.1).
func accepts(h http.Header, media, group string) bool {
	values := h.Values("Accept")
	accepted, exactness := len(values) == 0, 0
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			name, parameters, _ := strings.Cut(part, ";")
			switch n := 1 + slices.Index([]string{"*/*", group, media}, strings.ToLower(strings.TrimSpace(name))); {
			case n > exactness:
				accepted, exactness = !hasNoWeight(parameters), n
			case n > 0 && n == exactness:
				accepted = accepted || !hasNoWeight(parameters)
			}
		}
	}
	return accepted
}

// hasNoWeight reports whether the parameters of a media range have q=0, which means that the client does not take it.
func hasNoWeight(parameters string) bool {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(p, "=")
		if value = strings.TrimSpace(value); strings.EqualFold(strings.TrimSpace(name), "q") && value != "" {
			return strings.Trim(value, "0.") == ""
		}
	}
	return false
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(media), "application/json")
}

// plain reports whether the body is not encoded.
func plain(h http.Header) bool {
	for _, v := range h.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(v, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return false
			}
		}
	}
	return true
}

package streamable

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file has the responses that no stream carries.

// unreadable answers a body that did not arrive, or is no message.
func (x *exchange) unreadable(err error) {
	if bad := (*wire.Error)(nil); errors.As(err, &bad) {
		x.malformed(bad)
		return
	}
	x.refuseBody(err)
}

// unanswered ends an exchange whose stream was failed under a request that still
// waits for its answer: in the legacy era because its session has ended, in the
// modern one, which has none, because the drain gives up.
func (x *exchange) unanswered(era mcp.Era) {
	if era == mcp.Legacy {
		x.fail(http.StatusNotFound, session.SessionUnknown())
		return
	}
	x.w.Header().Set("Retry-After", "1")
	x.w.Header().Set("Connection", "close")
	x.fail(http.StatusServiceUnavailable, session.ShuttingDown())
}

func (x *exchange) methodNotAllowed() {
	allow := "GET, POST, DELETE"
	if x.namesModern() {
		allow = "POST"
	}
	x.w.Header().Set("Allow", allow)
	x.refuse(http.StatusMethodNotAllowed, mcp.RefuseMethod, mcp.NewError(mcp.CodeInvalidRequest,
		"method not allowed: messages come by POST; GET and DELETE are for sessions and need %s", headerSessionID))
}

// malformed answers a body that is no message.
func (x *exchange) malformed(bad *wire.Error) {
	stream := x.core.Exchange(x.conn, 1, mcp.Modern)
	x.core.Malformed(bad, stream, x.wantsNullID(), x.sender()...)
	if bad.Kind == wire.Response || bad.Kind == wire.Notification {
		x.fail(http.StatusBadRequest, bad.RPC())
		return
	}
	x.respond(stream, mcp.Modern, "")
}

// reject answers a message that found no session. The id of a response is one of ours, so
// that an error does not carry it.
func (x *exchange) reject(in *session.Inbound, reason mcp.RejectReason, err *mcp.Error) {
	x.core.RejectUnadmitted(in, reason, err)
	status := rejectStatus(reason)
	switch reason {
	case mcp.RejectShuttingDown:
		x.w.Header().Set("Connection", "close")
		fallthrough
	case mcp.RejectOverload:
		x.w.Header().Set("Retry-After", "1")
	}
	if in.Kind != wire.Request {
		x.fail(status, err)
		return
	}
	x.write(status, wire.AppendError(nil, in.ID, err))
}

// fail answers with an error that belongs to no request.
func (x *exchange) fail(status int, err *mcp.Error) {
	frame := wire.AppendError(nil, mcp.ID{}, err)
	if x.wantsNullID() {
		frame = wire.AppendErrorNullID(nil, err)
	}
	x.write(status, frame)
}

func (x *exchange) write(status int, body []byte) {
	x.w.Header().Set("Content-Type", "application/json")
	x.bare(status, body)
}

// bare writes a response that no stream carries, and hands it to the kernel as long as
// the write is bounded: net/http would do so after the exchange, and without a bound.
func (x *exchange) bare(status int, body []byte) {
	h := x.w.Header()
	if x.core.Draining() {
		h.Set("Connection", "close")
	}
	if status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	now := time.Now()
	if x.bodyEnd.After(now) {
		now = x.bodyEnd // net/http reads what is left of the body first
	}
	bounded := x.rc.SetWriteDeadline(now.Add(x.core.Limits().WriteTimeout)) == nil
	x.w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = x.w.Write(body) // the peer's loss: no request is behind it
	}
	_ = x.rc.Flush()
	if bounded {
		_ = x.rc.SetWriteDeadline(time.Time{})
	}
}

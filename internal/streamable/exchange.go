package streamable

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An exchange is one HTTP request and its response.
type exchange struct {
	*Endpoint
	w  http.ResponseWriter
	r  *http.Request
	rc http.ResponseController
	// conn is the connection, with the principal of this exchange.
	conn *session.Conn
	// bodyEnd is the deadline for the body; zero if there is no body, or it has arrived.
	bodyEnd time.Time
	// held is what a large header and the body hold of the budget for messages, until the exchange
	// ends; nil is nothing. header has the bytes of the header in it.
	held   *session.Body
	header int
	// visited is the session that the message is for, until the exchange leaves it; or nil.
	visited *session.Session
	// from is the record of the caller, with a reference, once there is a message; nil before.
	from *share.Caller
	// began is when the header had arrived. in is the message of a POST, or nil.
	began time.Time
	in    *session.Inbound
	// turn is held from the moment when the message has come until its handler is called, see
	// [session.Inbound]. It is given back before anything is written.
	turn share.Turn
	// slowBody is true if the body took longer than slowAfter.
	slowBody bool
	// json and events are the forms in which the client takes the answer to a POST.
	json, events bool
	// out is the sink of the exchange's stream. It is the zero value before there is one.
	out httpSink
}

// release gives up what the exchange holds. Requests that are not over hold it longer.
func (x *exchange) release() {
	x.leave()
	x.turn.Give()
	if x.from != nil {
		x.from.Release()
	}
	x.held.Release()
}

// onlyPost reports whether POST is the only method: the version header names a modern revision,
// or there are no legacy sessions.
func (x *exchange) onlyPost() bool {
	era, known := mcp.Version(x.r.Header.Get(headerVersion)).Era()
	return known && era == mcp.Modern || !x.core.Serves(mcp.Legacy)
}

// visit returns the session with an id, or why there is none. It is not idle before [exchange.leave].
func (x *exchange) visit(id string) (*session.Session, mcp.RejectReason, *mcp.Error) {
	if x.visited != nil {
		return x.visited, "", nil
	}
	s, reason, err := x.core.Visit(id, x.conn, &x.turn)
	x.visited = s
	return s, reason, err
}

// leave ends the visit of the session, if there is one.
func (x *exchange) leave() {
	if x.visited != nil {
		x.visited.Leave()
		x.visited = nil
	}
}

// sessionOrRefuse returns the session with an id, or refuses the exchange and returns nil.
func (x *exchange) sessionOrRefuse(id string) *session.Session {
	if err := checkRepeated(x.r.Header, headerVersion, headerSessionID, headerLastEvent); err != nil {
		x.refuse(http.StatusBadRequest, mcp.RefuseHeader, err)
		return nil
	}
	if x.refuseUnknownVersion() {
		return nil
	}
	s, reason, err := x.visit(id)
	switch reason {
	case "":
	case mcp.RejectSessionUnknown:
		x.refuse(http.StatusNotFound, mcp.RefuseSessionUnknown, err)
	case mcp.RejectShuttingDown:
		x.w.Header().Set("Retry-After", "1")
		x.refuse(http.StatusServiceUnavailable, mcp.RefuseShuttingDown, err)
	default:
		x.w.Header().Set("Retry-After", "1")
		x.refuse(http.StatusTooManyRequests, mcp.RefuseOverload, err)
	}
	return s
}

// refuseUnknownVersion refuses an exchange without a request whose version header names no revision that exists (specification
// 2025-11-25: "Protocol Version Header"), and reports whether it has. Without the header the revision is that of the session.
func (x *exchange) refuseUnknownVersion() bool {
	version := x.r.Header.Get(headerVersion)
	if _, known := mcp.Version(version).Era(); known || version == "" {
		return false
	}
	x.refuse(http.StatusBadRequest, mcp.RefuseVersion, invalid("unsupported %s", headerVersion))
	return true
}

// wantsNullID reports whether an error that belongs to no request has the id null. JSON-RPC
// and the revisions up to 2025-06-18 have it. Later revisions have no id there, and the schema
// of the modern era forbids null. The revision is that of the session, or else that of the
// version header. A client that sends no header is not a modern one: it has not begun a
// session, or its revision has no such header.
func (x *exchange) wantsNullID() bool {
	version := mcp.Version(x.r.Header.Get(headerVersion))
	if era, known := version.Era(); version != "" && (!known || era == mcp.Modern) {
		return false
	}
	if p := x.core.PeerOf(x.r.Header.Get(headerSessionID), x.conn.Principal); p != nil {
		version = p.Version
	}
	return !version.AtLeast(mcp.Version20251125)
}

// stream opens the stream for the one answer of the exchange. For a client that takes no
// event stream it carries nothing but the answer.
func (x *exchange) stream(era mcp.Era) *stream.Stream {
	st := x.core.Exchange(x.conn, 1, era)
	switch {
	case !x.events:
		st.AnswersOnly()
	case !x.json:
		st.EventsOnly()
	}
	return st
}

// respond writes the messages of the stream until its answer is sent. It reports whether the
// answer was a result and was sent. An exchange has no other writer.
func (x *exchange) respond(stream *stream.Stream, era mcp.Era, opened *session.Session) bool {
	sink := x.answerTo(stream, era, opened)
	err := x.pump(stream, sink)
	x.responded(sink, stream, err)
	return sink.sent // not the error of Pump: the client may hang up as soon as it has its answer
}

// answerTo returns the sink of the stream. It and responded are functions of their own so that a stream
// that stays open does not keep their frames: with them its goroutine has twice the stack.
func (x *exchange) answerTo(stream *stream.Stream, era mcp.Era, opened *session.Session) *httpSink {
	sink := x.sink(era)
	sink.opened = opened
	sink.streams = sink.streams && !stream.TakesAnswersOnly()
	if x.slowBody && !sink.http2 {
		sink.SetWriteDeadline(time.Now().Add(x.core.Limits().WriteTimeout)) // replaces the server's, see slowAfter
	}
	return sink
}

// responded answers in place of a stream that has written nothing, and notes how others have ended. err
// is that of Pump.
func (x *exchange) responded(sink *httpSink, stream *stream.Stream, err error) {
	if err != nil && !sink.started && x.r.Context().Err() == nil {
		x.unanswered(sink.era, stream.Reason()) // a client that leaves now has its answer
		return
	}
	if sink.events || !sink.answered {
		x.ended(sink, stream.ExchangeFailure())
	}
}

func (x *exchange) sink(era mcp.Era) *httpSink {
	x.out = httpSink{
		endpoint: x.Endpoint, w: x.w, rc: &x.rc, lost: x.r.Context(), era: era, json: x.json, streams: x.events, http2: x.r.ProtoMajor >= 2,
	}
	if x.out.http2 {
		if server, ok := x.r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.WriteTimeout > 0 {
			x.out.SetWriteDeadline(time.Time{}) // the server's would end an answer that takes longer
		}
	}
	return &x.out
}

// A pumper is a stream, or the reader of a stream that is resumed.
type pumper interface {
	Pump(stream.Sink) error
	ExchangeFailure() mcp.DropReason
}

// pump writes the stream until it ends or the peer is lost.
func (x *exchange) pump(stream pumper, sink *httpSink) error {
	err := stream.Pump(sink)
	sink.done()
	return err
}

// invalid returns the error for a request that breaks a rule of HTTP or of the protocol.
func invalid(format string, args ...any) *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidRequest, format, args...)
}

// refuse answers an exchange whose message is not read.
func (x *exchange) refuse(status int, reason mcp.RefuseReason, err *mcp.Error) {
	x.refuseRequest(mcp.ID{}, status, reason, err)
}

// refuseRequest answers an exchange whose request is not admitted. The answer has the id of
// the request.
func (x *exchange) refuseRequest(id mcp.ID, status int, reason mcp.RefuseReason, err *mcp.Error) {
	refusal, _ := mcp.AsRefusal(err)
	refused := &session.RefusedExchange{Conn: x.conn, Method: x.r.Method, Reason: reason, Refusal: refusal, Status: status}
	x.core.RefuseExchange(context.WithoutCancel(x.r.Context()), refused, append(x.sender(),
		"status", status, "error", err.Message, "host", logline.Printable(x.r.Host, maxShown))...)
	x.write(status, wire.AppendError(nil, id, err))
}

// refuseCaller answers a caller that the authenticator refuses, before the body is read.
func (x *exchange) refuseCaller(r *mcp.Refusal) {
	describeRefusal(x.w.Header(), r)
	if strings.HasPrefix(r.Reason, "certificate_") && x.r.TLS != nil && len(x.r.TLS.VerifiedChains) > 0 {
		x.w.Header().Set("Connection", "close") // another certificate needs another connection
	}
	x.refuse(int(r.Code()), mcp.RefuseAuthentication, r.RPC())
}

// methodNotAllowed refuses an exchange with another HTTP method.
func (x *exchange) methodNotAllowed() {
	allow, text := "GET, POST, DELETE", "; GET and DELETE are for sessions and need "+headerSessionID
	if x.onlyPost() {
		allow = "POST"
	}
	if !x.core.Serves(mcp.Legacy) {
		text = ", and this server has no sessions"
	}
	x.w.Header().Set("Allow", allow)
	x.refuse(http.StatusMethodNotAllowed, mcp.RefuseMethod, invalid("method not allowed: messages come by POST%s", text))
}

// sender returns the log attributes of the client.
func (x *exchange) sender() []any {
	return append(x.core.PeerAttrs(x.conn, x.in, x.visited),
		"remote", x.conn.RemoteAddr, "agent", logline.Printable(x.r.UserAgent(), maxShown))
}

// fail answers with an error, which has the id of the request if there is one.
func (x *exchange) fail(status int, err *mcp.Error) {
	var frame []byte
	switch {
	case x.in != nil && x.in.Kind == wire.Request:
		frame = wire.AppendError(nil, x.in.ID, err)
	case x.wantsNullID():
		frame = wire.AppendErrorNullID(nil, err)
	default:
		frame = wire.AppendError(nil, mcp.ID{}, err)
	}
	x.write(status, frame)
}

func (x *exchange) write(status int, body []byte) {
	x.w.Header().Set("Content-Type", "application/json")
	x.bare(status, body)
}

// bare writes a response without a stream. It flushes while the write is bounded: net/http
// would flush after the exchange, without a bound.
func (x *exchange) bare(status int, body []byte) {
	x.turn.Give()
	h := x.w.Header()
	if x.core.Leaving() {
		h.Set("Connection", "close")
	}
	if status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	now := time.Now()
	if x.bodyEnd.After(now) {
		now = x.bodyEnd // net/http reads the rest of the body first
	}
	bounded := x.rc.SetWriteDeadline(now.Add(x.core.Limits().WriteTimeout)) == nil
	x.w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = x.w.Write(body) // an error is the peer's loss: no request waits for this
	}
	_ = x.rc.Flush()
	if bounded {
		_ = x.rc.SetWriteDeadline(time.Time{})
	}
}

// unanswered ends an exchange whose stream has failed before the answer: in the legacy era
// because the session has ended, in the modern era because the drain has timed out; in both if
// too much waits for the caller.
func (x *exchange) unanswered(era mcp.Era, reason mcp.DropReason) {
	switch {
	case reason == mcp.DropOverload:
		x.w.Header().Set("Retry-After", "1")
		x.fail(http.StatusTooManyRequests, session.Overload(limits.NameQueuedBytesTotal))
		return
	case era == mcp.Legacy && !(x.core.SealsSessions() && x.core.Draining()): // another server may go on with a sealed session
		x.fail(http.StatusNotFound, session.SessionUnknown())
		return
	}
	x.w.Header().Set("Retry-After", "1")
	x.w.Header().Set("Connection", "close")
	x.fail(http.StatusServiceUnavailable, session.ShuttingDown())
}

// malformed answers a body that is not a message.
func (x *exchange) malformed(bad *wire.Error) {
	stream := x.core.Exchange(x.conn, 1, mcp.Modern)
	x.core.Malformed(bad, stream, x.wantsNullID(), x.sender()...)
	if bad.Kind == wire.Response || bad.Kind == wire.Notification {
		x.fail(http.StatusBadRequest, bad.RPC())
		return
	}
	x.respond(stream, mcp.Modern, nil)
}

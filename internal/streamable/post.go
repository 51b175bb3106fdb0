package streamable

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"runtime"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// post serves a POST: one message. If it gets an answer, that is the response.
func (x *exchange) post() {
	in := x.message()
	x.in = in
	switch {
	case in == nil: // answered already
	case !x.core.Serves(in.Era):
		in.Version = mcp.Version(x.r.Header.Get(headerVersion))
		x.reject(in, mcp.RejectEra, x.core.EraForbidden(in))
	case in.Era == mcp.Modern:
		x.modernPost(in)
	default:
		x.legacyPost(in)
	}
}

// message reads the one message of a POST. If there is none, it answers the exchange and
// returns nil. It is a function of its own so that an exchange that stays open does not keep
// its large stack frame.
func (x *exchange) message() *session.Inbound {
	if !x.negotiate() {
		return nil
	}
	if types := x.r.Header["Content-Type"]; len(types) != 1 || !isJSON(types[0]) {
		x.refuse(http.StatusUnsupportedMediaType, mcp.RefuseContentType, invalid("Content-Type must be application/json"))
		return nil
	}
	if !plain(x.r.Header) {
		x.w.Header().Set("Accept-Encoding", "identity") // RFC 9110, section 12.5.3
		x.refuse(http.StatusUnsupportedMediaType, mcp.RefuseContentEncoding,
			invalid("Content-Encoding is not supported: the body must be plain JSON"))
		return nil
	}
	in := &session.Inbound{Conn: x.conn, Values: x.r.Context(), Header: x.r.Header}
	body, err := x.body()
	if err == nil {
		err = x.takeTurn()
		in.Caller, in.Turn = x.from, &x.turn
	}
	if err == nil {
		if wire.IsBatch(body) && x.batch(body) {
			return nil
		}
		in.Bytes, in.Body = len(body), x.held
		in.Envelope, err = wire.Decode(body, x.core.Limits().Wire())
	}
	if err != nil {
		x.unreadable(err)
		return nil
	}
	if x.modern(&in.Envelope) {
		in.Era = mcp.Modern
	}
	return in
}

// modern chooses the era of a message.
func (x *exchange) modern(env *wire.Envelope) bool {
	if env.Meta.HasProtocolVersion {
		return true
	}
	version := x.r.Header.Get(headerVersion)
	if version == "" {
		return false
	}
	era, known := mcp.Version(version).Era()
	switch {
	case env.Kind == wire.Request:
		return !known || era == mcp.Modern // the modern error for an unknown revision lists those that are served
	case env.Kind == wire.Response && x.r.Header.Get(headerSessionID) != "": // it names no revision; its session has one
		return false
	}
	return known && era == mcp.Modern
}

// modernPost serves a message of the modern era.
func (x *exchange) modernPost(in *session.Inbound) {
	switch in.Kind {
	case wire.Notification:
		if x.refuseUnknownVersion() {
			return
		}
		x.turn.Give() // its handler may wait
		x.acknowledge(x.core.Notify(in))
	case wire.Response:
		x.core.IgnoreResponse(mcp.IgnoreEraForbidden)
		x.fail(http.StatusBadRequest, invalid("a client sends no responses"))
	case wire.Request:
		if in.Method == mcp.MethodSubscriptionsListen && !x.events { // its answer has no other form
			x.refuseRequest(in.ID, http.StatusNotAcceptable, mcp.RefuseAccept, invalid("Accept must allow text/event-stream"))
			return
		}
		in.Version = mcp.Version(in.Meta.ProtocolVersion)
		in.Refusal = checkModern(in)
		stream := x.stream(mcp.Modern)
		x.core.Receive(in, stream)
		x.respond(stream, mcp.Modern, nil)
	}
}

// legacyPost serves a message of the legacy era.
func (x *exchange) legacyPost(in *session.Inbound) {
	if err := checkLegacy(in); err != nil {
		x.refuseHeader(in, err)
		return
	}
	id := x.r.Header.Get(headerSessionID)
	if id == "" && in.Kind == wire.Request && in.Method == mcp.MethodInitialize {
		x.initialize(in)
		return
	}
	if x.refuseUnknownVersion() {
		return
	}
	if id == "" {
		x.reject(in, mcp.RejectNotInitialized, x.missingSession())
		return
	}
	s, reason, unknown := x.visit(id)
	if s == nil {
		x.reject(in, reason, unknown)
		return
	}
	if in.Kind != wire.Request {
		x.turn.Give() // the handler of a notification may wait
		x.acknowledge(s.ReceiveOn(in, nil))
		return
	}
	stream := x.stream(mcp.Legacy)
	s.ReceiveOn(in, stream)
	x.respond(stream, mcp.Legacy, nil)
}

// missingSession returns the error for a legacy message without a session.
func (x *exchange) missingSession() *mcp.Error {
	headers := ""
	if x.core.Serves(mcp.Modern) {
		headers = " and the headers MCP-Protocol-Version, Mcp-Method and, if there is a name or uri, " + headerName
	}
	return invalid("%s is missing: %s%s", headerSessionID, x.core.WaysIn(), headers)
}

// refuseHeader refuses a message whose headers are in error. The id of a response is an id of the
// server, so that the error does not carry it.
func (x *exchange) refuseHeader(in *session.Inbound, err *mcp.Error) {
	id := in.ID
	if in.Kind != wire.Request {
		id = mcp.ID{}
	}
	x.refuseRequest(id, http.StatusBadRequest, mcp.RefuseHeader, err)
}

// acknowledge ends the exchange of a message without an answer. refused is nil, or why it was not
// handled.
func (x *exchange) acknowledge(refused *mcp.Refusal) {
	if refused == nil {
		x.bare(http.StatusAccepted, nil)
		return
	}
	describeRefusal(x.w.Header(), refused)
	x.fail(int(refused.Code()), refused.RPC())
}

// initialize opens a session. The session is closed unless a success is sent.
func (x *exchange) initialize(in *session.Inbound) {
	s := x.core.Prepare(x.conn, rand.Text())
	stream := x.stream(mcp.Legacy)
	if x.core.SealsSessions() {
		stream.AnswersOnly() // the id contains what is agreed on, so that no header can be written before the answer
	}
	s.ReceiveOn(in, stream)
	if !x.respond(stream, mcp.Legacy, s) {
		s.Close(mcp.CauseTransportClose)
	}
}

// unreadable answers a body that did not arrive, or is not a message.
func (x *exchange) unreadable(err error) {
	if bad := (*wire.Error)(nil); errors.As(err, &bad) {
		x.malformed(bad)
		return
	}
	x.refuseBody(err)
}

// reject answers a message without a session. The id of a response is an id of the server, so
// that the error does not carry it.
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
	x.fail(status, err)
}

// takeTurn waits until it is the turn of the caller. The body has arrived, so that a slow one holds no
// turn.
func (x *exchange) takeTurn() error {
	x.from = x.core.Caller(x.conn)
	ctx := x.r.Context()
	if !x.onlyPost() {
		ctx = context.Background() // a legacy message has arrived although its client hangs up
	}
	// A client that pipelines has sent its next message already when the last one is answered, and Go would let the same goroutine
	// go on for 10 ms. So the goroutine of each message yields once. With several callers it holds its turn then: no more goroutines than
	// there are turns are in the scheduler's queue for this, and others are not behind them. With one caller it yields before, because
	// otherwise most of its messages would wait for a turn.
	several := x.core.SeveralTakeTurns()
	if !several {
		runtime.Gosched()
	}
	err := x.core.TakeTurn(ctx, &x.turn, x.from)
	if err == nil && several {
		runtime.Gosched()
	}
	return err
}

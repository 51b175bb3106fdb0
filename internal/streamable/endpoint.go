package streamable

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Header names of the protocol.
const (
	headerVersion   = "Mcp-Protocol-Version"
	headerMethod    = "Mcp-Method"
	headerName      = "Mcp-Name"
	headerSessionID = "Mcp-Session-Id"
	headerLastEvent = "Last-Event-Id"
)

// Config configures [New]. The zero value is safe on a loopback listener.
type Config struct {
	// AllowedHosts and AllowedOrigins name what the Host and Origin headers may say,
	// beside loopback names on a loopback listener. "*" allows everything. An entry
	// without a port matches every port. A page of the endpoint's own host may use it
	// if AllowedHosts names the host, or if the host is an address: without a list, a
	// name may be one that was rebound.
	AllowedHosts   []string
	AllowedOrigins []string
	// AllowedHeaders names what pages of these origins may send beside the headers of
	// the protocol and Authorization. "*" allows everything.
	AllowedHeaders []string
}

// An Endpoint is the Streamable HTTP endpoint of one core (specification: "Transports").
// It is an http.Handler for one path and serves both eras.
type Endpoint struct {
	core    *session.Core
	edge    edge
	headers string    // what pages may send, as a preflight is told
	warned  sync.Once // that there is no Flush
}

// New returns the endpoint of a core. It panics with the error of
// [Config.Check], as that is a mistake at start-up.
func New(core *session.Core, cfg Config) *Endpoint {
	if err := cfg.Check(); err != nil {
		panic(err)
	}
	return &Endpoint{
		core: core, edge: edge{hosts: cfg.AllowedHosts, origins: cfg.AllowedOrigins},
		headers: strings.Join(append([]string{corsHeaders}, cfg.AllowedHeaders...), ", "),
	}
}

// RestrictsHosts reports whether there is a list of what the Host header may say
// on a listener that is not a loopback one.
func (h *Endpoint) RestrictsHosts() bool { return len(h.edge.hosts) > 0 }

// ServeHTTP implements http.Handler.
func (h *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{Endpoint: h, w: w, r: r, rc: *http.NewResponseController(w)}
	x.bound()
	if reason := h.edge.check(r); reason != "" {
		x.refuse(http.StatusForbidden, reason, mcp.NewError(mcp.CodeInvalidRequest, "%s", forbidden(r, reason)))
		return
	}
	x.cors()
	if x.preflight() {
		return
	}
	x.conn = connOf(r)
	var refused *mcp.Refusal
	if x.conn.Principal, refused = h.core.Authenticate(r.Context(), callerOf(r)); refused != nil {
		x.refuseCaller(refused)
		return
	}
	switch r.Method {
	case http.MethodPost:
		x.post()
	case http.MethodGet:
		x.get()
	case http.MethodDelete:
		x.deleteSession()
	default:
		x.methodNotAllowed()
	}
}

// An exchange is one HTTP request and its response.
type exchange struct {
	*Endpoint
	w  http.ResponseWriter
	r  *http.Request
	rc http.ResponseController
	// conn is the connection, and who speaks over it in this exchange.
	conn *session.Conn
	// bodyEnd is when the body must have arrived; zero if there is none, or it has.
	bodyEnd time.Time
	// slowBody: it has come slowly.
	slowBody bool
	// json and events tell in which forms the client takes the answer to a POST.
	json, events bool
	// out is the exchange as the end of a stream, if one has come that far.
	out httpSink
}

// post serves a POST: one message, whose answer, if it gets one, is the response.
func (x *exchange) post() {
	in := x.message()
	switch {
	case in == nil: // answered already
	case in.Era == mcp.Modern:
		x.modernPost(in)
	default:
		x.legacyPost(in)
	}
}

// message reads the one message of a POST, or answers what is none and returns nil. It
// is a function of its own so that an exchange that stays open does not keep the large
// frame on its stack in which the message was decoded.
func (x *exchange) message() *session.Inbound {
	if !x.negotiate() {
		return nil
	}
	if !isJSON(x.r.Header.Get("Content-Type")) {
		x.refuse(http.StatusUnsupportedMediaType, mcp.RefuseContentType, mcp.NewError(mcp.CodeInvalidRequest,
			"Content-Type must be application/json"))
		return nil
	}
	if !plain(x.r.Header) {
		x.w.Header().Set("Accept-Encoding", "identity") // RFC 9110, section 12.5.3
		x.refuse(http.StatusUnsupportedMediaType, mcp.RefuseContentEncoding, mcp.NewError(mcp.CodeInvalidRequest,
			"Content-Encoding is not supported: the body must be plain JSON"))
		return nil
	}
	in := &session.Inbound{Conn: x.conn, Values: x.r.Context(), Header: x.r.Header}
	body, err := x.body()
	if err == nil {
		if wire.IsBatch(body) && x.batch(body) {
			return nil
		}
		in.Bytes = len(body)
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
	if env.Kind == wire.Response { // it names no revision, and belongs to its session
		return known && era == mcp.Modern && x.r.Header.Get(headerSessionID) == ""
	}
	return !known || era == mcp.Modern
}

// modernPost serves a message of the modern era.
func (x *exchange) modernPost(in *session.Inbound) {
	switch in.Kind {
	case wire.Notification:
		x.core.Notify(in)
		x.bare(http.StatusAccepted, nil)
	case wire.Response:
		x.core.IgnoreResponse(mcp.IgnoreEraForbidden)
		x.fail(http.StatusBadRequest, mcp.NewError(mcp.CodeInvalidRequest, "a client sends no responses"))
	case wire.Request:
		if in.Method == mcp.MethodSubscriptionsListen && !x.events { // it has no other form
			x.refuseRequest(in.ID, http.StatusNotAcceptable, mcp.RefuseAccept, mcp.NewError(mcp.CodeInvalidRequest,
				"Accept must allow text/event-stream"))
			return
		}
		in.Version = mcp.Version(in.Meta.ProtocolVersion)
		in.Refusal = checkModern(in)
		stream := x.stream(mcp.Modern)
		x.core.Receive(in, stream)
		x.respond(stream, mcp.Modern, "")
	}
}

// legacyPost serves a message of the legacy era.
func (x *exchange) legacyPost(in *session.Inbound) {
	id := x.r.Header.Get(headerSessionID)
	if id == "" && in.Kind == wire.Request && in.Method == mcp.MethodInitialize {
		x.initialize(in)
		return
	}
	if version := x.r.Header.Get(headerVersion); version != "" {
		if _, known := mcp.Version(version).Era(); !known {
			x.refuse(http.StatusBadRequest, mcp.RefuseVersion,
				mcp.NewError(mcp.CodeInvalidRequest, "unsupported %s", headerVersion))
			return
		}
	}
	s := x.session(id)
	switch {
	case id == "":
		x.reject(in, mcp.RejectNotInitialized, mcp.NewError(mcp.CodeInvalidRequest,
			"%s is missing: %s and the headers MCP-Protocol-Version, Mcp-Method and, if there is a name or uri, %s",
			headerSessionID, wire.WaysIn, headerName))
		return
	case s == nil:
		x.reject(in, mcp.RejectSessionUnknown, session.SessionUnknown())
		return
	}
	if in.Kind != wire.Request {
		s.ReceiveOn(in, nil)
		x.bare(http.StatusAccepted, nil)
		return
	}
	stream := x.stream(mcp.Legacy)
	s.ReceiveOn(in, stream)
	x.respond(stream, mcp.Legacy, "")
}

// initialize opens a session. It lives only if the answer is a success.
func (x *exchange) initialize(in *session.Inbound) {
	id := rand.Text()
	s := x.core.Prepare(x.conn, id)
	stream := x.stream(mcp.Legacy)
	s.ReceiveOn(in, stream)
	if !x.respond(stream, mcp.Legacy, id) {
		s.Close(mcp.CauseTransportClose)
	}
}

// respond writes what the stream carries until its answer is sent. It is the
// exchange's writer, and returns whether the answer was a result and was sent.
func (x *exchange) respond(stream *session.Stream, era mcp.Era, sessionID string) bool {
	sink := x.sink(era)
	sink.sessionID = sessionID
	if x.slowBody {
		sink.SetWriteDeadline(time.Now().Add(x.core.Limits().WriteTimeout)) // and not somebody else's
	}
	err := x.pump(stream, sink)
	if err != nil && !sink.started && x.r.Context().Err() == nil {
		x.unanswered(era)
	}
	return sink.sent // whatever Pump says: the client may hang up as soon as it has its answer
}

func (x *exchange) sink(era mcp.Era) *httpSink {
	x.out = httpSink{
		endpoint: x.Endpoint, w: x.w, rc: &x.rc, lost: x.r.Context(), era: era, json: x.json, streams: x.events,
	}
	return &x.out
}

// A pumper is a stream, or somebody who goes on reading one.
type pumper interface{ Pump(session.Sink) error }

// pump writes the stream until it ends or the peer is lost.
func (x *exchange) pump(stream pumper, sink *httpSink) error {
	err := stream.Pump(sink)
	sink.done()
	return err
}

// get serves a legacy session's own stream, for messages that belong to no request, or
// the rest of a stream whose exchange was lost.
func (x *exchange) get() {
	id := x.r.Header.Get(headerSessionID)
	if id == "" || x.namesModern() {
		x.methodNotAllowed()
		return
	}
	if !acceptsEvents(x.r.Header) {
		x.refuse(http.StatusNotAcceptable, mcp.RefuseAccept, mcp.NewError(mcp.CodeInvalidRequest, "Accept must allow text/event-stream"))
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
	stream := x.core.Exchange(x.conn, 0, mcp.Legacy)
	if !s.Attach(stream) {
		if x.core.Draining() {
			x.w.Header().Set("Retry-After", "1")
			x.refuse(http.StatusServiceUnavailable, mcp.RefuseShuttingDown, session.ShuttingDown())
			return
		}
		x.refuse(http.StatusConflict, mcp.RefuseConflict, mcp.NewError(mcp.CodeInvalidRequest, "the session has a stream already"))
		return
	}
	defer s.Detach(stream)
	sink := x.sink(mcp.Legacy)
	if sink.open() == nil {
		x.pump(stream, sink)
	}
}

// deleteSession ends a legacy session at its client's request. It does not wait
// for handlers.
func (x *exchange) deleteSession() {
	id := x.r.Header.Get(headerSessionID)
	if id == "" || x.namesModern() {
		x.methodNotAllowed()
		return
	}
	s := x.sessionOrRefuse(id)
	if s == nil {
		return
	}
	s.Close(mcp.CauseSessionDelete)
	x.bare(http.StatusNoContent, nil)
}

// namesModern reports whether the version header names a modern revision, which
// knows no method but POST.
func (x *exchange) namesModern() bool {
	era, known := mcp.Version(x.r.Header.Get(headerVersion)).Era()
	return known && era == mcp.Modern
}

// session returns the session with an id, if it is that of who speaks, or nil.
func (x *exchange) session(id string) *session.Session { return x.core.Session(id, x.conn.Principal) }

// sessionOrRefuse is session, and refuses the exchange if there is none.
func (x *exchange) sessionOrRefuse(id string) *session.Session {
	s := x.session(id)
	if s == nil {
		x.refuse(http.StatusNotFound, mcp.RefuseSessionUnknown, session.SessionUnknown())
	}
	return s
}

// callerOf describes who sends a request before it is known on whose behalf.
func callerOf(r *http.Request) auth.Caller {
	return auth.Caller{Transport: "http", Header: r.Header, RemoteAddr: r.RemoteAddr, TLS: r.TLS}
}

// connOf describes the connection of an exchange.
func connOf(r *http.Request) *session.Conn {
	version := "1.1"
	switch {
	case r.ProtoMajor == 2:
		version = "2"
	case r.ProtoMajor == 1 && r.ProtoMinor == 0:
		version = "1.0"
	}
	return &session.Conn{
		Transport: "http", Network: "tcp", Protocol: "http", ProtocolVersion: version, RemoteAddr: r.RemoteAddr,
	}
}

// acceptsEvents reports whether the client takes an event stream. A missing header and
// wildcards count as yes.
func acceptsEvents(h http.Header) bool { return acceptsAny(h, "text/event-stream", "text/*") }

func acceptsAny(h http.Header, media ...string) bool {
	values := h.Values("Accept")
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			name, _, _ := strings.Cut(part, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			if name == "*/*" || slices.Contains(media, name) {
				return true
			}
		}
	}
	return len(values) == 0
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(media), "application/json")
}

package streamable

import (
	"net/http"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// ServeHTTP implements http.Handler.
func (h *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{Endpoint: h, w: w, r: r, rc: *http.NewResponseController(w)}
	defer x.release()
	if !x.enter() {
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

// enter checks what holds for every exchange, and finds out who calls. It returns false if it has answered
// the exchange. It is a function of its own so that an exchange that stays open does not keep its large stack
// frame.
func (x *exchange) enter() bool {
	x.bound()
	x.conn = x.connOf(x.r)
	if HeaderLines(x.r.Header) > x.core.Limits().MaxHeaders {
		x.refuseHeaders("the header has")
		return false
	}
	BoundTrailers(x.r, x.core.Limits().MaxHeaders)
	if !x.holdHeader() {
		x.dropHeader()
		x.refuseBody(errBodyOverload)
		return false
	}
	if reason := x.edge.check(x.r); reason != "" {
		x.refuse(http.StatusForbidden, reason, invalid("%s", forbidden(x.r, reason)))
		return false
	}
	x.cors()
	if x.preflight() {
		return false
	}
	var refused *mcp.Refusal
	if x.conn.Principal, refused = x.core.Authenticate(x.r.Context(), x.caller()); refused != nil {
		x.refuseCaller(refused)
		return false
	}
	return true
}

// deleteSession closes a legacy session for its client. It does not wait for handlers.
func (x *exchange) deleteSession() {
	id := x.r.Header.Get(headerSessionID)
	if id == "" || x.onlyPost() {
		x.methodNotAllowed()
		return
	}
	s := x.sessionOrRefuse(id)
	if s == nil {
		return
	}
	s.Delete(x.r.Context(), x.conn)
	x.bare(http.StatusNoContent, nil)
}

// caller describes the sender of the request to the authenticator.
func (x *exchange) caller() auth.Caller {
	return auth.Caller{
		Transport: "http", Header: x.r.Header, RemoteAddr: x.conn.RemoteAddr, PeerAddr: x.r.RemoteAddr, TLS: x.r.TLS,
	}
}

// connOf describes the connection of an exchange, with the address of the caller.
func (h *Endpoint) connOf(r *http.Request) *session.Conn {
	version := "1.1"
	switch {
	case r.ProtoMajor == 2:
		version = "2"
	case r.ProtoMajor == 1 && r.ProtoMinor == 0:
		version = "1.0"
	}
	addr, ignored := h.proxies.Caller(r.RemoteAddr, r.Header)
	if ignored {
		h.untrusted(r.RemoteAddr)
	}
	conn := &session.Conn{
		Transport: "http", Network: "tcp", Protocol: "http", ProtocolVersion: version, RemoteAddr: addr,
	}
	if len(h.proxies.Networks()) > 0 {
		conn.Proxies, conn.Peer = &h.proxies, r.RemoteAddr
	}
	return conn
}

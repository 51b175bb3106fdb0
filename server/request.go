package server

import (
	"net/http"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A request is a request of the session core as middlewares see it, with what else is
// needed once for each, so that all of it is one allocation.
type request struct {
	middleware.Request
	labelled labelledContext
}

// newRequest shows a request of the session core to the chain.
func newRequest(r *session.Request, route middleware.Route) *request {
	in := r.Inbound
	req := &request{Request: middleware.Request{
		Route: route, ID: in.ID, Method: in.Method, Target: in.Name, Params: in.Params, Header: http.Header(in.Header),
		ArrivedAt: r.ArrivedAt(), Origin: r, Principal: in.Conn.Principal,
	}}
	describePeer(&req.Peer, in, r.Session())
	return req
}

// coreOf returns the session core's view of a request. It panics, which the core
// contains, if a middleware has passed on a request of its own making.
func coreOf(req *middleware.Request) *session.Request {
	r, ok := req.Origin.(*session.Request)
	if !ok {
		panic("server: a middleware has passed on a request without the Origin of the one that it was given")
	}
	return r
}

package server

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A request is a request of the session core as middlewares see it, with what else is
// needed once for each, so that all of it is one allocation. It is the Origin of what
// middlewares see.
type request struct {
	middleware.Request
	core     *session.Request
	labelled labelledContext
	call     Call
	called   atomic.Bool // call is in use: a middleware may call the handler again
}

// ContainedPanic counts and logs a panic that a middleware has contained.
func (r *request) ContainedPanic(where string, value any, stack []byte) {
	r.core.ContainedPanic(where, value, stack)
}

// newRequest shows a request of the session core to the chain.
func newRequest(r *session.Request, route middleware.Route) *request {
	in := r.Inbound
	req := &request{core: r, Request: middleware.Request{
		Route: route, ID: in.ID, Method: in.Method, Target: in.Name, Params: in.Params, Header: http.Header(in.Header),
		ArrivedAt: r.ArrivedAt(), Principal: in.Conn.Principal,
	}}
	req.Origin = req
	describePeer(&req.Peer, in, r.Session())
	return req
}

// coreOf returns the session core's view of a request. It panics, which the core
// contains, if a middleware has passed on a request of its own making.
func coreOf(req *middleware.Request) *session.Request {
	return originOf(req).core
}

func originOf(req *middleware.Request) *request {
	r, ok := req.Origin.(*request)
	if !ok {
		panic("server: a middleware has passed on a request without the Origin of the one that it was given")
	}
	return r
}

// newCall returns what the handler of a feature gets.
func (s *Server) newCall(ctx context.Context, req *middleware.Request) *Call {
	origin := originOf(req)
	call := &origin.call
	if !origin.called.CompareAndSwap(false, true) {
		call = new(Call)
	}
	call.Request, call.core, call.server, call.ctx = req, origin.core, s, ctx
	return call
}

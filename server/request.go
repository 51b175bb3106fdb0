package server

import (
	"context"
	"math"
	"net/http"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// A request has the middlewares' view of a request of the session core, and the Call for its handler.
// All of it is one allocation. It is the Origin of what middlewares see.
type request struct {
	middleware.Request
	core     *session.Request
	stages   *session.Stages // nil if the route has no middlewares
	labelled labelledContext
	call     Call
	called   atomic.Bool // call is in use; a middleware that calls the handler twice gets a new one, as all do in the plain version
}

// ContainedPanic counts and logs a panic that a middleware has recovered.
func (r *request) ContainedPanic(where string, value any, stack []byte) {
	r.core.ContainedPanic(where, value, stack)
}

// newRequest returns the middlewares' view of a request of the session core.
func newRequest(r *session.Request, route middleware.Route) *request {
	return (&request{}).of(r, route)
}

// newTimedRequest is newRequest for a route with middlewares, of which stages are the names.
func newTimedRequest(r *session.Request, route middleware.Route, stages []string) *request {
	req := &struct {
		request
		times session.Stages
	}{}
	req.times.Begin(r, stages)
	req.stages = &req.times
	return req.of(r, route)
}

// of describes a request of the session core. It returns its receiver.
func (r *request) of(core *session.Request, route middleware.Route) *request {
	in := core.Inbound
	r.core, r.Request = core, middleware.Request{
		Route: route, ID: in.ID, Method: in.Method, Target: in.Name, Params: in.Params, Header: http.Header(in.Header),
		ArrivedAt: core.ArrivedAt(), Principal: in.Conn.Principal,
	}
	r.Origin = r
	era.DescribePeer(&r.Peer, in, core.Session())
	return r
}

// Core implements [era.Origin].
func (r *request) Core() *session.Request { return r.core }

// newCall returns the Call for the handler of a request.
func newCall(ctx context.Context, req *middleware.Request, asker *ask.Asker) *Call {
	core := era.CoreOf(req)
	origin := req.Origin.(*request)
	call := &origin.call
	if !origin.called.CompareAndSwap(false, true) {
		call = new(Call)
	}
	call.Request, call.progress = req, math.Inf(-1)
	call.dialog.Asker, call.dialog.Request, call.dialog.Core, call.dialog.Ctx = asker, req, core, ctx
	return call
}

// A labelledContext is a context with the labels of its route. It is a part of the request, which
// saves two allocations for each request. The plain version is pprof.WithLabels.
type labelledContext struct {
	context.Context
	labels context.Context
}

// Value implements [context.Context].
func (c *labelledContext) Value(key any) any {
	if v := c.labels.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// A Class limits how many handlers run at once. It is shared by the registrations that name it. A
// handler that goes on as a task counts until it returns. Make a Class with [NewClass].
type Class struct{ class *session.Class }

// NewClass returns a class of which at most limit handlers run at once. Further requests wait in the
// queue; their deadline includes that time. The name has 1 to 128 bytes, all of printable characters; it is a label of
// metrics.
func NewClass(name string, limit int) *Class { return &Class{session.NewClass(name, limit)} }

// PerCaller bounds how many handlers of the class run at once for one caller, a principal or an
// address, and returns the class. 0, the default, is no bound but a fair share of the class. It
// must be called before the first request.
func (c *Class) PerCaller(limit int) *Class {
	c.class.Cap(limit)
	return c
}

// serving has the middlewares, the deadline and the class of a registration, and what it needs.
type serving struct {
	middlewares []middleware.Middleware // inside the server's own chain
	deadline    time.Duration
	class       *Class
	yieldsClass bool
	streams     bool
	restartable bool
	need        need
}

// check returns what is wrong with the class, or nil. No class is right.
func (c *Class) check() error {
	if c == nil {
		return nil
	}
	return checkName("class", c.class.Name)
}

// check returns an error for a nil middleware, a negative deadline, and a class without a good name.
func (how serving) check(kind, name string) error {
	switch {
	case hasNil(how.middlewares):
		return fmt.Errorf("server: %s %q: a middleware is nil", kind, cut(name, 128))
	case how.deadline < 0:
		return fmt.Errorf("server: %s %q: the deadline %v is negative", kind, cut(name, 128), how.deadline)
	}
	if err := cmp.Or(how.need.check(), how.class.check()); err != nil {
		return fmt.Errorf("server: %s %q: %w", kind, cut(name, 128), err)
	}
	return nil
}

// checkItem is check for an item, which needs a handler.
func (how serving) checkItem(kind, name string, hasHandler bool) error {
	if !hasHandler {
		return fmt.Errorf("server: %s %q: the handler is nil", kind, cut(name, 128))
	}
	return how.check(kind, name)
}

// A router makes routes of handlers.
type router struct {
	core   *session.Core
	chain  []middleware.Middleware // the server's
	class  *Class                  // of the items that name none, or nil
	access *access
	asker  *ask.Asker
	teller *era.Teller
}

// serve returns the middleware.Handler for the handler of a feature.
func (r *router) serve(h callHandler) middleware.Handler {
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		call := newCall(ctx, req, r.asker)
		result, err := h.run(ctx, call)
		if err == nil && !call.dialog.Asked() {
			return result, nil
		}
		return call.dialog.Converse(result, err, func() (mcp.Result, error) { return h.run(ctx, call) })
	}
}

// route wraps a handler in the middlewares of its registration, and these in the server's chain.
func (r *router) route(mr middleware.Route, h middleware.Handler, how serving) *session.Route {
	h, stages := timed(slices.Concat(r.chain, how.middlewares), h)
	labels, teller := newProfileLabels(mr), r.teller
	route := &session.Route{
		Series: r.core.Series(mr.Method, mr.Target), Deadline: how.deadline, Streams: how.streams, Restartable: how.restartable, Registration: &registration{Route: mr},
	}
	if how.class != nil {
		route.Class, route.YieldsClass = how.class.class, how.yieldsClass
		r.core.UseClass(route.Class)
	}
	route.Handle = func(ctx context.Context, r *session.Request) (mcp.Result, error) {
		var req *request
		if stages == nil {
			req = newRequest(r, mr)
		} else {
			req = newTimedRequest(r, mr, stages)
		}
		result, err := labels.handle(ctx, req, h)
		return teller.Answer(ctx, r, result, err)
	}
	return route
}

// hasNil reports whether a middleware is nil.
func hasNil(middlewares []middleware.Middleware) bool {
	return slices.ContainsFunc(middlewares, func(m middleware.Middleware) bool { return m == nil })
}

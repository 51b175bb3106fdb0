package server

import (
	"cmp"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A target is what a request can name: a tool, a prompt, a resource or a resource template.
type target struct {
	// op is the use of the item as the policies see it, without what depends on the request.
	op    auth.Operation
	need  need
	route *session.Route
	// matches reports whether a URI matches a template. It is nil for all other targets.
	matches func(uri string) bool
	// arguments are the arguments for completion. The function is nil for an argument without
	// proposals.
	arguments map[string]CompleteFunc
	// content is the digest of a static resource. It is nil for all other targets.
	content []byte
}

// operation returns the use of the item by a request. uri is what the request names; a template needs
// it, and "" stands for an unknown one.
func (to *target) operation(uri string) (op auth.Operation) {
	to.describe(&op, uri)
	return op
}

// describe makes an operation the use of the item. What the operation says of its caller stays.
func (to *target) describe(op *auth.Operation, uri string) {
	op.Method, op.Kind, op.Name, op.URI, op.Template = to.op.Method, to.op.Kind, to.op.Name, to.op.URI, to.op.Template
	if op.Kind == auth.KindTemplate {
		op.URI = uri
	}
	op.Scopes = to.need.of(op.URI)
}

// describeListed describes the item as it is listed.
func (to *target) describeListed(op *auth.Operation) {
	to.describe(op, "")
	op.Listed = true
}

// target returns the target of an item. Its handler is wrapped in the item's middlewares, and these in
// the server's chain.
func (r *router) target(route middleware.Route, op auth.Operation, h middleware.Handler, how serving) *target {
	how.class = cmp.Or(how.class, r.class)
	op.Method = route.Method
	to := &target{op: op, need: how.need}
	to.route = r.route(route, h, how)
	to.route.Registration = &registration{Route: route, target: to}
	if how.need.is() {
		r.access.asked.Store(true)
	}
	return to
}

// A registration is what the server knows of a route.
type registration struct {
	middleware.Route
	target *target // or nil
	method *method // or nil
}

// registrationOf returns the registration behind a route of the core, as middlewares see it.
func registrationOf(route *session.Route) middleware.Route {
	if reg, ok := route.Registration.(*registration); ok {
		return reg.Route
	}
	return middleware.NewRoute(route.Series.Method, route.Series.Target, route.Series.Target)
}

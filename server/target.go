package server

import (
	"cmp"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A target is what a request can name: a tool, a prompt, a resource or a resource template.
type target struct {
	item  Item
	route *session.Route
	// handler is the handler of the route without the server's chain and without the view.
	handler middleware.Handler
	// matches reports whether a URI matches a template. It is nil for all other targets.
	matches func(uri string) bool
	// arguments are the arguments for completion. The function is nil for an argument without
	// proposals.
	arguments map[string]CompleteFunc
	// content is the digest of a static resource. It is nil for all other targets.
	content []byte
}

// target returns the target of an item. Its handler is wrapped in the item's middlewares, these
// in the view, and that in the server's chain. hidden serves callers that may not see the item,
// before one of the item's middlewares can show that it exists.
func (r *router) target(
	route middleware.Route, item Item, h middleware.Handler, how serving, hidden middleware.Handler,
) *target {
	how.class = cmp.Or(how.class, r.class)
	own := middleware.Chain(how.middlewares...)(h)
	to := &target{item: item, handler: own}
	to.route = r.chained(route, r.view.wrap(item, own, hidden), how)
	return to
}

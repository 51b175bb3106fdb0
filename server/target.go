package server

import (
	"cmp"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A target is what a request can name: a tool, a prompt, a resource, or a family of
// resources.
type target struct {
	item  Item
	route *session.Route
	// handler is that of the route without the server's own chain and without the view.
	handler middleware.Handler
	// matches reports whether a URI belongs to a family of resources; nil for all else.
	matches func(uri string) bool
	// arguments are those that a completion can ask for. The func is nil for one that has
	// nothing to propose.
	arguments map[string]CompleteFunc
	// content is the digest of a resource that is always the same; nil for all else.
	content []byte
}

// target wraps the handler of an item once: in the item's own middlewares, behind the
// view, inside the server's chain. A caller who may not see the item is answered by
// hidden before any of the item's own middlewares shows that it is there.
func (r *router) target(
	route middleware.Route, item Item, h middleware.Handler, how serving, hidden middleware.Handler,
) *target {
	how.class = cmp.Or(how.class, r.class)
	own := middleware.Chain(how.middlewares...)(h)
	to := &target{item: item, handler: own}
	to.route = r.chained(route, r.view.wrap(item, own, hidden), how)
	return to
}

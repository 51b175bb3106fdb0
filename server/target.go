package server

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A target is what a request can name: a tool, a prompt, a resource, or a family of
// resources.
type target struct {
	route *session.Route
	// handler is that of the route without the server's own chain and without the view.
	handler middleware.Handler
	// matches reports whether a URI belongs to a family of resources; nil for all else.
	matches func(uri string) bool
	// arguments are those that a completion can ask for. The func is nil for one that has
	// nothing to propose.
	arguments map[string]CompleteFunc
}

// newTarget wraps the handler of an item once: in the item's own links, behind the
// view, inside the server's chain. A caller who may not see the item is answered by
// hidden before any of the item's own links shows that it is there.
func (s *Server) newTarget(
	mr *middleware.Route, item Item, h middleware.Handler, links []middleware.Middleware, hidden middleware.Handler,
) *target {
	own := middleware.Chain(links...)(mr, h)
	return &target{route: s.chained(mr, s.ifVisible(item, own, hidden)), handler: own}
}

// checkItem refuses what no item may have.
func checkItem(kind ItemKind, name string, hasHandler bool, links []middleware.Middleware) error {
	switch {
	case !hasHandler:
		return fmt.Errorf("server: %s %q: the handler is nil", kind, cut(name, 128))
	case hasNil(links):
		return fmt.Errorf("server: %s %q: a middleware is nil", kind, cut(name, 128))
	}
	return nil
}

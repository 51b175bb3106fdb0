package server

import (
	"bytes"
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

// newTarget wraps the handler of an item once: in the item's own middlewares, behind the
// view, inside the server's chain. A caller who may not see the item is answered by
// hidden before any of the item's own middlewares shows that it is there.
func (s *Server) newTarget(
	route middleware.Route, item Item, h middleware.Handler, how serving, hidden middleware.Handler,
) *target {
	how.class = cmp.Or(how.class, s.class)
	own := middleware.Chain(how.middlewares...)(h)
	to := &target{item: item, handler: own}
	to.route = s.chained(route, s.ifVisible(to, own, hidden), how)
	return to
}

// enter registers an item or replaces the one with its name. replaced says that something
// was there whose description or fixed content was another one.
func enter[T comparable](s *Server, t *table[T], name string, def T, to *target) (replaced bool, err error) {
	old, now, err := t.put(name, def, to)
	if err != nil || old == nil {
		return false, err
	}
	listed := old.shown != now.shown
	s.logReplaced(string(t.kind), name, listed)
	return listed || !bytes.Equal(old.target.content, to.content), nil
}

// logReplaced says that a registration has taken the place of another one.
func (s *Server) logReplaced(kind, name string, listChanged bool) {
	s.logger.Debug("registration.replaced", "kind", kind, "name", cut(name, 128), "list_changed", listChanged)
}

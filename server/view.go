package server

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// An ItemKind is what an [Item] is.
type ItemKind string

const (
	ItemTool     ItemKind = "tool"
	ItemPrompt   ItemKind = "prompt"
	ItemResource ItemKind = "resource"
	ItemTemplate ItemKind = "resource template"
)

// An Item is something that a caller may or may not see: a tool or a prompt by its
// name, a resource by its URI, a template by its URI template.
type Item struct {
	Kind ItemKind
	Name string
}

// WithView makes what a caller sees depend on the request, as a rule on its
// authorization: an item for which visible returns false is in no list, and using it
// is answered as if it did not exist. The function runs inside the server's middleware
// chain, so that ctx has what that has found out, and outside the item's own links. It is
// called for every item of a list, from many goroutines, and must be quick. The lists, and
// the resources, are then cacheable by the caller alone.
//
// A modern client expects that what it sees depends on its authorization and on
// nothing else.
func WithView(visible func(ctx context.Context, req *middleware.Request, item Item) bool) Option {
	return optionFunc(func(c *config) { c.view = visible })
}

// WithListTTL says how long a client may keep what it learns about the server: the
// lists and the answer to server/discover (default 0: stale at once, but for the
// notifications of changes). It is rounded to milliseconds.
func WithListTTL(ttl time.Duration) Option { return optionFunc(func(c *config) { c.listTTL = ttl }) }

func (s *Server) visible(ctx context.Context, req *middleware.Request, kind ItemKind, name string) bool {
	return s.view == nil || s.view(ctx, req, Item{kind, name})
}

// listHint is the cache hint of everything that a view can hide.
func (s *Server) listHint() mcp.CacheHint {
	scope := mcp.CachePublic
	if s.view != nil {
		scope = mcp.CachePrivate
	}
	return mcp.CacheFor(s.listTTL, scope)
}

// ifVisible answers like otherwise where the caller may not see the item.
func (s *Server) ifVisible(item Item, h, otherwise middleware.Handler) middleware.Handler {
	if s.view == nil {
		return h
	}
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		if !s.visible(ctx, req, item.Kind, item.Name) {
			return otherwise(ctx, req)
		}
		return h(ctx, req)
	}
}

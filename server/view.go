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

// An Item is something that a caller may or may not see.
type Item struct {
	Kind ItemKind
	// Name is the name under which it is registered; that of a resource, or of a template,
	// need not be unique.
	Name string
	// URI is that of a resource; of a template the one that is to be read or subscribed to,
	// and "" where the template itself is listed or completed.
	URI string
	// Template is the URI template of a template.
	Template string
}

// WithView makes what a caller sees depend on the request, as a rule on its
// authorization: an item for which visible returns false is in no list, and using it
// is answered as if it did not exist. The function runs inside the server's middleware
// chain, so that ctx has what that has found out, and before anything of the item's own. It is
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

// visible reports whether a caller may see what is registered. uri is what the request
// reads or subscribes to, or "".
func (s *Server) visible(ctx context.Context, req *middleware.Request, to *target, uri string) bool {
	if s.view == nil {
		return true
	}
	item := to.item
	if item.Kind == ItemTemplate {
		item.URI = uri
	}
	return s.view(ctx, req, item)
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
func (s *Server) ifVisible(to *target, h, otherwise middleware.Handler) middleware.Handler {
	if s.view == nil {
		return h
	}
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		if !s.visible(ctx, req, to, req.Target) {
			return otherwise(ctx, req)
		}
		return h(ctx, req)
	}
}

package server

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A view tells which items a caller may see; nil shows everything.
type view func(context.Context, *middleware.Request, Item) bool

// shows reports whether a caller may see an item. uri is what the request reads or
// subscribes to, or "".
func (v view) shows(ctx context.Context, req *middleware.Request, item Item, uri string) bool {
	if v == nil {
		return true
	}
	if item.Kind == ItemTemplate {
		item.URI = uri
	}
	return v(ctx, req, item)
}

// wrap answers like hidden where the caller may not see the item.
func (v view) wrap(item Item, h, hidden middleware.Handler) middleware.Handler {
	if v == nil {
		return h
	}
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		if !v.shows(ctx, req, item, req.Target) {
			return hidden(ctx, req)
		}
		return h(ctx, req)
	}
}

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
	// Name is the registered name. Names of resources and templates need not be unique.
	Name string
	// URI is the URI of a resource. For a template it is the URI that the request reads or
	// subscribes to, and "" if the template itself is listed or completed.
	URI string
	// Template is the URI template of a template.
	Template string
}

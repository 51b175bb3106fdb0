package server

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A view tells which items a caller may see; nil shows everything.
type view func(context.Context, *middleware.Request, Item) bool

// shows reports whether a caller may see what is registered. uri is what the request
// reads or subscribes to, or "".
func (v view) shows(ctx context.Context, req *middleware.Request, to *target, uri string) bool {
	if v == nil {
		return true
	}
	item := to.item
	if item.Kind == ItemTemplate {
		item.URI = uri
	}
	return v(ctx, req, item)
}

// wrap answers like hidden where the caller may not see the item.
func (v view) wrap(to *target, h, hidden middleware.Handler) middleware.Handler {
	if v == nil {
		return h
	}
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		if !v.shows(ctx, req, to, req.Target) {
			return hidden(ctx, req)
		}
		return h(ctx, req)
	}
}

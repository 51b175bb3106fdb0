// Package middleware has the types of middlewares, which wrap the handlers of an MCP server,
// and the middlewares that come with Vitrine. They work on any server: a [Request] is a plain
// value that knows nothing of the server, so that the test of a middleware needs neither a
// server nor a client.
package middleware

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Handler serves one request. The context is cancelled with a cause ([mcp.CauseOf]) when
// nobody waits for the answer any longer. The error is the one that the handler has returned.
// The text for the caller is chosen outside the chain (see [mcp.ToolErrorf]). A Handler must
// be safe for concurrent use.
type Handler func(ctx context.Context, req *Request) (mcp.Result, error)

// A Middleware wraps a handler. It may read the request, change the context, answer the request
// itself, or change the result. A server may call it once for all routes or once for each
// route. A middleware with state for each route uses [Route.Key] as the key.
//
// For a notification ([Request.ID] is zero) the result is nil and an error is only logged.
type Middleware func(next Handler) Handler

// Chain combines middlewares into one; the first is the outermost.
func Chain(middlewares ...Middleware) Middleware {
	return func(next Handler) Handler {
		for i := len(middlewares) - 1; i >= 0; i-- {
			next = middlewares[i](next)
		}
		return next
	}
}

// For limits middlewares to some tools (or prompts), by name. Where the route of a call has no name, because
// nothing is registered with it or an adapter cannot know, the name counts that the client has sent.
func For(targets []string, middlewares ...Middleware) Middleware {
	wanted := make(map[string]bool, len(targets))
	for _, t := range targets {
		wanted[t] = true
	}
	chain := Chain(middlewares...)
	return func(next Handler) Handler {
		wrapped := chain(next)
		return func(ctx context.Context, req *Request) (mcp.Result, error) {
			if wanted[nameOf(req)] {
				return wrapped(ctx, req)
			}
			return next(ctx, req)
		}
	}
}

// nameOf returns the name of the tool or prompt of a request, or "".
func nameOf(req *Request) string {
	if req.Route.Target == "" && mcp.NameMember(req.Route.Method) == "name" {
		return req.Target
	}
	return req.Route.Target
}

// Package middleware is what wraps every handler: the chain, the request that
// its links see, and the links that come with Vitrine.
//
// A chain is built once for each route, when the route is registered. The first
// middleware listed is the outermost. A link may look at the request, change the
// context, answer by itself, or change the result; links that set values of the
// [Route] (a deadline, a concurrency class) let the session core enforce them.
package middleware

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Handler serves one request. The context is cancelled with a cause
// ([mcp.CauseOf]) when nobody waits for the answer any more. An error that is, or
// wraps, an [*mcp.Error] goes to the caller as it is; any other error becomes
// "internal error". Handlers run on many goroutines at once.
type Handler func(ctx context.Context, req *Request) (mcp.Result, error)

// A Middleware wraps the handler of one route. It is called once for each route,
// at registration, and may set the route's values.
type Middleware func(route *Route, next Handler) Handler

// Chain combines middleware into one; the first is the outermost.
func Chain(links ...Middleware) Middleware {
	return func(route *Route, next Handler) Handler {
		for i := len(links) - 1; i >= 0; i-- {
			next = links[i](route, next)
		}
		return next
	}
}

// For limits links to the routes of some tools (or prompts), by name.
func For(targets []string, links ...Middleware) Middleware {
	chain := Chain(links...)
	wanted := make(map[string]bool, len(targets))
	for _, t := range targets {
		wanted[t] = true
	}
	return func(route *Route, next Handler) Handler {
		if !wanted[route.Target] {
			return next
		}
		return chain(route, next)
	}
}

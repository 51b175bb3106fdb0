// Package mcpgo puts Vitrine's telemetry, middlewares and causes of cancellations on a
// server of github.com/mark3labs/mcp-go:
//
//	t, err := telemetry.New(telemetry.WithService("notes", "1.0.0"))
//	adapter := mcpgo.Instrument(srv, t, middleware.Logging(slog.Default()))
//	http.Handle("/mcp", adapter.HTTP(server.NewStreamableHTTPServer(srv)))
//	http.Handle("/metrics", t.MetricsHandler())
//	defer adapter.Shutdown(ctx)
//
// Over stdio, [Adapter.Listen] takes the place of [Adapter.HTTP]. What the adapter can and
// cannot know is in the table of docs/adapters.md.
package mcpgo

import (
	"context"
	"net/http"
	"sync"

	sdk "github.com/mark3labs/mcp-go/server"

	"github.com/vitrine-mcp/vitrine/internal/adapt"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// An Adapter records what happens on a server of mcp-go. Its methods are safe for
// concurrent use.
type Adapter struct {
	core     *adapt.Adapter
	server   *sdk.MCPServer
	sessions sync.Map // by id: func(mcp.Cause)
}

// Instrument records the requests of a server with t, runs the middlewares around the handlers
// of tools, prompts and resources, the first one outermost, and contains the panics of these
// handlers. mcp-go hands no other requests to middlewares. Call it once for each server, when
// it is made and before it serves. Handler middlewares of mcp-go that the server has already
// run outside, those that are added later run inside.
//
// It takes the place of the server's tracer and propagator (server.WithTracer,
// server.WithPropagator), and adds to its hooks.
//
// What callers are told of the errors of middlewares is what our server tells them
// (mcp.ToolError explains it), as far as mcp-go lets it: it answers every error of a handler
// with the code -32603. So are the errors of package mcp that handlers return; mcp-go answers
// all other errors of handlers as ever: with their text.
func Instrument(srv *sdk.MCPServer, t *telemetry.Telemetry, middlewares ...middleware.Middleware) *Adapter {
	a := &Adapter{core: adapt.New(t, middlewares...), server: srv}
	sdk.WithPropagator(propagator{})(srv)
	sdk.WithTracer(tracer{a})(srv)
	sdk.WithToolHandlerMiddleware(a.tool)(srv)
	sdk.WithPromptHandlerMiddleware(a.prompt)(srv)
	sdk.WithResourceHandlerMiddleware(a.resource)(srv)
	hooks := srv.GetHooks()
	if hooks == nil {
		hooks = &sdk.Hooks{}
		sdk.WithHooks(hooks)(srv)
	}
	hooks.AddBeforeAny(a.before)
	hooks.AddOnSuccess(a.succeeded)
	hooks.AddOnError(a.failed)
	hooks.AddOnRegisterSession(a.registered)
	hooks.AddOnUnregisterSession(a.unregistered)
	return a
}

// Shutdown refuses new calls of tools, prompts and resources, ends subscriptions, and waits
// for the running requests until ctx ends. Then it cancels them with the cause
// server_shutdown and gives them one more second. The error says how many are left after that.
// Later calls return nil at once.
//
// Shut the HTTP server down afterwards.
func (a *Adapter) Shutdown(ctx context.Context) error { return a.core.Shutdown(ctx) }

// HTTP wraps mcp-go's handler. By it the adapter knows the params of requests as they were
// sent, the address of the client, when a client goes away, and the reasons of
// its cancellations.
func (a *Adapter) HTTP(next http.Handler) http.Handler { return a.core.HTTP(next) }

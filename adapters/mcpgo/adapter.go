// Package mcpgo adds Vitrine's telemetry, middlewares and causes of cancellations to a server of
// github.com/mark3labs/mcp-go:
//
//	t, err := telemetry.New(telemetry.WithService("notes", "1.0.0"))
//	adapter := mcpgo.Instrument(srv, t, middleware.Logging(slog.Default()))
//	http.Handle("/mcp", adapter.HTTP(server.NewStreamableHTTPServer(srv)))
//	http.Handle("/metrics", t.MetricsHandler())
//	defer adapter.Shutdown(ctx)
//
// Over stdio, use [Adapter.Listen] instead of [Adapter.HTTP]. A table in docs/adapters.md says what the
// adapter can know.
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

// An Adapter records the requests of a server of mcp-go. It is safe for concurrent use.
type Adapter struct {
	core     *adapt.Adapter
	server   *sdk.MCPServer
	sessions sync.Map // by id: *openSession
}

// Instrument records the requests of a server with t, runs the middlewares around the handlers of
// tools, prompts and resources, and contains panics of these handlers. The first middleware is the
// outermost. mcp-go has no middlewares for other requests and for task tools. Call it once for each
// server, before the server serves. Handler middlewares of mcp-go that the server already has run
// outside; those that are added later run inside.
//
// It replaces the server's tracer and propagator (server.WithTracer, server.WithPropagator), and adds
// hooks.
//
// Callers get the errors of middlewares, and errors of package mcp from handlers, as our server
// answers them (see mcp.ToolError), but mcp-go answers every error of a handler with the code
// -32603. mcp-go answers all other errors of handlers with their text.
func Instrument(srv *sdk.MCPServer, t *telemetry.Telemetry, middlewares ...middleware.Middleware) *Adapter {
	a := &Adapter{core: adapt.New(t, middlewares...), server: srv}
	a.core.UnknownSession, a.core.ClientOf = "Invalid session ID", a.clientOf
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
	a.guard(hooks)
	return a
}

// Shutdown refuses new calls of tools, prompts and resources, ends subscriptions, also those that begin
// later, and waits for the running requests until ctx ends. Then it cancels them with the cause server_shutdown and waits
// one more second. The error says how many handlers still run after that. Later calls do nothing
// and return nil.
//
// Shut the HTTP server down afterwards.
func (a *Adapter) Shutdown(ctx context.Context) error { return a.core.Shutdown(ctx) }

// HTTP wraps mcp-go's handler. With it the adapter knows the params of requests as they were sent, the
// address of the client, when a client goes away, and the reasons of its cancellations.
func (a *Adapter) HTTP(next http.Handler) http.Handler { return a.core.HTTP(next) }

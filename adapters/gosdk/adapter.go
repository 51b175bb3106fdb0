// Package gosdk adds Vitrine's telemetry, middlewares and causes of cancellations to a server of
// github.com/modelcontextprotocol/go-sdk:
//
//	t, err := telemetry.New(telemetry.WithService("notes", "1.0.0"))
//	adapter := gosdk.Instrument(server, t, middleware.Logging(slog.Default()))
//	http.Handle("/mcp", adapter.HTTP(sdk.NewStreamableHTTPHandler(getServer, nil)))
//	http.Handle("/metrics", t.MetricsHandler())
//	defer adapter.Shutdown(ctx)
//
// Over stdio, use [Adapter.Transport] instead of [Adapter.HTTP]. A table in docs/adapters.md says what
// the adapter can know.
package gosdk

import (
	"context"
	"net/http"
	"runtime"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/internal/adapt"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// An Adapter records the requests of a server of the Go SDK. It is safe for concurrent use.
type Adapter struct {
	core      *adapt.Adapter
	names     *names
	exchanges exchanges
	arrivals  arrivals
	sessions  sessions
}

// Instrument records the requests of a server with t, runs the middlewares around them, and contains
// panics of handlers, which would end the process. The first middleware is the outermost. Call
// it once for each server, before the server is connected. Middlewares of the SDK that are added
// later run outside, and their panics are not contained.
//
// Callers get the errors of middlewares, and errors of package mcp from handlers, as our server
// answers them (see mcp.ToolError). The SDK answers all other errors of handlers with their text.
func Instrument(server *sdk.Server, t *telemetry.Telemetry, middlewares ...middleware.Middleware) *Adapter {
	a := &Adapter{core: adapt.New(t, middlewares...), names: newNames()}
	a.core.UnknownSession, a.core.ClientOf = "session not found", a.sessions.client
	server.AddReceivingMiddleware(a.receive)
	return a
}

// Shutdown refuses new requests, ends subscriptions, and waits for the running handlers until ctx
// ends. Then it cancels them with the cause server_shutdown and waits one more second. The error
// says how many handlers still run after that. Later calls do nothing and return nil.
//
// Close the listener or the transport afterwards.
func (a *Adapter) Shutdown(ctx context.Context) error { return a.core.Shutdown(ctx) }

// HTTP wraps the SDK's handler. With it the adapter knows the ids of requests, the address of the
// client, and when a client goes away. A request of 2026-07-28 is then cancelled with the cause
// client_disconnect, as the protocol requires. Handlers have the values of the HTTP request's
// context, such as the span of an outer handler.
func (a *Adapter) HTTP(next http.Handler) http.Handler {
	next = withTokenInfo(next)
	return a.core.HTTP(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x := adapt.ExchangeOf(req.Context())
		req = req.Clone(req.Context()) // the exchange has the header of the client
		switch req.Method {
		case http.MethodPost:
			defer runtime.KeepAlive(a.exchanges.add(req.Header, x))
		case http.MethodDelete:
			a.sessions.delete(w, req, next)
			return
		}
		next.ServeHTTP(w, req)
	}))
}

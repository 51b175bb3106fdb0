// Package gosdk puts Vitrine's telemetry, middlewares and causes of cancellations on a
// server of github.com/modelcontextprotocol/go-sdk:
//
//	t, err := telemetry.New(telemetry.WithService("notes", "1.0.0"))
//	adapter := gosdk.Instrument(server, t, middleware.Logging(slog.Default()))
//	http.Handle("/mcp", adapter.HTTP(sdk.NewStreamableHTTPHandler(getServer, nil)))
//	http.Handle("/metrics", t.MetricsHandler())
//	defer adapter.Shutdown(ctx)
//
// Over stdio, [Adapter.Transport] takes the place of [Adapter.HTTP]. What the adapter can
// and cannot know is in the table of docs/adapters.md.
package gosdk

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/internal/adapt"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// An Adapter records what happens on a server of the Go SDK. Its methods are safe for
// concurrent use.
type Adapter struct {
	core      *adapt.Adapter
	names     names
	exchanges sync.Map // by token: *adapt.Exchange
	arrivals  sync.Map // by *sdk.RequestExtra: arrival
	sessions  sessions
}

// Instrument records the requests of a server with t, runs the middlewares around them, the
// first one outermost, and contains the panics of handlers, which would end the process. Call
// it once for each server, before it is connected. Middlewares of the SDK that are added
// later run outside, and their panics are not contained.
//
// The errors of middlewares are answered as our server does (mcp.ToolError explains it), and
// so are those of package mcp that handlers return. The SDK answers all other errors of
// handlers as ever: with their text.
func Instrument(server *sdk.Server, t *telemetry.Telemetry, middlewares ...middleware.Middleware) *Adapter {
	a := &Adapter{core: adapt.New(t, middlewares...)}
	server.AddReceivingMiddleware(a.receive)
	return a
}

// Shutdown refuses new requests, ends subscriptions, and waits for the running handlers
// until ctx ends. Then it cancels them with the cause server_shutdown and gives them one
// more second. The error says how many are left after that. Later calls return nil at once.
//
// Close the listener or the transport afterwards.
func (a *Adapter) Shutdown(ctx context.Context) error { return a.core.Shutdown(ctx) }

// exchangeHeader carries the token of an exchange through the SDK, which hands its
// middlewares the HTTP header and nothing else of a request.
const exchangeHeader = "Vitrine-Exchange"

// HTTP wraps the SDK's handler. By it the adapter knows the ids of requests, the address of
// the client, and when a client goes away: a request of 2026-07-28 is then cancelled with
// the cause client_disconnect, as the protocol demands. The values of the HTTP request's
// context, such as the span of an outer handler, reach the handlers.
func (a *Adapter) HTTP(next http.Handler) http.Handler {
	return a.core.HTTP(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		token := rand.Text()
		a.exchanges.Store(token, adapt.ExchangeOf(req.Context()))
		defer a.exchanges.Delete(token)
		req = req.Clone(req.Context()) // the exchange keeps the header as it was sent
		req.Header.Set(exchangeHeader, token)
		if req.Method == http.MethodDelete {
			a.sessions.delete(w, req, next)
			return
		}
		next.ServeHTTP(w, req)
	}))
}

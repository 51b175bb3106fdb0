package server_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
)

type whoKey struct{}

// as is the context of a connection of somebody.
func as(who string) context.Context { return context.WithValue(context.Background(), whoKey{}, who) }

// byContext tells callers apart as a server does behind an authorizing http.Handler.
var byContext = server.WithAuthenticator(auth.AuthenticatorFunc(func(ctx context.Context, _ *auth.Caller) (*auth.Principal, error) {
	who, _ := ctx.Value(whoKey{}).(string)
	return named(who), nil
}))

var byAuthorization = server.WithAuthenticator(auth.AuthenticatorFunc(func(_ context.Context, c *auth.Caller) (*auth.Principal, error) {
	return named(http.Header(c.Header).Get("Authorization")), nil
}))

// named returns the principal with a name, or nil.
func named(who string) *auth.Principal {
	if who == "" {
		return nil
	}
	return &auth.Principal{Subject: who}
}

// begin opens a legacy HTTP session and returns its header.
func begin(t *testing.T, url string, version mcp.Version, headers ...string) string {
	t.Helper()
	res, body := exchange(t, "POST", url, legacy(1, "initialize",
		`"protocolVersion":"`+string(version)+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}`), headers...)
	require.Equal(t, 200, res.StatusCode, body)
	session := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	exchange(t, "POST", url, notice("notifications/initialized", ""), append(headers, session)...)
	return session
}

// A legacy HTTP session belongs to its principal. For all others it does not exist.
func TestSessionOfAnotherPrincipal(t *testing.T) {
	const ann, bob, eve = "Authorization: ann", "Authorization: bob", "-Authorization"
	srv := newServer(t, byAuthorization)
	server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
	url := listen(t, srv)
	session := begin(t, url, mcp.Version20250326, ann)

	const unknown = "Mcp-Session-Id: nobodys"
	for name, tt := range map[string]struct {
		method, body string
		header       string
		status       int // for its principal; 0: not asked
	}{
		"list":         {"POST", legacy(2, "tools/list", ""), "", 200},
		"ping":         {"POST", legacy(2, "ping", ""), "", 200},
		"call":         {"POST", legacy(2, "tools/call", `"name":"hi"`), "", 200},
		"initialize":   {"POST", legacy(2, "initialize", `"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}`), "", 200},
		"unknown":      {"POST", legacy(2, "no/such", ""), "", 200},
		"batch":        {"POST", "[" + legacy(2, "ping", "") + "]", "", 200},
		"notification": {"POST", notice("notifications/cancelled", `{"requestId":2}`), "", 202},
		"response":     {"POST", `{"jsonrpc":"2.0","id":"1","result":{}}`, "", 202},
		"stream":       {"GET", "", "", 0},
		"resumption":   {"GET", "", "Last-Event-Id: 1_1", 400},
		"end":          {"DELETE", "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			never, want := exchange(t, tt.method, url, tt.body, unknown, ann, tt.header)
			require.Equal(t, 404, never.StatusCode)
			for _, other := range []string{bob, eve} {
				res, body := exchange(t, tt.method, url, tt.body, session, other, tt.header)
				require.Equal(t, 404, res.StatusCode)
				require.Equal(t, want, body)
			}
			if tt.status != 0 {
				res, _ := exchange(t, tt.method, url, tt.body, session, ann, tt.header)
				require.Equal(t, tt.status, res.StatusCode, "its own")
			}
		})
	}
	res, _ := exchange(t, "DELETE", url, "", session, ann)
	require.Equal(t, 204, res.StatusCode, "nobody else has ended it")
}

// The authenticator takes the credentials out of the request: no middleware and no handler can
// log them or pass them on.
func TestHandlersDoNotSeeCredentials(t *testing.T) {
	var seen []http.Header
	srv := newServer(t, byAuthorization, server.WithMiddleware(func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			seen = append(seen, req.Header)
			return next(ctx, req)
		}
	}))
	server.AddTool(srv, server.Tool{Name: "who"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		seen = append(seen, call.Header)
		return call.Principal.String(), nil
	})
	url := listen(t, srv)
	_, body := exchange(t, "POST", url, modern(1, "tools/call", call("who", `{}`)), append(modernHeaders("tools/call", "who"), "Authorization: ann", "X-Tenant: a")...)
	require.Contains(t, body, `"text":"ann"`)
	require.Len(t, seen, 2)
	for _, header := range seen {
		require.Equal(t, "a", header.Get("X-Tenant"))
		require.NotContains(t, header, "Authorization")
	}
}

// If the authenticator panics, the caller is rejected, and nothing else happens.
func TestAuthenticatorPanics(t *testing.T) {
	logs := &logRecorder{}
	srv := newServer(t, server.WithLogger(slog.New(logs)), server.WithAuthenticator(auth.AuthenticatorFunc(func(ctx context.Context, c *auth.Caller) (*auth.Principal, error) {
		if http.Header(c.Header).Get("Authorization") == "boom" || ctx.Value(whoKey{}) == "boom" {
			panic("no such user")
		}
		return nil, nil
	})))
	url := listen(t, srv)
	res, body := exchange(t, "POST", url, modern(1, "tools/list", ""), "Authorization: boom")
	require.Equal(t, 503, res.StatusCode)
	require.Contains(t, body, `"code":503`)
	require.Len(t, logs.find("authenticator.panic"), 1)
	server, client := net.Pipe()
	require.ErrorContains(t, srv.ServePipe(as("boom"), server), "who calls")
	_, err := client.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Contains(t, dial(t, srv).ask(modern(1, "tools/list", "")), `"result"`)
}

// Handlers see the principal, and the values of the context in which a byte stream is served.
func TestPrincipalOfAHandler(t *testing.T) {
	who := func(ctx context.Context, call *server.Call, _ none) (string, error) {
		value, _ := ctx.Value(whoKey{}).(string)
		return call.Principal.String() + " " + value, nil
	}
	t.Run("byte stream", func(t *testing.T) {
		srv := newServer(t, byContext)
		server.AddTool(srv, server.Tool{Name: "who"}, who)
		p := dialContext(t, as("ada"), srv)
		require.Contains(t, p.ask(modern(1, "tools/call", call("who", `{}`))), `"text":"ada ada"`)
		p.ask(legacy(2, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
		require.Contains(t, p.ask(legacy(3, "tools/call", call("who", `{}`))), `"text":"ada ada"`)
	})
	t.Run("http", func(t *testing.T) {
		srv := newServer(t, byAuthorization)
		server.AddTool(srv, server.Tool{Name: "who"}, who)
		const ann = "Authorization: ann"
		url := listen(t, srv)
		_, body := exchange(t, "POST", url, legacy(2, "tools/call", call("who", `{}`)), ann, begin(t, url, mcp.Version20251125, ann))
		require.Contains(t, body, `"text":"ann "`)
	})
}

// A notification has a principal, too.
func TestPrincipalOfANotification(t *testing.T) {
	srv := newServer(t, byContext)
	heard := make(chan string, 1)
	server.AddNotification(srv, "notifications/com.example/thing", "", func(_ context.Context, n *server.Notice, _ none) {
		heard <- n.Principal().String()
	})
	dialContext(t, as("ada"), srv).send(notice("notifications/com.example/thing", ""))
	require.Equal(t, "ada", <-heard)
}

package streamable_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

const (
	page      = "https://app.example"
	fromPage  = "Origin: " + page
	fromEvil  = "Origin: https://evil.example"
	askPOST   = "Access-Control-Request-Method: POST"
	askFields = "Access-Control-Request-Headers: "
)

var pages = streamable.Config{AllowedOrigins: []string{page, "null"}}

// corsOf returns the CORS headers of a response.
func corsOf(h http.Header) map[string]string {
	cors := map[string]string{}
	for name, values := range h {
		if strings.HasPrefix(name, "Access-Control-") || name == "Vary" {
			cors[name] = strings.Join(values, ", ")
		}
	}
	return cors
}

// Before it sends a request, a browser asks whether the page may.
func TestPreflightIsAnsweredForAllowedOrigins(t *testing.T) {
	granted := func(origin, params string) map[string]string {
		vary := "Origin, Access-Control-Request-Headers"
		if origin == "*" {
			vary = "Access-Control-Request-Headers"
		}
		return map[string]string{
			"Access-Control-Allow-Origin":  origin,
			"Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
			"Access-Control-Allow-Headers": "Content-Type, Accept, Authorization, Mcp-Protocol-Version, Mcp-Session-Id, " +
				"Mcp-Method, Mcp-Name, Last-Event-ID, traceparent, tracestate, baggage" + params,
			"Access-Control-Max-Age": "7200",
			"Vary":                   vary,
		}
	}
	anywhere := streamable.Config{AllowedOrigins: []string{"*"}}
	tenants, anything := pages, pages
	tenants.AllowedHeaders, anything.AllowedHeaders = []string{"X-Tenant", "x-region"}, []string{"*"}
	for _, tt := range []struct {
		name    string
		cfg     streamable.Config
		headers []header
		status  int
		want    map[string]string
		refused mcp.RefuseReason
	}{
		{"page", pages, []header{fromPage, askPOST}, 204, granted(page, ""), ""},
		{"what it asks for", pages, []header{fromPage, askPOST, askFields + "authorization,content-type,mcp-session-id"}, 204, granted(page, ""), ""},
		{"parameters", pages, []header{fromPage, askPOST, askFields + "mcp-param-region, content-type,Mcp-Param-X"}, 204,
			granted(page, ", mcp-param-region, Mcp-Param-X"), ""},
		{"parameters in two lines", pages, []header{fromPage, askPOST, askFields + "mcp-param-a", "Access-Control-Request-Headers! mcp-param-b"}, 204,
			granted(page, ", mcp-param-a, mcp-param-b"), ""},
		{"what nobody may send", pages, []header{fromPage, askPOST, askFields + `cookie, x-evil, mcp-param-, mcp-param, mcp-paramx, mcp-param-a b, mcp-param-"a", mcp-param-é,,`},
			204, granted(page, ""), ""},
		{"further headers", tenants, []header{fromPage, askPOST, askFields + "x-tenant,mcp-param-a,x-evil"}, 204,
			granted(page, ", X-Tenant, x-region, mcp-param-a"), ""},
		{"any header", anything, []header{fromPage, askPOST, askFields + "x-tenant"}, 204, granted(page, ", *"), ""},
		{"further headers are for pages that may", tenants, []header{fromEvil, askPOST, askFields + "x-tenant"}, 403, nil, mcp.RefuseOrigin},
		{"another method", pages, []header{fromPage, "Access-Control-Request-Method: PUT"}, 204, granted(page, ""), ""},
		{"a page of this machine", streamable.Config{}, []header{"Origin: http://localhost:3000", askPOST}, 204, granted("http://localhost:3000", ""), ""},
		{"another port", pages, []header{fromPage + ":8443", askPOST}, 204, granted(page+":8443", ""), ""},
		{"opaque page that is allowed", pages, []header{"Origin: null", askPOST}, 204, granted("null", ""), ""},
		{"any page", anywhere, []header{fromPage, askPOST}, 204, granted("*", ""), ""},

		{"page of another origin", pages, []header{fromEvil, askPOST}, 403, nil, mcp.RefuseOrigin},
		{"by default", streamable.Config{}, []header{fromPage, askPOST}, 403, nil, mcp.RefuseOrigin},
		{"opaque page", streamable.Config{}, []header{"Origin: null", askPOST}, 403, nil, mcp.RefuseOrigin},
		{"another scheme", pages, []header{"Origin: http://app.example", askPOST}, 403, nil, mcp.RefuseOrigin},
		{"another host header", pages, []header{"Host: evil.example", fromPage, askPOST}, 403, nil, mcp.RefuseHost},

		{"two origins", pages, []header{fromPage, "Origin! null", askPOST}, 405, nil, mcp.RefuseMethod},
		{"no origin", pages, []header{askPOST}, 405, nil, mcp.RefuseMethod},
		{"empty origin", pages, []header{"Origin: ", askPOST}, 405, nil, mcp.RefuseMethod},
		{"what is no origin", streamable.Config{}, []header{"Origin: http://localhost/page", askPOST}, 405, nil, mcp.RefuseMethod},
		{"what is no origin, any page", anywhere, []header{"Origin: it is me", askPOST}, 405, nil, mcp.RefuseMethod},
		{"not a preflight", pages, []header{fromPage}, 405, map[string]string{
			"Access-Control-Allow-Origin": page, "Vary": "Origin",
			"Access-Control-Expose-Headers": "Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, Retry-After, Allow",
		}, mcp.RefuseMethod},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachProtocol(t, func(t *testing.T, proto protocol) {
				e := newEndpoint(t, proto, limits.Limits{}, tt.cfg)
				res, body := e.do(e.request(t.Context(), "OPTIONS", "", tt.headers...))
				require.Equal(t, tt.status, res.StatusCode, body)
				if tt.want == nil {
					tt.want = map[string]string{}
				}
				require.Equal(t, tt.want, corsOf(res.Header))
				refused := map[mcp.RefuseReason]uint64{}
				switch tt.status {
				case 204:
					require.Empty(t, body)
				case 405:
					require.Equal(t, "GET, POST, DELETE", res.Header.Get("Allow"))
				}
				if tt.refused != "" {
					refused[tt.refused] = 1
				}
				require.Equal(t, refused, e.Conserved().ExchangesRefused)
			})
		})
	}
}

// A page can read every response that it gets. Other clients get no headers for pages.
func TestPagesCanReadEveryResponse(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		e := newEndpoint(t, proto, limits.Limits{}, pages)
		sid := e.session()
		const gone = "Mcp-Session-Id: gone"
		for _, tt := range []struct {
			name, method, body string
			headers            []header
			status             int
		}{
			{"initialize", "POST", legacy(0, "initialize", ""), nil, 200},
			{"call", "POST", legacy(1, "tools/call", "echo"), []header{sid}, 200},
			{"call with what a preflight has", "POST", legacy(1, "tools/call", "echo"), []header{sid, askPOST}, 200},
			{"event stream", "POST", legacy(1, "tools/call", "progress:xx"), []header{sid}, 200},
			{"modern", "POST", modern(1, "echo"), modernHeaders("tools/call", "echo"), 200},
			{"modern error", "POST", modern(1, "fail:-32602"), modernHeaders("tools/call", "fail:-32602"), 400},
			{"notification", "POST", `{"jsonrpc":"2.0","method":"notifications/x"}`, []header{sid}, 202},
			{"malformed", "POST", `hello`, nil, 400},
			{"unknown session", "POST", legacy(1, "ping", ""), []header{gone}, 404},
			{"no such method", "PUT", "{}", nil, 405},
			{"Accept", "POST", "{}", []header{"Accept: text/html"}, 406},
			{"Content-Type", "POST", "{}", []header{"Content-Type: text/plain"}, 415},
			{"GET of an unknown session", "GET", "", []header{gone}, 404},
			{"delete", "DELETE", "", []header{sid}, 204},
		} {
			for _, origin := range []string{page, ""} {
				if origin == "" && tt.name == "delete" {
					continue
				}
				headers, want := tt.headers, map[string]string{}
				if origin != "" {
					headers = append([]header{fromPage}, headers...)
					want = map[string]string{
						"Access-Control-Allow-Origin": page, "Vary": "Origin",
						"Access-Control-Expose-Headers": "Mcp-Session-Id, Mcp-Protocol-Version, WWW-Authenticate, Retry-After, Allow",
					}
				}
				res, body := e.do(e.request(t.Context(), tt.method, tt.body, headers...))
				require.Equal(t, tt.status, res.StatusCode, "%s: %s", tt.name, body)
				require.Equal(t, want, corsOf(res.Header), "%s, origin %q", tt.name, origin)
			}
		}
		res, _ := e.do(e.request(t.Context(), "POST", legacy(0, "initialize", ""), fromEvil))
		require.Equal(t, 403, res.StatusCode)
		require.Empty(t, corsOf(res.Header))
		e.Conserved()
	})
}

// This holds for event streams, and for headers that an outer handler has set.
func TestPagesBehindAnotherHandlerCanReadResponses(t *testing.T) {
	f := newFake(t, limits.Limits{})
	h := streamable.New(f.Core, pages)
	e := &endpoint{fake: f, t: t, left: make(chan struct{}, 10)}
	e.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept-Encoding")
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(e.srv.Close)
	sid := e.session()
	res, err := e.srv.Client().Do(e.request(t.Context(), "GET", "", sid, fromPage))
	require.NoError(t, err)
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, page, res.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, []string{"Accept-Encoding", "Origin"}, res.Header.Values("Vary"))
	require.NoError(t, res.Body.Close())
	f.Conserved()
}

// A value that cannot be the name of a header is in no response.
func TestAllowedHeadersMustBeNames(t *testing.T) {
	f := newFake(t, limits.Limits{})
	for _, bad := range []string{"", "X-A, X-B", "X-A:", "X-A\r\nSet-Cookie: a", "X-Ä"} {
		cfg := streamable.Config{AllowedHeaders: []string{"X-Good", bad}}
		require.ErrorContains(t, cfg.Check(), "cannot be the name of a header", bad)
		require.Panics(t, func() { streamable.New(f.Core, cfg) }, bad)
	}
	require.NoError(t, streamable.Config{AllowedHeaders: []string{"X-Good", "*"}}.Check())
}

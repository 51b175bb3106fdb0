package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/local"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// listen serves a server over HTTP, as in a user's own mux.
func listen(t *testing.T, srv *server.Server) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/mcp", srv.Handler())
	l := httptest.NewServer(mux)
	t.Cleanup(l.Close)
	return l.URL + "/mcp"
}

// exchange sends one HTTP request. Each header is "Name: value" to be set, "Name!
// value" to be added, or "-Name" to be taken away.
func exchange(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		if name, found := strings.CutPrefix(h, "-"); found {
			req.Header.Del(name)
		} else if name, value, found := strings.Cut(h, ": "); found && name == "Host" {
			req.Host = value
		} else if found {
			req.Header.Set(name, value)
		} else if name, value, found = strings.Cut(h, "! "); found {
			req.Header.Add(name, value)
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(got)
}

// The validation ladder of a modern POST, with two faults at a time: the first
// rung wins. Each request is a good one with some headers and a body changed.
func TestValidationLadder(t *testing.T) {
	srv := newServer(t, server.WithLimits(server.Limits{MaxFrameBytes: 1000}))
	server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
	url := listen(t, srv)

	const good = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hi","_meta":{` + modernMeta + `}}}`
	body := func(old, new string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, new, 1)
	}
	large := good + strings.Repeat(" ", 1000)
	const v999 = "Mcp-Protocol-Version: v999"
	noMeta := body(`,"_meta":{`+modernMeta+`}`, "")
	version := func(v string) string { return body(`"2026-07-28"`, `"`+v+`"`) }
	unknownMethod := body("tools/call", "no/such")
	unknownTool := body(`"hi"`, `"nope"`)

	for _, tt := range []struct {
		name    string
		body    string
		headers []string
		status  int
		code    int // 0 for a result
	}{
		{"good", good, nil, 200, 0},
		{"1 Host", "{", []string{"Host: evil.example", "Accept: text/html"}, 403, -32600},
		{"1 Origin", "{", []string{"Origin: https://evil.example", "Content-Type: text/plain"}, 403, -32600},
		{"4 Accept", "{", []string{"Accept: text/html", "Content-Type: text/plain"}, 406, -32600},
		{"4 Content-Type", large, []string{"Content-Type: text/plain"}, 415, -32600},
		{"5 size", large, []string{"-Mcp-Method"}, 413, -32600},
		{"6 JSON", good[:100], []string{"-Mcp-Method"}, 400, -32700},
		{"7 message", body(`"2.0"`, `"1.0"`), []string{"-Mcp-Method"}, 400, -32600},
		{"7 batch", "[" + good + "]", []string{"-Mcp-Method"}, 400, -32600},
		{"7 id", body(`"id":1`, `"id":null`), []string{"-Mcp-Method"}, 400, -32600},
		{"8 duplicate header", noMeta, []string{"Mcp-Name! hi"}, 400, -32020},
		{"9 metadata", noMeta, []string{"-Mcp-Method"}, 400, -32602},
		{"9 metadata before the version header", noMeta, []string{v999}, 400, -32602},
		{"9 capabilities", body(`,"io.modelcontextprotocol/clientCapabilities":{}`, ""), []string{v999}, 400, -32602},
		{"10 no version header", version("v999"), []string{"-Mcp-Protocol-Version", "-Mcp-Method"}, 400, -32020},
		{"10 another version header", version("v999"), nil, 400, -32020},
		{"11 no method header", version("v999"), []string{v999, "-Mcp-Method"}, 400, -32020},
		{"11 another method header", unknownMethod, nil, 400, -32020},
		{"12 no name header", version("v999"), []string{v999, "-Mcp-Name"}, 400, -32020},
		{"12 another name header", unknownTool, nil, 400, -32020},
		{"12 bad base64", good, []string{"Mcp-Name: =?base64?!?="}, 400, -32020},
		{"13 version", strings.Replace(version("v999"), "tools/call", "no/such", 1), []string{v999, "Mcp-Method: no/such"}, 400, -32022},
		{"13 legacy version", version("2025-11-25"), []string{"Mcp-Protocol-Version: 2025-11-25"}, 400, -32022},
		{"14 method", unknownMethod, []string{"Mcp-Method: no/such"}, 404, -32601},
		{"14 removed method", body("tools/call", "ping"), []string{"Mcp-Method: ping"}, 404, -32601},
		{"14 initialize", body("tools/call", "initialize"), []string{"Mcp-Method: initialize"}, 404, -32601},
		{"16 unknown tool", unknownTool, []string{"Mcp-Name: nope"}, 400, -32602},
		{"16 tool error", body(`"name":"hi"`, `"name":"hi","arguments":{"x":1}`), nil, 200, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, got := exchange(t, "POST", url, tt.body, append([]string{
				"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: hi"}, tt.headers...)...)
			require.Equal(t, tt.status, res.StatusCode, got)
			require.Equal(t, "application/json", res.Header.Get("Content-Type"))
			if tt.code == 0 {
				require.Contains(t, got, `"result":{`)
				return
			}
			require.Contains(t, got, fmt.Sprintf(`"error":{"code":%d,`, tt.code))
		})
	}
}

// The body of -32022 has the supported versions.
func TestUnsupportedVersionOverHTTP(t *testing.T) {
	url := listen(t, newServer(t))
	res, got := exchange(t, "POST", url, strings.Replace(modern(1, "server/discover", ""), "2026-07-28", "2031-01-01", 1),
		"Mcp-Protocol-Version: 2031-01-01", "Mcp-Method: server/discover")
	require.Equal(t, 400, res.StatusCode)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported protocol version",
		"data":{"supported":["2026-07-28"],"requested":"2031-01-01"}}}`, got)
}

// Both eras on one endpoint.
func TestErasOverHTTP(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
	url := listen(t, srv)
	block := `"content":[{"type":"text","text":"hello"}]`

	res, got := exchange(t, "POST", url, legacy(1, "initialize",
		`"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
	require.Equal(t, 200, res.StatusCode)
	require.JSONEq(t, result(1, `"protocolVersion":"2025-06-18","capabilities":`+caps+`,"serverInfo":{"name":"test","version":"1"}`), got)
	sid := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	res, got = exchange(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, sid, "Mcp-Protocol-Version: 2025-06-18")
	require.Equal(t, 202, res.StatusCode)
	require.Empty(t, got)

	_, got = exchange(t, "POST", url, modern(2, "tools/call", call("hi", `{}`)), sid, // a session is nothing to a modern request
		"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: hi")
	require.JSONEq(t, result(2, block+`,`+serverMeta), got)
	_, got = exchange(t, "POST", url, legacy(2, "tools/call", call("hi", `{}`)), sid, "Mcp-Protocol-Version: 2025-06-18")
	require.JSONEq(t, result(2, block), got)
	_, got = exchange(t, "POST", url, `{"jsonrpc":"2.0","id":3,"method":"ping"}`, sid)
	require.Equal(t, `{"jsonrpc":"2.0","id":3,"result":{}}`, got)
	res, got = exchange(t, "POST", url, legacy(4, "no/such", ""), sid)
	require.Equal(t, 200, res.StatusCode, "a legacy error is an ordinary answer")
	require.JSONEq(t, failure(4, -32601, `there is no method "no/such"`), got)

	require.NoError(t, srv.Shutdown(t.Context()))
	res, _ = exchange(t, "POST", url, legacy(5, "ping", ""), sid)
	require.Equal(t, 404, res.StatusCode, "its session ended with the server")
}

func TestAllowedHostsAndOrigins(t *testing.T) {
	url := listen(t, newServer(t, server.WithAllowedHosts("box.example"), server.WithAllowedOrigins("https://app.example")))
	status := func(headers ...string) int {
		res, _ := exchange(t, "POST", url, modern(1, "tools/list", ""),
			append([]string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"}, headers...)...)
		return res.StatusCode
	}
	require.Equal(t, 200, status("Host: box.example"))
	require.Equal(t, 403, status("Host: other.example"))
	require.Equal(t, 200, status("Origin: https://app.example"))
	require.Equal(t, 403, status("Origin: https://other.example"))
}

const webPage = "https://app.example"

// preflight asks as a browser does whether a page may send a header.
func preflight(t *testing.T, url, header string) *http.Response {
	t.Helper()
	res, body := exchange(t, "OPTIONS", url, "", "Origin: "+webPage, "Access-Control-Request-Method: POST",
		"Access-Control-Request-Headers: "+header, "-Content-Type", "-Accept")
	require.Empty(t, body)
	return res
}

func TestAllowedHeaders(t *testing.T) {
	srv := newServer(t, server.WithAllowedOrigins(webPage), server.WithAllowedHeaders("X-Tenant"))
	require.Contains(t, preflight(t, listen(t, srv), "x-tenant").Header.Get("Access-Control-Allow-Headers"), ", X-Tenant")
	l := httptest.NewServer(srv.Handler(server.WithAllowedHeaders("X-Region")))
	defer l.Close()
	got := preflight(t, l.URL, "x-region").Header.Get("Access-Control-Allow-Headers")
	require.Contains(t, got, ", X-Region")
	require.NotContains(t, got, "X-Tenant", "the option of the endpoint replaces that of the server")

	_, err := server.TryNew("x", "1", server.WithAllowedHeaders("X Tenant"))
	require.EqualError(t, err, `server: transport: "X Tenant" cannot be the name of a header`)
	require.Panics(t, func() { srv.Handler(server.WithAllowedHeaders("X Tenant")) })
}

// authenticated is a wrapper as users write them. The question of a browser carries no
// credentials, and is for the endpoint to answer.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodOptions && r.Header.Get("Authorization") != "Bearer secret" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// A web page can call a server behind a wrapper that authenticates, because the wrapper passes
// on OPTIONS.
func TestPreflightBehindAuthentication(t *testing.T) {
	srv := newServer(t, server.WithAllowedOrigins(webPage))
	server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
	l := httptest.NewServer(authenticated(srv.Handler()))
	defer l.Close()

	res := preflight(t, l.URL, "authorization")
	require.Equal(t, 204, res.StatusCode)
	require.Equal(t, webPage, res.Header.Get("Access-Control-Allow-Origin"))
	require.Contains(t, res.Header.Get("Access-Control-Allow-Headers"), "Authorization")

	request := func(method string, headers ...string) (*http.Response, string) {
		return exchange(t, method, l.URL, modern(1, "tools/call", call("hi", `{}`)), append([]string{
			"Origin: " + webPage, "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: hi"}, headers...)...)
	}
	res, body := request("POST", "Authorization: Bearer secret")
	require.Equal(t, 200, res.StatusCode, body)
	require.Contains(t, body, "hello")
	require.Equal(t, webPage, res.Header.Get("Access-Control-Allow-Origin"))
	res, _ = request("POST")
	require.Equal(t, 401, res.StatusCode)
	res, body = request("OPTIONS")
	require.Equal(t, 405, res.StatusCode, "a call is none under this method")
	require.NotContains(t, body, "hello")
}

// A certificate belongs to its connection: if it is refused, the client must come with another connection to show another
// certificate. Any other credential may be better in the next request.
func TestRefusedCertificatesEndTheConnection(t *testing.T) {
	srv := newServer(t, server.WithAuthenticator(auth.AuthenticatorFunc(func(ctx context.Context, c *auth.Caller) (*auth.Principal, error) {
		if http.Header(c.Header).Get("Authorization") != "" {
			return nil, &mcp.Refusal{Status: 401, Reason: "token_unknown", By: "tokens"}
		}
		return (&local.Certificates{Subject: "dns"}).Authenticate(ctx, c)
	})))
	expired := &x509.Certificate{SerialNumber: big.NewInt(7), DNSNames: []string{"desk.example.org"}, NotAfter: time.Now().Add(-time.Minute)}
	for name, tt := range map[string]struct {
		chains [][]*x509.Certificate
		token  string
		ends   bool
	}{"expired": {[][]*x509.Certificate{{expired}}, "", true}, "none": {}, "bad token": {[][]*x509.Certificate{{expired}}, "Bearer x", false}} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), "GET", "https://127.0.0.1/mcp", nil)
			r.TLS = &tls.ConnectionState{VerifiedChains: tt.chains}
			if tt.token != "" {
				r.Header.Set("Authorization", tt.token)
			}
			w := httptest.NewRecorder()
			srv.Handler().ServeHTTP(w, r)
			require.Equal(t, 401, w.Code, w.Body)
			require.Equal(t, tt.ends, w.Header().Get("Connection") == "close")
		})
	}
}

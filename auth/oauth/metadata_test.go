package oauth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// The metadata is at each place where clients look, for pages of all origins.
func TestMetadata(t *testing.T) {
	rs := newServer(t, newIssuer(), func(c *oauth.Config) {
		c.Name, c.Documentation, c.Endpoint = "Weather", "https://example.com/docs", "/v1/mcp/"
	})
	require.Equal(t, []string{
		"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource/v1/mcp",
	}, rs.MetadataPaths())
	ask := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, nil)
		r.Host = "evil.example.com"
		r.Header.Set("Origin", "https://app.example.com")
		rs.Handler().ServeHTTP(w, r)
		require.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"))
		return w
	}
	for _, path := range rs.MetadataPaths() {
		w := ask("GET", path)
		require.Equal(t, 200, w.Code)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		require.JSONEq(t, `{
			"resource": "https://mcp.example.com/mcp", "authorization_servers": ["https://login.example.com"],
			"scopes_supported": ["demo:read", "demo:write"], "bearer_methods_supported": ["header"],
			"resource_name": "Weather", "resource_documentation": "https://example.com/docs"}`, w.Body.String())
		w = ask("OPTIONS", path)
		require.Equal(t, 204, w.Code)
		require.Equal(t, "GET, HEAD, OPTIONS", w.Header().Get("Access-Control-Allow-Methods"))
		require.Contains(t, w.Header().Get("Access-Control-Allow-Headers"), "*")
		w = ask("POST", path)
		require.Equal(t, 405, w.Code)
		require.Equal(t, "GET, HEAD, OPTIONS", w.Header().Get("Allow"))
	}
	require.Equal(t, 404, ask("GET", "/.well-known/oauth-protected-resource/other").Code)
}

// Challenges name all scopes of the operation. A scope that a caller has made up ends no parameter.
func TestChallenge(t *testing.T) {
	rs := newServer(t, newIssuer(), func(c *oauth.Config) { c.InitialScopes = []string{"demo:read"} })
	const at = `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`
	require.Equal(t, `Bearer scope="demo:read", `+at, rs.Challenge(http.StatusUnauthorized, nil))
	require.Equal(t, `Bearer scope="a b", `+at, rs.Challenge(http.StatusUnauthorized, []string{"a", "b"}))
	require.Equal(t, `Bearer error="insufficient_scope", error_description="the operation needs scopes that the access token does not have", scope="a b", `+at,
		rs.Challenge(http.StatusForbidden, []string{"a", "b"}))
	require.Equal(t, `Bearer scope="read:%22,%20error=%22x%0D%0A", `+at, rs.Challenge(http.StatusUnauthorized, []string{"read:\", error=\"x\r\n"}))
	require.Empty(t, rs.Challenge(http.StatusOK, nil))

	for resource, want := range map[string]string{
		"https://mcp.example.com":          "https://mcp.example.com/.well-known/oauth-protected-resource",
		"https://mcp.example.com/":         "https://mcp.example.com/.well-known/oauth-protected-resource",
		"http://127.0.0.1:8080/a%20b/mcp/": "http://127.0.0.1:8080/.well-known/oauth-protected-resource/a%20b/mcp",
	} {
		rs := newServer(t, newIssuer(), func(c *oauth.Config) { c.Resource = resource })
		require.Contains(t, rs.Challenge(401, nil), want+`"`)
	}
}

package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// uses are requests for the items that need scopes: the params, what Mcp-Name repeats, and the scope.
var uses = []struct{ method, params, name, scope string }{
	{"tools/call", `"name":"scoped","arguments":{},`, "scoped", scopeWrite},
	{"resources/read", `"uri":"test://scoped/7",`, "test://scoped/7", scopeWrite},
	{"prompts/get", `"name":"scoped_prompt",`, "scoped_prompt", scopeRead},
	{"resources/read", `"uri":"test://scoped",`, "test://scoped", scopeRead},
}

// Without an issuer the scoped items are open.
func TestScopedItemsAreOpenWithoutAnIssuer(t *testing.T) {
	c := newClient(t)
	for _, use := range uses {
		assert.Nil(t, c.post(use.method, use.params, "Mcp-Name", use.name).Error, use.name)
	}
	assert.JSONEq(t, `{"issuer":"","subject":"","tenant":"","client":"","scopes":[]}`, string(c.call("whoami", "{}").Result.StructuredContent))
}

// With one they need their scopes, or a scope that includes them.
func TestScopedItemsNeedScopes(t *testing.T) {
	authenticator := server.WithAuthenticator(auth.AuthenticatorFunc(func(_ context.Context, c *auth.Caller) (*auth.Principal, error) {
		return &auth.Principal{Issuer: "i", Subject: "s", Tenant: "t", Client: "c", Scopes: strings.Fields(http.Header(c.Header).Get("Authorization"))}, nil
	}))
	srv, err := newServer(func(opts ...server.Option) (*server.Server, error) {
		return server.TryNew("everything", "1", append(opts, authenticator)...)
	}, access{scoped: true})
	require.NoError(t, err)
	ts := httptest.NewServer(srv.Handler())
	defer ts.Close()
	c := client{t, ts.URL}
	for granted, allowed := range map[string][]string{
		"": nil, scopeRead: {scopeRead}, scopeWrite: {scopeRead, scopeWrite}, scopeAdmin: {scopeRead, scopeWrite},
	} {
		for _, use := range uses {
			r := c.post(use.method, use.params, "Mcp-Name", use.name, "Authorization", granted)
			if slices.Contains(allowed, use.scope) {
				assert.Nil(t, r.Error, "%s with %q", use.name, granted)
			} else if assert.NotNil(t, r.Error, "%s with %q", use.name, granted) {
				assert.Equal(t, "this needs the scopes "+use.scope, r.Error.Message)
			}
		}
	}
	assert.JSONEq(t, `{"issuer":"i","subject":"s","tenant":"t","client":"c","scopes":["demo:read"]}`,
		string(c.call("whoami", "{}", "Authorization", scopeRead).Result.StructuredContent))
}

// The contract of the conformance suite for scopes: a token with too few is challenged for all scopes of
// the operation, one with all is served, and requests without a token are served as ever.
func TestConformanceScopes(t *testing.T) {
	suite := &suiteAuthenticator{}
	suite.listening(service.Endpoints{MCP: "http://127.0.0.1:8080/mcp"})
	ts := httptest.NewServer(suite.wrap(serverWith(access{suite: suite}).Handler()))
	defer ts.Close()
	for _, use := range []struct{ method, params, name, scopes string }{
		{"tools/call", `"name":"test_simple_text",`, "test_simple_text", "mcp:conformance:tools:call mcp:conformance:tools:test_simple_text"},
		{"resources/read", `"uri":"test://static-text",`, "test://static-text", "mcp:conformance:resources:read mcp:conformance:resources:static"},
		{"resources/read", `"uri":"test://template/123/data",`, "test://template/123/data", "mcp:conformance:resources:read mcp:conformance:resources:template:123"},
		{"prompts/get", `"name":"test_simple_prompt",`, "test_simple_prompt", "mcp:conformance:prompts:get mcp:conformance:prompts:test_simple_prompt"},
	} {
		host := "127.0.0.1"
		send := func(token string) (*http.Response, string) {
			req, err := http.NewRequest(http.MethodPost, ts.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+use.method+`","params":{`+use.params+
				`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
			require.NoError(t, err)
			for name, value := range map[string]string{
				"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": use.method, "Mcp-Name": use.name, "Authorization": token,
			} {
				req.Header.Set(name, value)
			}
			req.Host = strings.Replace(req.URL.Host, "127.0.0.1", host, 1)
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			return resp, string(body)
		}
		for _, host = range []string{"127.0.0.1", "localhost"} {
			resp, body := send("Bearer mcp-conformance-scope-low")
			require.Equal(t, 403, resp.StatusCode, body)
			require.Equal(t, `Bearer scope="`+use.scopes+`", error="insufficient_scope", resource_metadata="http://`+host+`:8080/.well-known/oauth-protected-resource/mcp"`,
				resp.Header.Get("WWW-Authenticate"))
		}
		for _, token := range []string{"Bearer mcp-conformance-scope-full", "", "Bearer another"} {
			resp, body := send(token)
			require.Equal(t, 200, resp.StatusCode, body)
			require.Contains(t, body, `"result"`)
		}
	}
}

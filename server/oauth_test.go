package server_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
	"github.com/vitrine-mcp/vitrine/internal/issuertest"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/server"
)

// issueTokens starts an authorization server, and returns its issuer and a function that makes tokens
// of it for a resource.
func issueTokens(t testing.TB) (issuer string, token func(resource string, lasts time.Duration) string) {
	t.Helper()
	i := issuertest.New(t)
	return i.URL, func(resource string, lasts time.Duration) string {
		return i.Token(issuertest.Object{"aud": resource, "scope": "read", "exp": time.Now().Add(lasts).Unix()})
	}
}

// A server with a resource server tells clients where to get a token, admits those with one, and
// counts the rest by its reason. Pages can read the challenge.
func TestResourceServer(t *testing.T) {
	issuer, token := issueTokens(t)
	const resource = issuertest.Resource
	rs, err := oauth.New(oauth.Config{Issuers: []string{issuer}, Resource: resource, Scopes: []string{"read"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, rs.Close()) }()
	srv := newServer(t, server.WithAuthenticator(rs), server.WithAllowedOrigins("https://app.example.com"))
	server.AddTool(srv, server.Tool{Name: "who"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		return call.Principal.Subject, nil
	})
	url := listen(t, srv)
	ask := func(headers ...string) (*http.Response, string) {
		return exchange(t, "POST", url, modern(1, "tools/call", call("who", `{}`)), append(modernHeaders("tools/call", "who"), headers...)...)
	}
	res, body := ask("Origin: https://app.example.com")
	require.Equal(t, 401, res.StatusCode)
	require.Equal(t, `Bearer scope="read", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`, res.Header.Get("WWW-Authenticate"))
	require.Contains(t, res.Header.Get("Access-Control-Expose-Headers"), "WWW-Authenticate")
	require.Contains(t, body, `"reason":"token_missing"`)

	good := "Authorization: Bearer " + token(resource, time.Hour)
	res, body = ask(good)
	require.Equal(t, 200, res.StatusCode)
	require.Contains(t, body, `"text":"ann"`)

	var told []string
	for _, wrong := range []string{token("https://other.example.com", time.Hour), token(resource, -time.Hour), "garbage"} {
		res, body := ask("Authorization: Bearer " + wrong)
		require.Equal(t, 401, res.StatusCode)
		told = append(told, res.Header.Get("WWW-Authenticate")+body)
	}
	require.Contains(t, told[0], `error="invalid_token"`)
	require.Contains(t, told[0], `"reason":"invalid_token"`)
	require.Equal(t, []string{told[0], told[0], told[0]}, told, "nobody learns what is wrong")

	res, _ = ask(good, "Authorization! Bearer second")
	require.Equal(t, 400, res.StatusCode)
	require.Contains(t, res.Header.Get("WWW-Authenticate"), `error="invalid_request"`)
	res, _ = exchange(t, "POST", url+"?access_token="+token(resource, time.Hour), modern(1, "tools/list", ""), modernHeaders("tools/list", "")...)
	require.Equal(t, 401, res.StatusCode, "a token in the query is not looked at")

	snap := srv.Core().Snapshot()
	require.ElementsMatch(t, []session.RefusedCounter{
		{Reason: "token_missing", By: "oauth", Count: 2}, {Reason: "token_audience", By: "oauth", Count: 1}, {Reason: "token_expired", By: "oauth", Count: 1},
		{Reason: "token_malformed", By: "oauth", Count: 1}, {Reason: "authorization_malformed", By: "oauth", Count: 1},
	}, snap.Counters.Refused)
	require.Equal(t, issuer, snap.Auth.Issuers[0].Issuer)
	require.Equal(t, 1, snap.Auth.Issuers[0].Keys)
}

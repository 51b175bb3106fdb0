package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/service"
)

// suiteTokens are the opaque tokens of the conformance suite.
var suiteTokens = map[string]*auth.Principal{
	"mcp-conformance-scope-low": {Subject: "low", Scopes: []string{"mcp:conformance:baseline"}},
	"mcp-conformance-scope-full": {Subject: "full", Scopes: []string{
		"mcp:conformance:baseline", "mcp:conformance:tools:call", "mcp:conformance:tools:test_simple_text",
		"mcp:conformance:resources:read", "mcp:conformance:resources:static", "mcp:conformance:resources:template:123",
		"mcp:conformance:prompts:get", "mcp:conformance:prompts:test_simple_prompt",
	}},
}

// suiteAuthenticator knows the callers of the conformance suite. Callers without one of its tokens are
// nobody. It is an [auth.Challenger].
type suiteAuthenticator struct {
	// metadata is the URL of the metadata of the protected resource, once that is known.
	metadata atomic.Pointer[string]
}

// Authenticate implements [auth.Authenticator].
func (a *suiteAuthenticator) Authenticate(_ context.Context, c *auth.Caller) (*auth.Principal, error) {
	token, _ := strings.CutPrefix(http.Header(c.Header).Get("Authorization"), "Bearer ")
	return suiteTokens[token], nil
}

// Challenge implements [auth.Challenger].
func (a *suiteAuthenticator) Challenge(status int, scopes []string) string {
	challenge := `Bearer scope="` + strings.Join(scopes, " ") + `"`
	if status == http.StatusForbidden {
		challenge += `, error="insufficient_scope"`
	}
	if metadata := a.metadata.Load(); metadata != nil {
		challenge += `, resource_metadata="` + *metadata + `"`
	}
	return challenge
}

// metadataPath is where clients look for the metadata of a protected resource (RFC 9728).
const metadataPath = "/.well-known/oauth-protected-resource"

// listening notes where the server is.
func (a *suiteAuthenticator) listening(at service.Endpoints) {
	u, err := url.Parse(at.MCP)
	if err != nil || u.Host == "" {
		return // standard input and output
	}
	u.Path = metadataPath + u.Path
	text := u.String()
	a.metadata.Store(&text)
}

// wrap has challenges name this machine as the client does: the suite compares origins, and calls a local
// server 127.0.0.1 or localhost.
func (a *suiteAuthenticator) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, _, _ := net.SplitHostPort(r.Host); name == "localhost" {
			w = localhost{w}
		}
		next.ServeHTTP(w, r)
	})
}

// localhost writes 127.0.0.1 in challenges as localhost.
type localhost struct{ http.ResponseWriter }

// Unwrap is for [http.ResponseController].
func (w localhost) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w localhost) WriteHeader(status int) {
	const challenge = "Www-Authenticate"
	if text := w.Header().Get(challenge); text != "" {
		w.Header().Set(challenge, strings.Replace(text, "http://127.0.0.1:", "http://localhost:", 1))
	}
	w.ResponseWriter.WriteHeader(status)
}

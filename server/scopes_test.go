package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// byScopes is an authenticator whose callers send their scopes as a bearer token. A caller without
// a token has no principal. On byte streams the scopes are those of the context.
type byScopes struct{}

func (byScopes) Authenticate(ctx context.Context, c *auth.Caller) (*auth.Principal, error) {
	token, bearer := strings.CutPrefix(http.Header(c.Header).Get("Authorization"), "Bearer ")
	if c.Header == nil {
		token, bearer = ctx.Value(whoKey{}).(string)
	}
	if !bearer {
		return nil, nil
	}
	return &auth.Principal{Subject: "ann", Scopes: strings.Fields(token)}, nil
}

// Challenge implements auth.Challenger.
func (byScopes) Challenge(status int, scopes []string) string {
	return fmt.Sprintf("Bearer status=%d, scope=%q", status, strings.Join(scopes, " "))
}

// newScopedServer has an item of each kind that needs scopes.
func newScopedServer(t *testing.T, opts ...server.Option) *server.Server {
	srv := newServer(t, append([]server.Option{server.WithAuthenticator(byScopes{}),
		server.WithScopeHierarchy(auth.Hierarchy{"admin": {"write"}, "write": {"read"}})}, opts...)...)
	complete := server.CompleteFrom("1")
	server.AddTool(srv, server.Tool{Name: "do", Scopes: []string{"read", "write"}},
		func(context.Context, *server.Call, struct{ A int }) (string, error) { return "done", nil })
	server.AddPrompt(srv, server.Prompt{Name: "say", Scopes: []string{"read", "speak"},
		Arguments: []server.PromptArgument{{Name: "a", Complete: complete}}}, say("ok"))
	server.AddStaticResource(srv, server.Resource{URI: "x:y", Name: "y", Scopes: []string{"read"},
		ScopesFor: func(uri string) []string { return []string{"read:" + uri} }}, "ok")
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "t:{id}", Name: "t", Scopes: []string{"read"},
		Complete:  map[string]server.CompleteFunc{"id": complete},
		ScopesFor: func(uri string) []string { return []string{"read:" + strings.TrimPrefix(uri, "t:")} }}, echoVars)
	return srv
}

// useOfScoped is a request for an item that needs scopes, and the scopes that it needs.
type useOfScoped struct{ name, method, target, params, scopes string }

func usesOfScoped() []useOfScoped {
	return []useOfScoped{
		{"tool", "tools/call", "do", call("do", `{"A":1}`), "read write"},
		{"tool with bad arguments", "tools/call", "do", call("do", `"x"`), "read write"},
		{"prompt", "prompts/get", "say", prompt("say", `{}`), "read speak"},
		{"resource", "resources/read", "x:y", uri("x:y"), "read read:x:y"},
		{"template", "resources/read", "t:7", uri("t:7"), "read read:7"},
		{"completion of a prompt", "completion/complete", "", completion(promptRef("say"), argument("a", "")), "read speak"},
		{"completion of a template", "completion/complete", "", completion(resourceRef("t:{id}"), argument("id", "")), "read"},
	}
}

// A caller that lacks scopes is challenged for all scopes of exactly this operation, in both eras.
func TestMissingScopesAreChallenged(t *testing.T) {
	url := listen(t, newScopedServer(t))
	full := "Authorization: Bearer admin speak read:x:y read:7"
	session := begin(t, url, mcp.Version20250326, full)
	for _, use := range usesOfScoped() {
		headers := []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + use.method}
		if use.target != "" {
			headers = append(headers, "Mcp-Name: "+use.target)
		}
		for era, ask := range map[string]func(authorization string) (*http.Response, string){
			"modern": func(authorization string) (*http.Response, string) {
				return exchange(t, "POST", url, modern(1, use.method, use.params), append(headers, authorization)...)
			},
			"legacy": func(authorization string) (*http.Response, string) {
				return exchange(t, "POST", url, legacy(1, use.method, use.params), session, authorization)
			},
		} {
			t.Run(era+" "+use.name, func(t *testing.T) {
				res, body := ask("Authorization: Bearer other")
				require.Equal(t, 403, res.StatusCode, body)
				require.Equal(t, fmt.Sprintf("Bearer status=403, scope=%q", use.scopes), res.Header.Get("WWW-Authenticate"))
				require.Contains(t, body, `"message":"this needs the scopes `+use.scopes+`"`)
				require.Contains(t, body, `"reason":"insufficient_scope"`)
				if era == "modern" { // a session belongs to its principal
					res, body = ask("-Authorization")
					require.Equal(t, 401, res.StatusCode, body)
					require.Equal(t, fmt.Sprintf("Bearer status=401, scope=%q", use.scopes), res.Header.Get("WWW-Authenticate"))
				}
				res, body = ask(full)
				require.NotContains(t, body, "scope")
				require.Empty(t, res.Header.Get("WWW-Authenticate"))
			})
		}
	}
}

// Scopes hide nothing: a client must see what it could ask for more rights for.
func TestScopedItemsAreListed(t *testing.T) {
	p := dial(t, newScopedServer(t))
	for method, name := range map[string]string{
		"tools/list": "do", "prompts/list": "say", "resources/list": "x:y", "resources/templates/list": "t:{id}",
	} {
		require.Contains(t, p.ask(modern(1, method, "")), `"`+name+`"`)
	}
}

// On a byte stream the credentials come from its surroundings, and the error has the scopes.
func TestScopesOnByteStreams(t *testing.T) {
	srv := newScopedServer(t)
	require.Contains(t, dialContext(t, as("admin"), srv).ask(modern(1, "tools/call", call("do", `{"A":1}`))), "done")
	require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":403,"message":"this needs the scopes read write","data":{"reason":"insufficient_scope"}}}`,
		dialContext(t, as("other"), srv).ask(modern(1, "tools/call", call("do", `{}`))))
	require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":401,"message":"this needs the scopes read write","data":{"reason":"unauthenticated"}}}`,
		dial(t, srv).ask(modern(1, "tools/call", call("do", `{}`))))
}

// A caller without scopes gets its challenge while the server is full.
func TestChallengesNeedNoSlot(t *testing.T) {
	srv := newScopedServer(t, server.WithLimits(server.Limits{MaxInFlightTotal: 1, MaxQueue: 1, MaxQueuePerSession: 1}))
	entered, release := make(chan bool), make(chan bool)
	server.AddTool(srv, server.Tool{Name: "wait"}, func(context.Context, *server.Call, none) (string, error) {
		entered <- true
		<-release
		return "", nil
	})
	defer close(release)
	p := dialContext(t, as("other"), srv)
	p.send(modern(1, "tools/call", call("wait", `{}`)))
	<-entered
	p.send(modern(2, "tools/call", call("wait", `{}`)))
	require.Contains(t, p.ask(modern(3, "tools/call", call("wait", `{}`))), `"reason":"overload"`)
	require.Contains(t, p.ask(modern(4, "tools/call", call("do", `{}`))), `"code":403`)
	release <- true
	<-entered
}

// Subscriptions need the scopes of their resources, all of them in one challenge.
func TestScopesOfSubscriptions(t *testing.T) {
	srv := newScopedServer(t)
	p := dialContext(t, as("other"), srv)
	require.Contains(t, p.ask(listenTo(1, `{"resourceSubscriptions":["x:y","t:7","nowhere:1"]}`)),
		`"message":"this needs the scopes read read:x:y read:7"`)
	p.initialize("2025-06-18")
	require.Contains(t, p.ask(withURI(1, "resources/subscribe", "t:7")), `"message":"this needs the scopes read read:7"`)
	full := dialContext(t, as("admin read:x:y read:7"), srv)
	require.JSONEq(t, acknowledged(1, `{"resourceSubscriptions":["x:y","t:7"]}`),
		full.ask(listenTo(1, `{"resourceSubscriptions":["x:y","t:7","nowhere:1"]}`)))
}

// What a function returns for a URI, and is no scope, is in no challenge, and nobody can have it.
func TestScopesThatAreNone(t *testing.T) {
	srv := newScopedServer(t)
	for name, scopes := range map[string][]string{"some": {"a", `b", error="x`}, "none": {"a b"}} {
		server.AddStaticResource(srv, server.Resource{URI: "s:" + name, Name: name, ScopesFor: func(string) []string { return scopes }}, "ok")
	}
	url := listen(t, srv)
	for name, want := range map[string]string{"some": `Bearer status=403, scope="a"`, "none": ""} {
		res, body := exchange(t, "POST", url, modern(1, "resources/read", uri("s:"+name)), `Authorization: Bearer a b", error="x`,
			"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: resources/read", "Mcp-Name: s:"+name)
		require.Equal(t, 403, res.StatusCode, body)
		require.Equal(t, want, res.Header.Get("WWW-Authenticate"))
	}
}

// What is no scope is a mistake in the definition.
func TestScopesAreChecked(t *testing.T) {
	srv := newServer(t)
	for _, bad := range []string{"", "a b", `a"b`, `a\b`, "ü"} {
		require.ErrorContains(t, server.TryAddTool(srv, server.Tool{Name: "a", Scopes: []string{bad}}, text("")), "is no scope")
	}
	_, err := server.TryNew("a", "1", server.WithScopeHierarchy(auth.Hierarchy{"a": {"a"}}))
	require.ErrorContains(t, err, "includes itself")
	_, err = server.TryNew("a", "1", server.WithPolicy(nil))
	require.ErrorContains(t, err, "a policy is nil")
}

// A server whose authenticator words no challenge has a plain one.
func TestPlainChallenge(t *testing.T) {
	srv := newServer(t, byAuthorization)
	server.AddTool(srv, server.Tool{Name: "do", Scopes: []string{"a", "b"}}, text("done"))
	url := listen(t, srv)
	for authorization, want := range map[string]string{
		"Authorization: ann": `Bearer error="insufficient_scope", scope="a b"`, "-Authorization": `Bearer scope="a b"`,
	} {
		res, _ := exchange(t, "POST", url, modern(1, "tools/call", call("do", `{}`)), authorization,
			"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: do")
		require.Equal(t, want, res.Header.Get("WWW-Authenticate"))
	}
}

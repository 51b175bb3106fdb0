package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
)

type roleKey struct{}

// authorize finds out who calls, as a user's middleware would: from the request's _meta.
func authorize(next middleware.Handler) middleware.Handler {
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		role, _ := req.Meta()["role"].(string)
		return next(context.WithValue(ctx, roleKey{}, role), req)
	}
}

// onlyAdmin shows what has "secret" in its name to admins alone.
func onlyAdmin(ctx context.Context, _ *middleware.Request, item server.Item) bool {
	return !strings.Contains(item.Name, "secret") || ctx.Value(roleKey{}) == "admin"
}

const admin = `"role":"admin"`

// refusing is a middleware that would show that what it wraps exists.
func refusing(next middleware.Handler) middleware.Handler {
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		if req.Meta()["role"] == nil {
			return nil, mcp.NewError(-31000, "not you")
		}
		return next(ctx, req)
	}
}

func newSecretServer(t *testing.T) *server.Server {
	srv := newServer(t, server.WithMiddleware(authorize), server.WithView(onlyAdmin))
	own := []middleware.Middleware{refusing}
	complete := server.CompleteFrom("1")
	for _, name := range []string{"open", "secret"} {
		server.AddTool(srv, server.Tool{Name: name, Middleware: own, InputSchema: jsontext.Value(
			`{"type":"object","properties":{"s":{"type":"string","x-mcp-header":"S"}},"required":["s"]}`)},
			func(context.Context, *server.Call, map[string]any) (string, error) { return "ok", nil })
		server.AddPrompt(srv, server.Prompt{Name: name, Middleware: own,
			Arguments: []server.PromptArgument{{Name: "a", Required: true, Complete: complete}}}, say("ok"))
		server.AddStaticResource(srv, server.Resource{URI: "x:" + name, Name: name, Middleware: own}, "ok")
		server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "t:" + name + "/{a}", Name: name, Middleware: own,
			Complete: map[string]server.CompleteFunc{"a": complete}}, echoVars)
	}
	return srv
}

// A hidden item is in no list, and a request for it is answered exactly as if it did not exist.
func TestHiddenItemsDoNotExist(t *testing.T) {
	srv := newSecretServer(t)
	for _, list := range []struct{ method, member, key string }{
		{"tools/list", "tools", "name"},
		{"prompts/list", "prompts", "name"},
		{"resources/list", "resources", "uri"},
		{"resources/templates/list", "resourceTemplates", "uriTemplate"},
	} {
		t.Run(list.method, func(t *testing.T) {
			ask := func(meta ...string) string { return dial(t, srv).ask(modern(1, list.method, "", meta...)) }
			require.NotContains(t, ask(), "secret")
			require.Contains(t, ask(), "open")
			require.Contains(t, ask(), `"cacheScope":"private"`)
			require.Contains(t, ask(admin), "secret")
			require.Contains(t, ask(admin), `"cacheScope":"private"`)
			p := oldPipe(t, srv, mcp.Version20251125)
			require.NotContains(t, p.ask(legacy(1, list.method, "")), "secret")
			require.Contains(t, p.ask(legacy(1, list.method, `"_meta":{`+admin+`}`)), "secret")
		})
	}
	for _, use := range []struct{ name, method, params string }{
		{"call", "tools/call", call("NAME", `{"s":"a"}`)},
		{"call with bad arguments", "tools/call", call("NAME", `{}`)},
		{"call with arguments of a wrong type", "tools/call", call("NAME", `[]`)},
		{"get", "prompts/get", prompt("NAME", `{"a":""}`)},
		{"get with bad arguments", "prompts/get", prompt("NAME", `{}`)},
		{"read", "resources/read", uri("x:NAME")},
		{"read by template", "resources/read", uri("t:NAME/1")},
		{"complete a prompt", "completion/complete", completion(promptRef("NAME"), argument("a", ""))},
		{"complete a prompt's unknown argument", "completion/complete", completion(promptRef("NAME"), argument("b", ""))},
		{"complete a template", "completion/complete", completion(resourceRef("t:NAME/{a}"), argument("a", ""))},
		{"complete a resource", "completion/complete", completion(resourceRef("x:NAME"), argument("a", ""))},
	} {
		t.Run(use.name, func(t *testing.T) {
			named := func(name string) string { return strings.ReplaceAll(use.params, "NAME", name) }
			as := func(answer string) string { return strings.ReplaceAll(answer, "missing", "secret") }
			p := oldPipe(t, srv, mcp.Version20251125)
			hidden := p.ask(modern(1, use.method, named("secret")))
			require.Contains(t, hidden, "there is no ")
			require.Equal(t, as(p.ask(modern(1, use.method, named("missing")))), hidden)
			require.Equal(t, as(p.ask(legacy(1, use.method, named("missing")))), p.ask(legacy(1, use.method, named("secret"))))
			require.NotEqual(t, hidden, p.ask(modern(1, use.method, named("secret"), admin)))
			require.NotContains(t, p.ask(modern(1, use.method, named("open"))), `there is no prompt "`, "the view hides what it should")
		})
	}
}

// Over HTTP the headers of a hidden tool's arguments are not checked.
func TestHiddenParamHeaders(t *testing.T) {
	url := listen(t, newSecretServer(t))
	ask := func(tool string, meta ...string) string {
		_, got := exchange(t, "POST", url, modern(1, "tools/call", call(tool, `{"s":"a"}`), meta...),
			"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: "+tool)
		return got
	}
	require.Equal(t, strings.ReplaceAll(ask("missing"), "missing", "secret"), ask("secret"))
	require.Contains(t, ask("secret", admin), "Mcp-Param-S is missing")
}

// A template with the same URI is found behind a hidden resource.
func TestHiddenResourceHidesNoTemplate(t *testing.T) {
	srv := newServer(t, server.WithMiddleware(authorize), server.WithView(onlyAdmin))
	server.AddStaticResource(srv, server.Resource{URI: "x:secret/1", Name: "secret"}, "direct")
	for _, name := range []string{"x:secret/{a}", "x:{+rest}", "x:secret{/b}"} {
		server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: name, Name: name},
			func(context.Context, *server.Call, string, map[string]string) (string, error) { return name, nil })
	}
	p := dial(t, srv)
	read := func(of string, meta ...string) string { return p.ask(modern(1, "resources/read", uri(of), meta...)) }
	require.Contains(t, read("x:secret/1", admin), `"text":"direct"`)
	require.Contains(t, read("x:secret/2", admin), `"text":"x:secret/{a}"`)
	require.Contains(t, read("x:secret/1"), `"text":"x:{+rest}"`)
	require.Contains(t, read("x:secret/2"), `"text":"x:{+rest}"`)
	require.Contains(t, read("x:3", admin), `"text":"x:{+rest}"`)
}

// With an authenticator or a view resources have the scope private, unless they set another. The
// scope of lists depends on the view.
func TestCacheScopes(t *testing.T) {
	view := server.WithView(func(context.Context, *middleware.Request, server.Item) bool { return true })
	principal := server.WithAuthenticator(auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) {
		return named("me"), nil
	}))
	const public, private = `"cacheScope":"public"`, `"cacheScope":"private"`
	for _, tt := range []struct {
		name             string
		opts             []server.Option
		list, read, open string
	}{
		{"neither", nil, public, public, public},
		{"view", []server.Option{view}, private, private, public},
		{"principal", []server.Option{principal}, public, private, public},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var answer mcp.Result
			srv := newServer(t, append(tt.opts, server.WithMiddleware(func(next middleware.Handler) middleware.Handler {
				return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
					if answer != nil {
						return answer, nil
					}
					return next(ctx, req)
				}
			}))...)
			server.AddResource(srv, server.Resource{URI: "x:y", Name: "n"}, reader(""))
			server.AddResource(srv, server.Resource{URI: "x:open", Name: "n", Scope: mcp.CachePublic}, reader(""))
			p := dial(t, srv)
			for _, method := range []string{"server/discover", "tools/list", "resources/list", "resources/templates/list"} {
				require.Contains(t, p.ask(modern(1, method, "")), tt.list, method)
			}
			require.Contains(t, p.ask(modern(1, "resources/read", uri("x:y"))), tt.read)
			require.Contains(t, p.ask(modern(1, "resources/read", uri("x:open"))), tt.open)
			answer = &mcp.ListToolsResult{}
			require.Contains(t, p.ask(modern(1, "tools/list", "")), tt.list, "of a middleware that answers by itself")
		})
	}
}

// The view gets every item with the name of its kind.
func TestViewSeesItems(t *testing.T) {
	seen := map[server.Item]bool{}
	srv := newServer(t, server.WithView(func(_ context.Context, req *middleware.Request, item server.Item) bool {
		seen[item] = req.Method != ""
		return true
	}))
	server.AddTool(srv, server.Tool{Name: "a"}, text(""))
	server.AddPrompt(srv, server.Prompt{Name: "a"}, say(""))
	server.AddStaticResource(srv, server.Resource{URI: "x:a", Name: "a"}, "")
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:{a}", Name: "a"}, echoVars)
	p := dial(t, srv)
	want := map[server.Item]bool{}
	for _, list := range []struct {
		method string
		item   server.Item
	}{
		{"tools/list", server.Item{Kind: server.ItemTool, Name: "a"}},
		{"prompts/list", server.Item{Kind: server.ItemPrompt, Name: "a"}},
		{"resources/list", server.Item{Kind: server.ItemResource, Name: "a", URI: "x:a"}},
		{"resources/templates/list", server.Item{Kind: server.ItemTemplate, Name: "a", Template: "x:{a}"}},
	} {
		p.ask(modern(1, list.method, ""))
		want[list.item] = true
		require.Equal(t, want, seen)
	}
}

// For a template the view decides by the URI that is read or subscribed to, and by the
// principal.
func TestViewDecidesByURI(t *testing.T) {
	srv := newServer(t, byContext, server.WithView(func(_ context.Context, req *middleware.Request, item server.Item) bool {
		return item.URI == "" || item.URI == "home:"+req.Principal.String()
	}))
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "home:{user}", Name: "home"}, echoVars)
	p := dialContext(t, as("ada"), srv)
	require.Contains(t, p.ask(modern(1, "resources/templates/list", "")), "home:{user}")
	require.Contains(t, p.ask(modern(1, "resources/read", uri("home:ada"))), `"result"`)
	require.Equal(t, p.ask(modern(1, "resources/read", uri("nowhere:x"))),
		strings.ReplaceAll(p.ask(modern(1, "resources/read", uri("home:bob"))), "home:bob", "nowhere:x"), "as if it did not exist")
	require.JSONEq(t, acknowledged(2, `{"resourceSubscriptions":["home:ada"]}`),
		p.ask(listenTo(2, `{"resourceSubscriptions":["home:ada","home:bob"]}`)))
}

// Pages of a filtered list are full, and the last one ends with the last visible item.
func TestHiddenItemsFillNoPage(t *testing.T) {
	srv := newServer(t, server.WithPageSize(2), server.WithMiddleware(authorize), server.WithView(onlyAdmin))
	for i := range 9 {
		name := fmt.Sprint("open-", i)
		if i%3 != 0 || i == 8 {
			name = fmt.Sprint("secret-", i)
		}
		server.AddPrompt(srv, server.Prompt{Name: name}, say(""))
	}
	p := dial(t, srv)
	require.Equal(t, [][]string{{"open-0", "open-3"}, {"open-6"}}, pagesOf(t, p, "prompts/list"))
	srv.RemovePrompts("open-6")
	require.Equal(t, [][]string{{"open-0", "open-3"}}, pagesOf(t, p, "prompts/list"))
	require.Len(t, slices.Concat(pagesOf(t, p, "prompts/list", admin)...), 8)
}

// A legacy HTTP session serves the principal that has begun it, and nobody else who
// knows its id.

package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// deny is the policy that hides some operations.
func deny(which func(p *auth.Principal, op *auth.Operation) bool) server.Option {
	return server.WithPolicy(auth.PolicyFunc(func(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
		if which(p, op) {
			return auth.Decision{Effect: auth.Deny, Rule: "hides", Reason: "it is a secret"}
		}
		return auth.Decision{Effect: auth.Allow, Rule: "shows"}
	}))
}

// onlyAdmin shows what has "secret" in its name to admins alone.
var onlyAdmin = deny(func(p *auth.Principal, op *auth.Operation) bool {
	return strings.Contains(op.Name, "secret") && p.String() != "admin"
})

// refusing is a middleware that would show that what it wraps exists.
func refusing(next middleware.Handler) middleware.Handler {
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		if req.Principal == nil {
			return nil, mcp.NewError(-31000, "not you")
		}
		return next(ctx, req)
	}
}

func newSecretServer(t *testing.T, callers server.Option) *server.Server {
	srv := newServer(t, callers, onlyAdmin)
	own := []middleware.Middleware{refusing}
	complete := server.CompleteFrom("1")
	for _, name := range []string{"open", "secret"} {
		server.AddTool(srv, server.Tool{Name: name, Middleware: own, Class: server.NewClass(name, 1), InputSchema: jsontext.Value(
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
	srv := newSecretServer(t, byContext)
	for _, list := range []struct{ method, member, key string }{
		{"tools/list", "tools", "name"},
		{"prompts/list", "prompts", "name"},
		{"resources/list", "resources", "uri"},
		{"resources/templates/list", "resourceTemplates", "uriTemplate"},
	} {
		t.Run(list.method, func(t *testing.T) {
			for _, who := range []string{"", "ann", "admin"} {
				p := dialContext(t, as(who), srv)
				listed := p.ask(modern(1, list.method, ""))
				require.Contains(t, listed, "open")
				require.Contains(t, listed, `"cacheScope":"private"`)
				require.Equal(t, who == "admin", strings.Contains(listed, "secret"))
				p.initialize("2025-11-25")
				require.Equal(t, who == "admin", strings.Contains(p.ask(legacy(1, list.method, "")), "secret"))
			}
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
			renamed := func(answer string) string { return strings.ReplaceAll(answer, "missing", "secret") }
			p, admin := oldPipe(t, srv, mcp.Version20251125), dialContext(t, as("admin"), srv)
			hidden := p.ask(modern(1, use.method, named("secret")))
			require.Contains(t, hidden, "there is no ")
			require.Equal(t, renamed(p.ask(modern(1, use.method, named("missing")))), hidden)
			require.Equal(t, renamed(p.ask(legacy(1, use.method, named("missing")))), p.ask(legacy(1, use.method, named("secret"))))
			require.NotEqual(t, hidden, admin.ask(modern(1, use.method, named("secret"))))
			require.NotContains(t, p.ask(modern(1, use.method, named("open"))), `there is no prompt "`, "the policy hides what it should")
		})
	}
}

// Over HTTP the headers of a hidden tool's arguments are not checked.
func TestHiddenParamHeaders(t *testing.T) {
	url := listen(t, newSecretServer(t, byAuthorization))
	ask := func(tool string, who string) string {
		_, got := exchange(t, "POST", url, modern(1, "tools/call", call(tool, `{"s":"a"}`)), "Authorization: "+who,
			"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: "+tool)
		return got
	}
	require.Equal(t, strings.ReplaceAll(ask("missing", ""), "missing", "secret"), ask("secret", ""))
	require.Contains(t, ask("secret", "admin"), "Mcp-Param-S is missing")
}

// A template with the same URI is found behind a hidden resource.
func TestHiddenResourceHidesNoTemplate(t *testing.T) {
	srv := newServer(t, byContext, onlyAdmin)
	server.AddStaticResource(srv, server.Resource{URI: "x:secret/1", Name: "secret"}, "direct")
	for _, name := range []string{"x:secret/{a}", "x:{+rest}", "x:secret{/b}"} {
		server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: name, Name: name},
			func(context.Context, *server.Call, string, map[string]string) (string, error) { return name, nil })
	}
	p, admin := dial(t, srv), dialContext(t, as("admin"), srv)
	read := func(p *rawPipe, of string) string { return p.ask(modern(1, "resources/read", uri(of))) }
	require.Contains(t, read(admin, "x:secret/1"), `"text":"direct"`)
	require.Contains(t, read(admin, "x:secret/2"), `"text":"x:secret/{a}"`)
	require.Contains(t, read(p, "x:secret/1"), `"text":"x:{+rest}"`)
	require.Contains(t, read(p, "x:secret/2"), `"text":"x:{+rest}"`)
	require.Contains(t, read(admin, "x:3"), `"text":"x:{+rest}"`)
}

// With an authenticator or a policy resources have the scope private, unless they set another. The
// scope of lists depends on policies. What needs scopes is private.
func TestCacheScopes(t *testing.T) {
	policy := deny(func(*auth.Principal, *auth.Operation) bool { return false })
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
		{"policy", []server.Option{policy}, private, private, public},
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
			require.ErrorContains(t, server.TryAddResource(srv, server.Resource{URI: "x:s", Name: "n", Scope: mcp.CachePublic, Scopes: []string{"s"}},
				reader("")), "what needs scopes must not have the cache scope public")
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

// A policy is asked about every item of a list, with the method that uses it.
func TestPolicySeesListedItems(t *testing.T) {
	var seen []auth.Operation
	srv := newServer(t, deny(func(_ *auth.Principal, op *auth.Operation) bool {
		seen = append(seen, *op)
		return false
	}))
	server.AddTool(srv, server.Tool{Name: "a", Scopes: []string{"s"}}, text(""))
	server.AddPrompt(srv, server.Prompt{Name: "a"}, say(""))
	server.AddStaticResource(srv, server.Resource{URI: "x:a", Name: "a", ScopesFor: func(uri string) []string { return []string{"read:" + uri} }}, "")
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:{a}", Name: "a", Scopes: []string{"s"},
		ScopesFor: func(uri string) []string { return []string{"read:" + uri} }}, echoVars)
	p := dial(t, srv)
	for _, list := range []struct {
		method string
		want   auth.Operation
	}{
		{"tools/list", auth.Operation{Method: "tools/call", Kind: auth.KindTool, Name: "a", Scopes: []string{"s"}}},
		{"prompts/list", auth.Operation{Method: "prompts/get", Kind: auth.KindPrompt, Name: "a"}},
		{"resources/list", auth.Operation{Method: "resources/read", Kind: auth.KindResource, Name: "a", URI: "x:a", Scopes: []string{"read:x:a"}}},
		{"resources/templates/list", auth.Operation{Method: "resources/read", Kind: auth.KindTemplate, Name: "a", Template: "x:{a}", Scopes: []string{"s"}}},
	} {
		seen = nil
		p.ask(modern(1, list.method, ""))
		list.want.Listed, list.want.Transport = true, "memory"
		require.Equal(t, []auth.Operation{list.want}, seen)
	}
}

// A policy is asked about the use of an item with all that is known of it and of the caller, and about
// methods of the program. It is not asked about methods of the protocol without an item.
func TestPolicySeesUses(t *testing.T) {
	var seen []auth.Operation
	srv := newServer(t, deny(func(_ *auth.Principal, op *auth.Operation) bool {
		if !op.Listed {
			seen = append(seen, *op)
		}
		return false
	}))
	server.AddTool(srv, server.Tool{Name: "a"}, func(context.Context, *server.Call, map[string]any) (string, error) { return "", nil })
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:{a}", Name: "n"}, echoVars)
	server.AddMethod(srv, server.Method{Name: "com.example/do"}, func(context.Context, *server.Call, map[string]any) (map[string]any, error) {
		return map[string]any{}, nil
	})
	p := dial(t, srv)
	client := `"io.modelcontextprotocol/clientInfo":{"name":"c","version":"2"}`
	for _, use := range []struct {
		method, params string
		want           *auth.Operation
	}{
		{"tools/call", call("a", `{"b":1}`), &auth.Operation{Method: "tools/call", Kind: auth.KindTool, Name: "a", Arguments: []byte(`{"b":1}`)}},
		{"resources/read", uri("x:1"), &auth.Operation{Method: "resources/read", Kind: auth.KindTemplate, Name: "n", URI: "x:1", Template: "x:{a}"}},
		{"com.example/do", "", &auth.Operation{Method: "com.example/do"}},
		{"tools/list", "", nil}, {"server/discover", "", nil}, {"no/such", "", nil}, {"tools/call", call("b", `{}`), nil},
	} {
		seen = nil
		p.ask(modern(1, use.method, use.params, client))
		if use.want == nil {
			require.Empty(t, seen, use.method)
			continue
		}
		use.want.Transport, use.want.ClientName, use.want.ClientVersion = "memory", "c", "2"
		require.Equal(t, []auth.Operation{*use.want}, seen)
	}
}

// A method of the program that is denied does not exist.
func TestPolicyHidesMethods(t *testing.T) {
	srv := newServer(t, deny(func(_ *auth.Principal, op *auth.Operation) bool { return op.Method == "com.example/do" }))
	server.AddMethod(srv, server.Method{Name: "com.example/do"}, func(context.Context, *server.Call, map[string]any) (map[string]any, error) {
		return map[string]any{}, nil
	})
	p := dial(t, srv)
	require.Equal(t, strings.ReplaceAll(p.ask(modern(1, "com.example/no", "")), "com.example/no", "com.example/do"),
		p.ask(modern(1, "com.example/do", "")))
}

// What is hidden in a list is refused, even if the policy would allow its use.
func TestHiddenItemsCannotBeUsed(t *testing.T) {
	srv := newServer(t, deny(func(_ *auth.Principal, op *auth.Operation) bool { return op.Listed }))
	server.AddTool(srv, server.Tool{Name: "a"}, text("done"))
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:{a}", Name: "n"}, echoVars)
	p := dial(t, srv)
	require.Contains(t, p.ask(modern(1, "tools/call", call("a", `{}`))), "there is no tool")
	require.Contains(t, p.ask(modern(1, "resources/read", uri("x:1"))), "there is no resource")
}

// A dry run decides, counts, and lets the operation pass.
func TestDryRunHidesNothing(t *testing.T) {
	tel, err := telemetry.New()
	require.NoError(t, err)
	srv := newServer(t, server.WithTelemetry(tel), server.WithPolicy(auth.PolicyFunc(
		func(context.Context, *auth.Principal, *auth.Operation) auth.Decision {
			return auth.Decision{Effect: auth.Deny, Rule: "later", DryRun: true}
		})))
	server.AddTool(srv, server.Tool{Name: "a"}, text("done"))
	p := dial(t, srv)
	require.Contains(t, p.ask(modern(1, "tools/list", "")), `"name":"a"`)
	require.Contains(t, p.ask(modern(1, "tools/call", call("a", `{}`))), "done")
	require.Contains(t, scrape(t, tel), `vitrine_policy_decisions_total{effect="dry_run_deny",rule="later"} 1`)
}

// A policy that panics, or cannot be evaluated, denies. Its error is for the operator.
func TestFailedPolicyDenies(t *testing.T) {
	logs := &logRecorder{}
	srv := newServer(t, server.WithLogger(slog.New(logs)), server.WithPolicy(auth.PolicyFunc(
		func(_ context.Context, _ *auth.Principal, op *auth.Operation) auth.Decision {
			if op.Name == "panic" {
				panic("boom")
			}
			return auth.Decision{Effect: auth.Allow, Err: errors.New("no such field" + strings.Repeat("\n", 1<<20))}
		})))
	server.AddTool(srv, server.Tool{Name: "panic"}, text("done"))
	server.AddTool(srv, server.Tool{Name: "error"}, text("done"))
	p := dial(t, srv)
	require.Contains(t, p.ask(modern(1, "tools/list", "")), `"tools":[]`)
	for _, name := range []string{"panic", "error"} {
		require.Contains(t, p.ask(modern(1, "tools/call", call(name, `{}`))), "there is no tool")
	}
	lines := logs.find("policy.decided")
	require.NotEmpty(t, lines)
	for _, line := range lines {
		require.Less(t, len(line.attrs["error"]), 1000)
	}
}

// For a template a policy decides by the URI that is read or subscribed to, and by the
// principal.
func TestPolicyDecidesByURI(t *testing.T) {
	srv := newServer(t, byContext, deny(func(p *auth.Principal, op *auth.Operation) bool {
		return op.URI != "" && op.URI != "home:"+p.String()
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
	srv := newServer(t, server.WithPageSize(2), byContext, onlyAdmin)
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
	require.Len(t, slices.Concat(pagesOf(t, dialContext(t, as("admin"), srv), "prompts/list")...), 8)
}

// The check of rules (policy.Policy.Check) says that rules for other methods of the protocol never apply.
func TestPoliciesAreAskedOnlyAboutTheUseOfItems(t *testing.T) {
	asked := map[string]bool{}
	srv := newSecretServer(t, deny(func(_ *auth.Principal, op *auth.Operation) bool {
		asked[op.Method] = true
		return false
	}))
	p := oldPipe(t, srv, mcp.Version20251125)
	for _, method := range mcp.Methods() {
		if !strings.HasPrefix(method, "notifications/") && method != mcp.MethodInitialize {
			p.ask(legacy(1, method, uri("x:open")))
			p.ask(modern(1, method, uri("x:open")))
		}
	}
	p.ask(legacy(1, mcp.MethodToolsCall, call("open", `{}`)))
	p.ask(legacy(1, mcp.MethodPromptsGet, prompt("open", `{}`)))
	p.ask(legacy(1, mcp.MethodCompletionComplete, completion(promptRef("open"), argument("a", ""))))
	require.Equal(t, map[string]bool{mcp.MethodToolsCall: true, mcp.MethodPromptsGet: true, mcp.MethodResourcesRead: true}, asked)
}

// A resource may be removed after the look-up of a request and before the decision about it: there is nothing left to decide
// about, and nothing to serve.
func TestRemovedResourceIsNotServedWithoutADecision(t *testing.T) {
	for _, of := range []string{"x:secret", "t:secret/1"} {
		srv := newSecretServer(t, byContext)
		p := dialContext(t, as("ann"), srv)
		want := p.ask(modern(1, "resources/read", uri("y:"+of)))
		srv.BeforeDecisions(func() {
			srv.RemoveResources("x:secret")
			srv.RemoveResourceTemplates("t:secret/{a}")
		})
		require.Equal(t, strings.ReplaceAll(want, "y:"+of, of), p.ask(modern(1, "resources/read", uri(of))))
	}
}

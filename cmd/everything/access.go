package main

import (
	"context"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// The scopes of the fixtures below, once it is known who calls.
const (
	scopeRead  = "demo:read"
	scopeWrite = "demo:write"
	scopeAdmin = "demo:admin"
)

var demoScopes = auth.Hierarchy{scopeAdmin: {scopeWrite}, scopeWrite: {scopeRead}}

// addScoped adds items that need scopes if scoped is set, and a tool that says who calls.
func addScoped(srv *server.Server, scoped bool) {
	needs := func(scope string) []string {
		if scoped {
			return []string{scope}
		}
		return nil
	}
	tool(server.Tool{
		Name: "scoped", Description: "Answer callers that may write (" + scopeWrite + "), if it is known who calls.", Scopes: needs(scopeWrite),
	}, func(context.Context, *server.Call, none) (string, error) { return "You may write.", nil })(srv)
	prompt(server.Prompt{
		Name: "scoped_prompt", Description: "One message for callers that may read (" + scopeRead + "), if it is known who calls.",
		Scopes: needs(scopeRead),
	}, func(map[string]string) *mcp.GetPromptResult { return mcp.PromptText("You may read.") })(srv)
	server.AddStaticResource(srv, server.Resource{
		URI: "test://scoped", Name: "scoped", Description: "A text for callers that may read.", MIMEType: "text/plain", Scopes: needs(scopeRead),
	}, "You may read.")
	server.AddResourceTemplate(srv, server.ResourceTemplate{
		URITemplate: "test://scoped/{id}", Name: "scoped-template", Description: "A text for callers that may write.", MIMEType: "text/plain",
		Scopes: needs(scopeWrite), Complete: map[string]server.CompleteFunc{"id": server.CompleteFrom("1", "2")},
	}, func(_ context.Context, _ *server.Call, _ string, vars map[string]string) (string, error) {
		return "You may write " + vars["id"] + ".", nil
	})
	tool(server.Tool{Name: "whoami", Description: "Say who calls."}, whoami)(srv)
}

// identity is the result of whoami.
type identity struct {
	Issuer  string   `json:"issuer"`
	Subject string   `json:"subject"`
	Tenant  string   `json:"tenant"`
	Client  string   `json:"client"`
	Scopes  []string `json:"scopes"`
}

func whoami(_ context.Context, call *server.Call, _ none) (identity, error) {
	who := identity{Scopes: []string{}}
	if p := call.Principal; p != nil {
		who = identity{p.Issuer, p.Subject, p.Tenant, p.Client, append(who.Scopes, p.Scopes...)}
	}
	return who, nil
}

// demanded returns the scopes that the conformance suite expects an operation to need
// (sep-2350-server-scope-challenge), or nil.
func demanded(op *auth.Operation) []string {
	const all = "mcp:conformance:"
	switch {
	case op.Kind == auth.KindTool && op.Name == "test_simple_text":
		return []string{all + "tools:call", all + "tools:test_simple_text"}
	case op.Kind == auth.KindPrompt && op.Name == "test_simple_prompt":
		return []string{all + "prompts:get", all + "prompts:test_simple_prompt"}
	case op.Kind == auth.KindResource && op.URI == "test://static-text":
		return []string{all + "resources:read", all + "resources:static"}
	case op.Kind == auth.KindTemplate && op.Template == dataTemplate:
		needs := []string{all + "resources:read"}
		if id, found := strings.CutSuffix(strings.TrimPrefix(op.URI, "test://template/"), "/data"); found {
			needs = append(needs, all+"resources:template:"+id)
		}
		return needs
	}
	return nil
}

// conformanceScopes is the policy of the suite. It demands scopes of callers with a token only, because the
// other scenarios use the same fixtures without one.
func conformanceScopes(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
	needs := demanded(op)
	if p == nil || auth.Hierarchy(nil).Missing(p.Scopes, needs) == nil {
		return auth.Decision{Effect: auth.Allow, Rule: "conformance"}
	}
	return auth.Decision{Effect: auth.NeedScopes, Scopes: needs, Rule: "conformance"}
}

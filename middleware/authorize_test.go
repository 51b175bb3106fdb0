package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// denies is a policy that denies some operations.
func denies(which func(p *auth.Principal, op *auth.Operation) bool) auth.Policy {
	return auth.PolicyFunc(func(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
		if which(p, op) {
			return auth.Decision{Effect: auth.Deny, Rule: "secrets", Reason: "it is a secret"}
		}
		return auth.Decision{Effect: auth.Allow}
	})
}

// noSecrets hides what has "secret" in its name or URI.
var noSecrets = denies(func(_ *auth.Principal, op *auth.Operation) bool {
	return strings.Contains(op.Name+op.URI, "secret")
})

// request is a request for a target.
func request(method, target, params string) *middleware.Request {
	req := &middleware.Request{Method: method, Target: target, ID: mcp.IntID(1), Peer: middleware.Peer{Era: mcp.Modern}}
	if params != "" {
		req.Params = []byte(params)
	}
	return req
}

// Everything that uses what is denied is answered as if it did not exist.
func TestDeniedRequestIsAnsweredAsUnknown(t *testing.T) {
	h := middleware.Authorize(nil, noSecrets)(answering("served"))
	for _, c := range []struct {
		req  *middleware.Request
		code mcp.Code
		text string // "" if the request is served
	}{
		{request("tools/call", "open", `{"name": "open"}`), 0, ""},
		{request("tools/call", "secret", `{"name": "secret"}`), mcp.CodeInvalidParams, `there is no tool "secret"`},
		{request("prompts/get", "open", ""), 0, ""},
		{request("prompts/get", "secret", ""), mcp.CodeInvalidParams, `there is no prompt "secret"`},
		{request("resources/read", "x:open", ""), 0, ""},
		{request("resources/read", "x:secret", ""), mcp.CodeResourceNotFound, `there is no resource "x:secret"`},
		{request("resources/subscribe", "x:secret", ""), mcp.CodeResourceNotFound, `there is no resource "x:secret"`},
		{request("completion/complete", "", `{"ref": {"type": "ref/prompt", "name": "open"}}`), 0, ""},
		{request("completion/complete", "", `{"ref": {"type": "ref/prompt", "name": "secret"}}`), mcp.CodeInvalidParams, `there is no prompt "secret"`},
		{request("completion/complete", "", `{"ref": {"type": "ref/resource", "uri": "x:{secret}"}}`), 0, ""},
		{request("subscriptions/listen", "", `{"notifications": {"resourceSubscriptions": ["x:open"]}}`), 0, ""},
		{request("subscriptions/listen", "", `{"notifications": {"resourceSubscriptions": ["x:open", "x:secret"]}}`), mcp.CodeInvalidParams, "there is no such resource"},
		{request("subscriptions/listen", "", `{"notifications": {"resourceSubscriptions": [`+strings.Repeat(`"x:open",`, 999)+`"x:open"]}}`), 0, ""},
		{request("subscriptions/listen", "", `{"notifications": {"resourceSubscriptions": [`+strings.Repeat(`"x:open",`, 1000)+`"x:open"]}}`),
			mcp.CodeInvalidParams, "there are too many resources in one request"},
	} {
		_, err := h(t.Context(), c.req)
		if c.text == "" {
			require.NoError(t, err, "%s %s", c.req.Method, c.req.Params)
			continue
		}
		rpc, ok := errors.AsType[*mcp.Error](err)
		require.True(t, ok, "%s: %v", c.req.Method, err)
		require.Equal(t, c.code, rpc.Code)
		require.Equal(t, c.text, rpc.Message)
		require.NotContains(t, rpc.Message, "rule")
		require.True(t, mcp.IsCallerFault(err), "a refusal is no fault of the service")
	}
	_, err := h(t.Context(), request("tools/call", "secret", ""))
	require.EqualError(t, err, "denied by the rule secrets: it is a secret", "what the log has")
}

func TestErrorOfAPolicyIsForTheLog(t *testing.T) {
	h := middleware.Authorize(nil, auth.PolicyFunc(func(context.Context, *auth.Principal, *auth.Operation) auth.Decision {
		panic("no rules")
	}))(answering("served"))
	_, err := h(t.Context(), request("tools/call", "a", ""))
	require.ErrorContains(t, err, "no rules")
	rpc, _ := errors.AsType[*mcp.Error](err)
	require.Equal(t, `there is no tool "a"`, rpc.Message)
}

// A policy sees what is known of the request and of its caller.
func TestPolicySeesTheOperation(t *testing.T) {
	var seen []auth.Operation
	h := middleware.Authorize(nil, auth.PolicyFunc(func(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
		require.Equal(t, "ann", p.Subject)
		if !op.Listed {
			seen = append(seen, *op)
		}
		return auth.Decision{Effect: auth.Allow}
	}))(answering("served"))
	for _, c := range []struct {
		req  *middleware.Request
		want []auth.Operation
	}{
		{request("tools/call", "pay", `{"name": "pay", "arguments": {"amount": 9007199254740993}}`),
			[]auth.Operation{{Kind: auth.KindTool, Name: "pay", Arguments: []byte(`{"amount": 9007199254740993}`)}}},
		{request("tools/call", "pay", `{"x": 1}`), []auth.Operation{{Kind: auth.KindTool, Name: "pay"}}},
		{request("tools/call", "pay", `{"arguments": {"z": 1, "z": "\ud800"}}`),
			[]auth.Operation{{Kind: auth.KindTool, Name: "pay", Arguments: []byte(`{"z": 1, "z": "\ud800"}`)}}},
		{request("resources/read", "x:1", `{"uri": "x:1"}`), []auth.Operation{{Kind: auth.KindResource, URI: "x:1"}, {Kind: auth.KindTemplate, URI: "x:1"}}},
		{request("acme/report", "", ""), []auth.Operation{{}}},
		{request("ping", "", ""), nil}, {request("initialize", "", ""), nil}, {request("tasks/get", "1", ""), nil},
	} {
		seen = nil
		c.req.Principal = &auth.Principal{Subject: "ann"}
		c.req.Peer = middleware.Peer{Transport: "http", Addr: "192.0.2.1:80", Client: &mcp.Implementation{Name: "c", Version: "2"}}
		_, err := h(t.Context(), c.req)
		require.NoError(t, err)
		for i := range c.want {
			c.want[i].Method, c.want[i].Transport, c.want[i].Address = c.req.Method, "http", "192.0.2.1:80"
			c.want[i].ClientName, c.want[i].ClientVersion = "c", "2"
		}
		require.Equal(t, c.want, seen, c.req.Method)
	}
}

// challenger words challenges.
type challenger struct{}

func (challenger) Challenge(status int, scopes []string) string { return fmt.Sprint(status, scopes) }

func TestCallerWithoutScopesIsChallenged(t *testing.T) {
	payments := auth.PolicyFunc(func(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
		if op.Name == "pay" && !p.HasScope("payments") {
			return auth.Decision{Effect: auth.NeedScopes, Scopes: []string{"payments", "read"}, Rule: "payments"}
		}
		return auth.Decision{Effect: auth.Allow}
	})
	call := request("tools/call", "pay", "")
	for _, c := range []struct {
		principal *auth.Principal
		by        auth.Challenger
		want      *mcp.Refusal
	}{
		{nil, challenger{}, &mcp.Refusal{Status: 401, Reason: "unauthenticated", Challenge: "401 [payments read]"}},
		{&auth.Principal{Subject: "ann"}, challenger{}, &mcp.Refusal{Status: 403, Reason: "insufficient_scope", Challenge: "403 [payments read]"}},
		{&auth.Principal{Subject: "ann"}, nil, &mcp.Refusal{Status: 403, Reason: "insufficient_scope", Challenge: `Bearer error="insufficient_scope", scope="payments read"`}},
		{&auth.Principal{Subject: "ann", Scopes: []string{"payments"}}, nil, nil},
	} {
		call.Principal = c.principal
		_, err := middleware.Authorize(c.by, payments)(answering("served"))(t.Context(), call)
		refusal, refused := mcp.AsRefusal(err)
		require.Equal(t, c.want != nil, refused)
		if refused {
			c.want.By, c.want.Message = "payments", "this needs the scopes payments read"
			require.Equal(t, c.want, refusal)
		}
	}
	tools := middleware.Authorize(nil, payments)(returning(&mcp.ListToolsResult{Tools: []*mcp.Tool{{Name: "pay"}}}))
	list, err := tools(t.Context(), request("tools/list", "", ""))
	require.NoError(t, err)
	require.Len(t, list.(*mcp.ListToolsResult).Tools, 1, "what needs scopes is listed, or nobody would ask for them")
}

// A request that uses several items is challenged once, for the scopes of all of them.
func TestChallengeNamesTheScopesOfAllItems(t *testing.T) {
	perItem := auth.PolicyFunc(func(_ context.Context, _ *auth.Principal, op *auth.Operation) auth.Decision {
		if op.URI == "x:open" {
			return auth.Decision{Effect: auth.Allow}
		}
		return auth.Decision{Effect: auth.NeedScopes, Scopes: []string{"read", op.URI}, Rule: "rule of " + op.URI}
	})
	listen := request("subscriptions/listen", "", `{"notifications": {"resourceSubscriptions": ["x:1", "x:open", "x:2"]}}`)
	_, err := middleware.Authorize(challenger{}, perItem)(answering("served"))(t.Context(), listen)
	refusal, refused := mcp.AsRefusal(err)
	require.True(t, refused)
	require.Equal(t, "401 [read x:1 x:2]", refusal.Challenge)
	require.Equal(t, "rule of x:1", refusal.By, "the first one that needs scopes")
}

// returning returns a handler with a result.
func returning(result mcp.Result) middleware.Handler {
	return func(context.Context, *middleware.Request) (mcp.Result, error) { return result, nil }
}

func TestListsLackWhatIsDenied(t *testing.T) {
	tools := &mcp.ListToolsResult{Tools: []*mcp.Tool{{Name: "secret1"}, {Name: "open"}, {Name: "secret2"}}, NextCursor: "next",
		CacheHint: mcp.CacheHint{Scope: mcp.CachePublic}}
	list := func(method string, result mcp.Result) mcp.Result {
		got, err := middleware.Authorize(nil, noSecrets)(returning(result))(t.Context(), request(method, "", ""))
		require.NoError(t, err)
		return got
	}
	require.Equal(t, &mcp.ListToolsResult{Tools: []*mcp.Tool{{Name: "open"}}, NextCursor: "next", CacheHint: mcp.CacheHint{Scope: mcp.CachePrivate}},
		list("tools/list", tools))
	require.Len(t, tools.Tools, 3, "the handler's list is its own")
	require.Equal(t, mcp.CachePublic, tools.Scope)
	private := mcp.CacheHint{Scope: mcp.CachePrivate}
	require.Equal(t, &mcp.ListPromptsResult{Prompts: []*mcp.Prompt{{Name: "open"}}, CacheHint: private},
		list("prompts/list", &mcp.ListPromptsResult{Prompts: []*mcp.Prompt{{Name: "open"}, {Name: "secret"}}}))
	require.Equal(t, &mcp.ListResourcesResult{Resources: []*mcp.Resource{{URI: "x:open", Name: "secret"}}, CacheHint: private},
		list("resources/list", &mcp.ListResourcesResult{Resources: []*mcp.Resource{{URI: "x:secret"}, {URI: "x:open", Name: "secret"}}}))
	require.Equal(t, &mcp.ListToolsResult{Tools: []*mcp.Tool{}, CacheHint: private}, list("tools/list", &mcp.ListToolsResult{}))

	noTemplates := denies(func(_ *auth.Principal, op *auth.Operation) bool {
		return op.Kind == auth.KindTemplate && op.URI != "x:1"
	})
	got, err := middleware.Authorize(nil, noTemplates)(returning(&mcp.ListResourceTemplatesResult{ResourceTemplates: []*mcp.ResourceTemplate{{}}}))(
		t.Context(), request("resources/templates/list", "", ""))
	require.NoError(t, err)
	require.Empty(t, got.(*mcp.ListResourceTemplatesResult).ResourceTemplates)
	_, err = middleware.Authorize(nil, noTemplates)(answering("served"))(t.Context(), request("resources/read", "x:1", ""))
	require.Error(t, err, "a hidden template serves no URI")
}

// A list of which the items are not known is not shown.
func TestListOfAnotherTypeIsAnError(t *testing.T) {
	for _, result := range []mcp.Result{nil, &mcp.EmptyResult{}} {
		_, err := middleware.Authorize(nil)(returning(result))(t.Context(), request("tools/list", "", ""))
		require.ErrorContains(t, err, "cannot")
	}
}

// Whatever a policy says, what a list hides is refused.
func TestHiddenItemsAreRefused(t *testing.T) {
	hidden, served := 0, 0
	for round := range 500 {
		seed := maphash.MakeSeed()
		random := denies(func(_ *auth.Principal, op *auth.Operation) bool { // also of whether the item is listed
			return maphash.String(seed, fmt.Sprintf("%+v", *op))%2 == 0
		})
		items := []string{"a", "b", "c"}
		tools := &mcp.ListToolsResult{}
		resources := &mcp.ListResourcesResult{}
		for _, name := range items {
			tools.Tools = append(tools.Tools, &mcp.Tool{Name: name})
			resources.Resources = append(resources.Resources, &mcp.Resource{URI: "x:" + name})
		}
		authorize := middleware.Authorize(nil, random)
		shown := map[string]bool{}
		got, err := authorize(returning(tools))(t.Context(), request("tools/list", "", ""))
		require.NoError(t, err)
		for _, tool := range got.(*mcp.ListToolsResult).Tools {
			shown["tools/call "+tool.Name] = true
		}
		got, err = authorize(returning(resources))(t.Context(), request("resources/list", "", ""))
		require.NoError(t, err)
		for _, resource := range got.(*mcp.ListResourcesResult).Resources {
			shown["resources/read "+resource.URI] = true
		}
		for _, name := range items {
			for _, req := range []*middleware.Request{
				request("tools/call", name, fmt.Sprintf(`{"arguments": {"n": %d}}`, round)), request("resources/read", "x:"+name, ""),
			} {
				_, err := authorize(answering("served"))(t.Context(), req)
				if !shown[req.Method+" "+req.Target] {
					hidden++
					require.Error(t, err, "%s %s", req.Method, req.Target)
				} else if err == nil {
					served++
				}
			}
		}
	}
	require.Greater(t, min(hidden, served), 100)
}

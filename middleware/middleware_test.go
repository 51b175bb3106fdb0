package middleware_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// answering returns a handler whose result has its name.
func answering(name string) middleware.Handler {
	return func(context.Context, *middleware.Request) (mcp.Result, error) { return mcp.ToolErrorResult(name), nil }
}

func said(t *testing.T, h middleware.Handler, req *middleware.Request) string {
	t.Helper()
	result, err := h(t.Context(), req)
	require.NoError(t, err)
	return result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text
}

// mark puts a name before the text of the handler's result.
func mark(name string) middleware.Middleware {
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			result, err := next(ctx, req)
			text := result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent)
			text.Text = name + " " + text.Text
			return result, err
		}
	}
}

func TestChainWrapsInOrder(t *testing.T) {
	for _, tt := range []struct {
		chain middleware.Middleware
		want  string
	}{
		{middleware.Chain(), "end"},
		{middleware.Chain(mark("a")), "a end"},
		{middleware.Chain(mark("a"), mark("b"), mark("c")), "a b c end"},
		{middleware.Chain(mark("a"), middleware.Chain(mark("b"), mark("c")), mark("d")), "a b c d end"},
	} {
		require.Equal(t, tt.want, said(t, tt.chain(answering("end")), &middleware.Request{}))
	}
}

func TestForWrapsItsTargetsOnly(t *testing.T) {
	h := middleware.For([]string{"x", "y"}, mark("a"), mark("b"))(answering("end"))
	for target, want := range map[string]string{"x": "a b end", "y": "a b end", "z": "end", "": "a b end", "X": "end"} {
		req := &middleware.Request{Route: middleware.NewRoute(mcp.MethodToolsCall, target, target), Target: "x"}
		require.Equal(t, want, said(t, h, req), target)
	}
}

// A call whose route has no name counts by the name that the client has sent. A URI is not the name of a tool.
func TestForCoversNamesWithoutARoute(t *testing.T) {
	h := middleware.For([]string{"x"}, func(middleware.Handler) middleware.Handler { return answering("covered") })(answering("not covered"))
	for _, c := range []struct{ method, name, want string }{
		{mcp.MethodToolsCall, "x", "covered"},
		{mcp.MethodToolsCall, "y", "not covered"},
		{mcp.MethodPromptsGet, "x", "covered"},
		{mcp.MethodResourcesRead, "x", "not covered"},
	} {
		req := &middleware.Request{Route: middleware.NewRoute(c.method, "", ""), Target: c.name}
		require.Equal(t, c.want, said(t, h, req), c)
	}
}

func TestDifferentRegistrationsHaveDifferentKeys(t *testing.T) {
	resource := middleware.NewRoute(mcp.MethodResourcesRead, "file:///a", "")
	require.Empty(t, resource.Target)
	seen := map[string]bool{}
	for _, route := range []middleware.Route{
		resource, middleware.NewRoute(mcp.MethodResourcesRead, "file:///b", ""), middleware.NewRoute(mcp.MethodResourcesRead, "", ""),
		middleware.NewRoute(mcp.MethodToolsCall, "a", "a"), middleware.NewRoute(mcp.MethodPromptsGet, "a", "a"),
	} {
		require.False(t, seen[route.Key], route.Key)
		seen[route.Key] = true
	}
	require.Equal(t, resource.Key, middleware.NewRoute(mcp.MethodResourcesRead, "file:///a", "").Key)
}

func TestRequestReturnsWhatTheClientDeclares(t *testing.T) {
	modern := &middleware.Request{Params: []byte(`{"name":"x","_meta":{
		"io.modelcontextprotocol/clientInfo":{"name":"c","version":"3"},
		"io.modelcontextprotocol/clientCapabilities":{"roots":{}}, "example.com/x": 1}}`)}
	require.Equal(t, mcp.Implementation{Name: "c", Version: "3"}, modern.Client())
	require.Equal(t, mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}, modern.Capabilities())
	require.Equal(t, 1.0, modern.Meta()["example.com/x"])

	legacy := &middleware.Request{Params: modern.Params, Peer: middleware.Peer{
		Client: &mcp.Implementation{Name: "old"}, Capabilities: &mcp.ClientCapabilities{},
	}}
	require.Equal(t, "old", legacy.Client().Name, "what initialize has said holds")
	require.Zero(t, legacy.Capabilities())

	for _, params := range []string{"", `{}`, `[]`, `{"_meta":[]}`, `{"_meta":{"io.modelcontextprotocol/clientInfo":1}}`} {
		req := &middleware.Request{Params: []byte(params)}
		if params == "" {
			req.Params = nil
		}
		require.Zero(t, req.Client(), params)
		require.Zero(t, req.Capabilities(), params)
	}
}

// A capability with a wrong type is not declared, and the others are.
func TestIllTypedCapabilityIsNotDeclared(t *testing.T) {
	all := mcp.ClientCapabilities{
		Experimental: map[string]any{"a": 1.0}, Roots: &mcp.RootsCapability{ListChanged: true}, Sampling: &mcp.SamplingCapability{Tools: &struct{}{}},
		Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}}, Extensions: map[string]any{"example.com/x": map[string]any{}},
	}
	require.Equal(t, reflect.TypeFor[mcp.ClientCapabilities]().NumField(), 5, "all capabilities are in this test")
	declared := func(wrong string) mcp.ClientCapabilities {
		object := map[string]any{}
		text, err := json.Marshal(all)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &object))
		if wrong != "" {
			object[wrong] = true
		}
		text, err = json.Marshal(map[string]any{"_meta": map[string]any{mcp.MetaClientCapabilities: object}})
		require.NoError(t, err)
		return (&middleware.Request{Params: text}).Capabilities()
	}
	for wrong, without := range map[string]func(c *mcp.ClientCapabilities){
		"": func(*mcp.ClientCapabilities) {}, "unknown": func(*mcp.ClientCapabilities) {},
		"experimental": func(c *mcp.ClientCapabilities) { c.Experimental = nil },
		"roots":        func(c *mcp.ClientCapabilities) { c.Roots = nil },
		"sampling":     func(c *mcp.ClientCapabilities) { c.Sampling = nil },
		"elicitation":  func(c *mcp.ClientCapabilities) { c.Elicitation = nil },
		"extensions":   func(c *mcp.ClientCapabilities) { c.Extensions = nil },
	} {
		want := all
		without(&want)
		require.Equal(t, want, declared(wrong), wrong)
	}
	half := &middleware.Request{Params: []byte(`{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{"tools":1,"context":{}},"elicitation":{}}}}`)}
	require.Equal(t, mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}, half.Capabilities())
}

package server_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/server"
)

// Items are all that is registered, also what a policy hides from everybody.
func TestItemsAreWhatIsRegistered(t *testing.T) {
	srv := newServer(t, deny(func(*auth.Principal, *auth.Operation) bool { return true }))
	require.Empty(t, srv.Items())
	server.AddTool(srv, server.Tool{Name: "pay"}, func(context.Context, *server.Call, struct{ Amount int }) (string, error) { return "", nil })
	server.AddPrompt(srv, server.Prompt{Name: "letter", Arguments: []server.PromptArgument{{Name: "tone"}, {Name: "to"}}}, say(""))
	server.AddStaticResource(srv, server.Resource{URI: "x:terms", Name: "terms"}, "")
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:{a}", Name: "all"}, echoVars)
	for _, name := range []string{"com.example/b", "com.example/a"} {
		server.AddMethod(srv, server.Method{Name: name}, func(context.Context, *server.Call, map[string]any) (map[string]any, error) { return nil, nil })
	}
	items := srv.Items()
	require.Contains(t, string(items[0].InputSchema), `"Amount"`)
	items[0].InputSchema = nil
	require.Equal(t, []auth.Item{
		{Kind: auth.KindTool, Name: "pay"},
		{Kind: auth.KindPrompt, Name: "letter", Arguments: []string{"tone", "to"}},
		{Kind: auth.KindResource, Name: "terms", URI: "x:terms"},
		{Kind: auth.KindTemplate, Name: "all", Template: "x:{a}"},
		{Method: "com.example/a"}, {Method: "com.example/b"},
	}, items)
	srv.RemoveTools("pay")
	require.Len(t, srv.Items(), 5)
}

package servertest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// newLibrary has a prompt, a resource and a template, and small pages.
func newLibrary() *server.Server {
	srv := newServer(server.WithPageSize(2))
	cities := server.CompleteFrom("Bern", "Basel", "Zug")
	server.AddPrompt(srv, server.Prompt{Name: "plan", Arguments: []server.PromptArgument{{Name: "city", Required: true, Complete: cities}}},
		func(_ context.Context, _ *server.Call, args map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Description: "a trip", Messages: []mcp.PromptMessage{
				{Role: mcp.RoleUser, Content: &mcp.TextContent{Text: "to " + args["city"]}},
				{Role: mcp.RoleAssistant, Content: &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "x:map", Blob: []byte{1}}}},
			}}, nil
		})
	for i := range 5 {
		server.AddStaticResource(srv, server.Resource{URI: fmt.Sprint("x:", i), Name: fmt.Sprint("n", i)}, fmt.Sprint("text ", i))
	}
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "city:{name}", Name: "city", MIMEType: "image/png",
		Complete: map[string]server.CompleteFunc{"name": cities}},
		func(_ context.Context, _ *server.Call, _ string, vars map[string]string) ([]byte, error) {
			return []byte(vars["name"]), nil
		})
	return srv
}

func TestFeaturesInBothEras(t *testing.T) {
	for name, opts := range eras {
		t.Run(name, func(t *testing.T) {
			client, ctx := servertest.Connect(t, newLibrary(), opts...), t.Context()

			prompts, err := client.ListPrompts(ctx)
			require.NoError(t, err)
			require.Equal(t, []mcp.Prompt{{Name: "plan", Arguments: []mcp.PromptArgument{{Name: "city", Required: true}}}}, prompts)
			prompt, err := client.GetPrompt(ctx, "plan", map[string]string{"city": "Bern"})
			require.NoError(t, err)
			require.Equal(t, "a trip", prompt.Description)
			require.Equal(t, []mcp.PromptMessage{
				{Role: mcp.RoleUser, Content: &mcp.TextContent{Text: "to Bern"}},
				{Role: mcp.RoleAssistant, Content: &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "x:map", Blob: []byte{1}}}},
			}, prompt.Messages)
			_, err = client.GetPrompt(ctx, "plan", nil)
			require.Equal(t, mcp.NewError(mcp.CodeInvalidParams, `missing required arguments: "city"`), err)

			resources, err := client.ListResources(ctx)
			require.NoError(t, err)
			require.Len(t, resources, 5, "all pages")
			require.Equal(t, mcp.Resource{URI: "x:4", Name: "n4", Size: 6}, resources[4])
			templates, err := client.ListResourceTemplates(ctx)
			require.NoError(t, err)
			require.Equal(t, []mcp.ResourceTemplate{{URITemplate: "city:{name}", Name: "city", MIMEType: "image/png"}}, templates)
			read, err := client.ReadResource(ctx, "x:3")
			require.NoError(t, err)
			require.Equal(t, []mcp.ResourceContents{{URI: "x:3", Text: "text 3"}}, read.Contents)
			read, err = client.ReadResource(ctx, "city:Zug")
			require.NoError(t, err)
			require.Equal(t, []mcp.ResourceContents{{URI: "city:Zug", MIMEType: "image/png", Blob: []byte("Zug")}}, read.Contents)
			require.Equal(t, opts == nil, read.TTL != nil)
			_, err = client.ReadResource(ctx, "x:nope")
			rpc, _ := mcp.AsError(err)
			require.NotNil(t, rpc)
			require.Equal(t, map[string]any{"uri": "x:nope"}, rpc.Data)

			got, err := client.CompletePrompt(ctx, "plan", "city", "b", nil)
			require.NoError(t, err)
			require.Equal(t, []string{"Bern", "Basel"}, got.Values)
			got, err = client.CompleteResource(ctx, "city:{name}", "name", "z", nil)
			require.NoError(t, err)
			require.Equal(t, []string{"Zug"}, got.Values)
			_, err = client.CompleteResource(ctx, "city:{nope}", "name", "z", nil)
			require.Error(t, err)
		})
	}
}

// A server without a feature answers with an error.
func TestMissingFeatureIsAnError(t *testing.T) {
	client := servertest.Connect(t, newServer())
	_, err := client.ListPrompts(t.Context())
	require.Equal(t, mcp.NewError(mcp.CodeMethodNotFound, `the server has nothing for "prompts/list"`), err)
	_, err = client.ListResources(t.Context())
	require.Error(t, err)
	_, err = client.ListResourceTemplates(t.Context())
	require.Error(t, err)
	_, err = client.GetPrompt(t.Context(), "x", nil)
	require.Error(t, err)
}

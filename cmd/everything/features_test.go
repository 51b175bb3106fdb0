package main

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// The conformance suite finds prompts and resources by their names, in both eras.
func TestPromptsAndResources(t *testing.T) {
	for name, opts := range map[string][]servertest.Option{"modern": nil, "legacy": {servertest.Legacy(mcp.Version20251125)}} {
		t.Run(name, func(t *testing.T) {
			client, ctx := servertest.Connect(t, plainServer(), opts...), t.Context()
			prompts, err := client.ListPrompts(ctx)
			require.NoError(t, err)
			for _, p := range prompts {
				assert.NotEmpty(t, p.Description, p.Name)
			}
			for _, tt := range []struct {
				prompt string
				args   map[string]string
				want   []mcp.Content
			}{
				{"test_simple_prompt", nil, []mcp.Content{&mcp.TextContent{Text: "This is a simple prompt for testing."}}},
				{"test_prompt_with_arguments", map[string]string{"arg1": "testValue1", "arg2": "testValue2"},
					[]mcp.Content{&mcp.TextContent{Text: "Prompt with arguments: arg1='testValue1', arg2='testValue2'"}}},
				{"test_prompt_with_embedded_resource", map[string]string{"resourceUri": "test://example-resource"}, []mcp.Content{
					embedded("test://example-resource", "text/plain", "Embedded resource content for testing."),
					&mcp.TextContent{Text: "Please process the embedded resource above."}}},
				{"test_prompt_with_image", nil, []mcp.Content{redPixel(), &mcp.TextContent{Text: "Please analyze the image above."}}},
			} {
				got, err := client.GetPrompt(ctx, tt.prompt, tt.args)
				require.NoError(t, err, tt.prompt)
				require.Len(t, got.Messages, len(tt.want))
				for i, m := range got.Messages {
					assert.Equal(t, mcp.PromptMessage{Role: mcp.RoleUser, Content: tt.want[i]}, m)
				}
			}
			got, err := client.CompletePrompt(ctx, "test_prompt_with_arguments", "arg1", "test", nil)
			require.NoError(t, err)
			assert.Equal(t, []string{"testValue1", "testValue2"}, got.Values)

			resources, err := client.ListResources(ctx)
			require.NoError(t, err)
			for _, r := range resources { // the first of them must be readable, so all are
				read, err := client.ReadResource(ctx, r.URI)
				require.NoError(t, err)
				assert.Equal(t, r.URI, read.Contents[0].URI)
				assert.Equal(t, r.MIMEType, read.Contents[0].MIMEType)
				assert.NotEmpty(t, r.Name)
			}
			text, err := client.ReadResource(ctx, "test://static-text")
			require.NoError(t, err)
			assert.Equal(t, "This is the content of the static text resource.", text.Contents[0].Text)
			binary, err := client.ReadResource(ctx, "test://static-binary")
			require.NoError(t, err)
			assert.Equal(t, redPixel().Data, binary.Contents[0].Blob)
			assert.Equal(t, "image/png", binary.Contents[0].MIMEType)
			_, err = client.ReadResource(ctx, watchedURI)
			require.NoError(t, err)
			for _, id := range []string{"123", `a%22b`} {
				uri := fmt.Sprintf("test://template/%s/data", id)
				data, err := client.ReadResource(ctx, uri)
				require.NoError(t, err)
				assert.Equal(t, uri, data.Contents[0].URI)
				assert.Equal(t, "application/json", data.Contents[0].MIMEType)
				assert.True(t, json.Valid([]byte(data.Contents[0].Text)))
				if id == "123" {
					assert.JSONEq(t, `{"id":"123","templateTest":true,"data":"Data for ID: 123"}`, data.Contents[0].Text)
				}
			}
			const unknown = "test://nonexistent-resource-for-conformance-testing"
			_, err = client.ReadResource(ctx, unknown)
			rpc, _ := mcp.AsError(err)
			require.NotNil(t, rpc)
			assert.Equal(t, map[string]any{"uri": unknown}, rpc.Data)
			assert.Equal(t, map[string]mcp.Code{"modern": -32602, "legacy": -32002}[name], rpc.Code)
		})
	}
}

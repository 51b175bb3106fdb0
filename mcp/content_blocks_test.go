package mcp_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Every block survives encoding and decoding, alone and in a list.
func TestContentBlocksSurviveEncoding(t *testing.T) {
	all := mcp.ContentBlocks{
		&mcp.TextContent{Text: "a", ContentMeta: mcp.ContentMeta{Annotations: &mcp.Annotations{Audience: []string{"user"}}}},
		&mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"},
		&mcp.AudioContent{Data: []byte("wav"), MIMEType: "audio/wav"},
		&mcp.ResourceLink{URI: "x://y", Name: "y", Size: 3},
		&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "x://y", Blob: []byte{1}}},
		&mcp.ToolUseContent{ID: "1", Name: "echo", Input: []byte(`{"a":1}`)},
		&mcp.ToolResultContent{ToolUseID: "1", Content: []mcp.Content{&mcp.TextContent{Text: "b"}}, IsError: true},
		&mcp.TextContent{Text: "c"},
	}
	back := func(in mcp.ContentBlocks) (out mcp.ContentBlocks) {
		raw, err := json.Marshal(in)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &out), string(raw))
		return out
	}
	require.Equal(t, all, back(all))
	require.Equal(t, "ac", all.Text())
	for _, block := range all {
		require.Equal(t, mcp.ContentBlocks{block}, back(mcp.ContentBlocks{block}))
	}
	one, err := json.Marshal(all[:1])
	require.NoError(t, err)
	require.Equal(t, byte('{'), one[0], "one block has no list around it")

	for _, bad := range []string{`{"type":"video"}`, `{}`, `1`, `[1]`, `{"type":"text","text":1}`,
		`{"type":"tool_result","toolUseId":"1","content":[{"type":"?"}]}`,
		`{"type":"tool_result","toolUseId":"1","content":[{"type":"tool_result","toolUseId":"2","content":[]}]}`} {
		var blocks mcp.ContentBlocks
		require.Error(t, json.Unmarshal([]byte(bad), &blocks), bad)
	}
}

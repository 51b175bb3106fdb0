package mcp_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// In this protocol an empty object has a meaning. Many members have omitzero, because
// json/v2's omitempty drops empty objects.
func TestEmptyObjectsAreKept(t *testing.T) {
	no := false
	for _, tt := range []struct {
		value any
		want  string
	}{
		{mcp.ServerCapabilities{
			Logging: &struct{}{}, Completions: &struct{}{}, Prompts: &mcp.PromptsCapability{},
			Resources: &mcp.ResourcesCapability{}, Tools: &mcp.ToolsCapability{},
		}, `{"logging":{},"completions":{},"prompts":{},"resources":{},"tools":{}}`},
		{mcp.ServerCapabilities{Tools: &mcp.ToolsCapability{ListChanged: true}}, `{"tools":{"listChanged":true}}`},
		{mcp.ServerCapabilities{}, `{}`},
		{mcp.ClientCapabilities{
			Roots:       &mcp.RootsCapability{},
			Sampling:    &mcp.SamplingCapability{Context: &struct{}{}, Tools: &struct{}{}},
			Elicitation: &mcp.ElicitationCapability{Form: &struct{}{}, URL: &struct{}{}},
		}, `{"roots":{},"sampling":{"context":{},"tools":{}},"elicitation":{"form":{},"url":{}}}`},
		{mcp.ClientCapabilities{Sampling: &mcp.SamplingCapability{}, Elicitation: &mcp.ElicitationCapability{}},
			`{"sampling":{},"elicitation":{}}`},
		{mcp.Tool{Name: "t", InputSchema: jsontext.Value(`{}`), OutputSchema: jsontext.Value(`{}`)},
			`{"name":"t","inputSchema":{},"outputSchema":{}}`},
		{mcp.CallToolParams{Name: "t", Arguments: jsontext.Value(`{}`)}, `{"name":"t","arguments":{}}`},
		{mcp.CallToolParams{Name: "t"}, `{"name":"t"}`},
		{mcp.ToolAnnotations{ReadOnlyHint: &no}, `{"readOnlyHint":false}`},
		{mcp.ErrorData{Reason: "duplicate_id", ID: mcp.StringID("")}, `{"reason":"duplicate_id","id":""}`},
		{mcp.ErrorData{Reason: "duplicate_id", ID: mcp.IntID(0)}, `{"reason":"duplicate_id","id":0}`},
		{mcp.ErrorData{Reason: "overload"}, `{"reason":"overload"}`},
	} {
		got, err := json.Marshal(tt.value)
		require.NoError(t, err)
		require.JSONEq(t, tt.want, string(got))
	}
}

// A resource has its text or its blob, even when that is empty.
func TestResourceContents(t *testing.T) {
	for want, c := range map[string]mcp.ResourceContents{
		`{"uri":"x:y","text":""}`:                                      {URI: "x:y"},
		`{"uri":"x:y","text":"a"}`:                                     {URI: "x:y", Text: "a"},
		`{"uri":"x:y","blob":""}`:                                      {URI: "x:y", Blob: []byte{}},
		`{"uri":"x:y","mimeType":"a/b","blob":"AQ==","_meta":{"k":1}}`: {URI: "x:y", MIMEType: "a/b", Blob: []byte{1}, Meta: mcp.Meta{"k": 1}},
	} {
		got, err := json.Marshal(&c)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got))
	}
}

package mcp

import "github.com/go-json-experiment/json/jsontext"

// The methods of tools.
const (
	MethodToolsList = "tools/list"
	MethodToolsCall = "tools/call"
)

// A Tool is what tools/list says about one tool.
type Tool struct {
	Name         string           `json:"name"`
	Title        string           `json:"title,omitempty"`
	Description  string           `json:"description,omitempty"`
	InputSchema  jsontext.Value   `json:"inputSchema"`
	OutputSchema jsontext.Value   `json:"outputSchema,omitzero"`
	Annotations  *ToolAnnotations `json:"annotations,omitzero"`
	Icons        []Icon           `json:"icons,omitempty"`
	Meta         Meta             `json:"_meta,omitempty"`
}

// ToolAnnotations are hints for the client. Nil means the protocol's default:
// not read-only, destructive, not idempotent, open world.
type ToolAnnotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    *bool  `json:"readOnlyHint,omitzero"`
	DestructiveHint *bool  `json:"destructiveHint,omitzero"`
	IdempotentHint  *bool  `json:"idempotentHint,omitzero"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitzero"`
}

// CallToolParams is the params member of tools/call.
type CallToolParams struct {
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments,omitzero"`
}

// CallToolResult is the result of tools/call. A fault that the model can mend
// goes into Content with IsError set; everything else is an [Error].
type CallToolResult struct {
	Content []Content `json:"content"`
	// StructuredContent is any JSON value that satisfies the tool's output schema.
	StructuredContent any  `json:"structuredContent,omitzero"`
	IsError           bool `json:"isError,omitzero"`
	ResultMeta
}

// ToolErrorResult returns a result that reports a failure to the model.
func ToolErrorResult(text string) *CallToolResult {
	return &CallToolResult{Content: []Content{&TextContent{Text: text}}, IsError: true}
}

// ListToolsResult is the result of tools/list.
type ListToolsResult struct {
	Tools      []*Tool `json:"tools"`
	NextCursor string  `json:"nextCursor,omitempty"`
	ResultMeta
	CacheHint
}

package mcp

import "github.com/go-json-experiment/json/jsontext"

// A Content is one block of a tool result or a prompt message: [TextContent], [ImageContent],
// [AudioContent], [ResourceLink] or [EmbeddedResource].
type Content interface {
	contentType() string
}

// Annotations say who a block is meant for and how important it is.
type Annotations struct {
	Audience     []string `json:"audience,omitempty"` // "user", "assistant"
	Priority     *float64 `json:"priority,omitzero"`  // 0 to 1
	LastModified string   `json:"lastModified,omitempty"`
}

// ContentMeta holds the members that all content blocks share.
type ContentMeta struct {
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitempty"`
}

// TextContent is a block of text.
type TextContent struct {
	Text string `json:"text"`
	ContentMeta
}

// ImageContent is a picture. Data is encoded as base64.
type ImageContent struct {
	Data     []byte `json:"data"`
	MIMEType string `json:"mimeType"`
	ContentMeta
}

// AudioContent is a recording. Data is encoded as base64.
type AudioContent struct {
	Data     []byte `json:"data"`
	MIMEType string `json:"mimeType"`
	ContentMeta
}

// A ResourceLink points to a resource that the client may read.
type ResourceLink struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	MIMEType    string `json:"mimeType,omitempty"`
	Size        int64  `json:"size,omitzero"` // bytes
	Icons       []Icon `json:"icons,omitempty"`
	ContentMeta
}

// An EmbeddedResource carries the contents of a resource.
type EmbeddedResource struct {
	Resource ResourceContents `json:"resource"`
	ContentMeta
}

// ResourceContents is the content of a resource: either Text or Blob.
type ResourceContents struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType,omitempty"`
	Text     string `json:"text,omitempty"`
	Blob     []byte `json:"blob,omitzero"` // base64 on the wire
	Meta     Meta   `json:"_meta,omitempty"`
}

// ToolUseContent is a block in which a model calls a tool.
type ToolUseContent struct {
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	Input jsontext.Value `json:"input"`
	Meta  Meta           `json:"_meta,omitempty"`
}

// ToolResultContent is a block that gives a model the result of its call.
type ToolResultContent struct {
	ToolUseID         string         `json:"toolUseId"`
	Content           []Content      `json:"content"`
	StructuredContent jsontext.Value `json:"structuredContent,omitzero"`
	IsError           bool           `json:"isError,omitzero"`
	Meta              Meta           `json:"_meta,omitempty"`
}

func (*TextContent) contentType() string       { return "text" }
func (*ImageContent) contentType() string      { return "image" }
func (*AudioContent) contentType() string      { return "audio" }
func (*ResourceLink) contentType() string      { return "resource_link" }
func (*EmbeddedResource) contentType() string  { return "resource" }
func (*ToolUseContent) contentType() string    { return "tool_use" }
func (*ToolResultContent) contentType() string { return "tool_result" }

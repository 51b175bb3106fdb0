package servertest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// ListTools returns what tools/list says, all pages of it.
func (c *Client) ListTools(ctx context.Context) ([]mcp.Tool, error) {
	var tools []mcp.Tool
	var params any
	for {
		raw, err := c.Call(ctx, mcp.MethodToolsList, params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools      []mcp.Tool `json:"tools"`
			NextCursor *string    `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("servertest: %s: %w", mcp.MethodToolsList, err)
		}
		tools = append(tools, page.Tools...)
		if page.NextCursor == nil {
			return tools, nil
		}
		params = map[string]string{"cursor": *page.NextCursor}
	}
}

// CallTool calls a tool. args must encode to a JSON object, or be nil. A failure
// that the tool reports to the model is a result with IsError set; a failure of
// the call itself is an error, and an [*mcp.Error] if the server says so.
func (c *Client) CallTool(ctx context.Context, name string, args any) (*ToolResult, error) {
	raw, err := objectOf(args)
	if err != nil {
		return nil, fmt.Errorf("servertest: arguments of %s: %w", name, err)
	}
	raw, err = c.Call(ctx, mcp.MethodToolsCall, mcp.CallToolParams{Name: name, Arguments: raw})
	if err != nil {
		return nil, err
	}
	result := new(ToolResult)
	if err := result.decode(raw); err != nil {
		return nil, fmt.Errorf("servertest: result of %s: %w", name, err)
	}
	return result, nil
}

// A ToolResult is the result of tools/call as a client reads it.
type ToolResult struct {
	Content []mcp.Content
	// StructuredContent is the JSON of the structured result, nil if there is none.
	StructuredContent jsontext.Value
	// IsError says that the tool reports a failure to the model, in Content.
	IsError bool
	Meta    mcp.Meta
}

// Text returns the text blocks of the content, each on lines of its own.
func (r *ToolResult) Text() string {
	var texts []string
	for _, block := range r.Content {
		if t, ok := block.(*mcp.Text); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// ErrNoStructuredContent is returned by [ToolResult.Into] for a result without
// structured content.
var ErrNoStructuredContent = errors.New("servertest: the result has no structured content")

// Into decodes the structured content into the variable that v points to.
func (r *ToolResult) Into(v any) error {
	if r.StructuredContent == nil {
		return ErrNoStructuredContent
	}
	return json.Unmarshal(r.StructuredContent, v)
}

func (r *ToolResult) decode(raw jsontext.Value) error {
	var wire struct {
		Content           []jsontext.Value `json:"content"`
		StructuredContent jsontext.Value   `json:"structuredContent"`
		IsError           bool             `json:"isError"`
		Meta              mcp.Meta         `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	*r = ToolResult{StructuredContent: wire.StructuredContent, IsError: wire.IsError, Meta: wire.Meta}
	for _, block := range wire.Content {
		content, err := decodeContent(block)
		if err != nil {
			return err
		}
		r.Content = append(r.Content, content)
	}
	return nil
}

func decodeContent(raw jsontext.Value) (mcp.Content, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	var content mcp.Content
	switch head.Type {
	case "text":
		content = new(mcp.Text)
	case "image":
		content = new(mcp.Image)
	case "audio":
		content = new(mcp.Audio)
	case "resource_link":
		content = new(mcp.ResourceLink)
	case "resource":
		content = new(mcp.EmbeddedResource)
	default:
		return nil, fmt.Errorf("there is no content of type %q", head.Type)
	}
	return content, json.Unmarshal(raw, content)
}

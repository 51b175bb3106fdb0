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

// CallTool calls a tool. args must encode to a JSON object, or be nil. A failure
// that the tool reports to the model is a result with IsError set; a failure of
// the call itself is an error, and an [*mcp.Error] if the server says so. A call that
// goes on as a task is followed to its end, see [Task.Result].
func (c *Client) CallTool(ctx context.Context, name string, args any) (*ToolResult, error) {
	raw, err := c.callTool(ctx, name, args)
	if err != nil {
		return nil, err
	}
	if task, err := taskIn(raw); err == nil && task != nil {
		return c.Task(*task).Result(ctx)
	}
	result := new(ToolResult)
	if err := result.decode(raw); err != nil {
		return nil, fmt.Errorf("servertest: result of %s: %w", name, err)
	}
	return result, nil
}

// callTool calls a tool and returns its result, which may be a task.
func (c *Client) callTool(ctx context.Context, name string, args any) (jsontext.Value, error) {
	raw, err := objectOf(args)
	if err != nil {
		return nil, fmt.Errorf("servertest: arguments of %s: %w", name, err)
	}
	return c.Call(ctx, mcp.MethodToolsCall, mcp.CallToolParams{Name: name, Arguments: raw})
}

// A ToolResult is the result of tools/call as a client reads it.
type ToolResult struct {
	Content []mcp.Content
	// StructuredContent is the JSON of the structured result, nil if there is none.
	StructuredContent jsontext.Value
	// IsError is true if the tool reports a failure to the model, in Content.
	IsError bool
	Meta    mcp.Meta
}

// Text returns the text blocks of the content, each on lines of its own.
func (r *ToolResult) Text() string {
	var texts []string
	for _, block := range r.Content {
		if t, ok := block.(*mcp.TextContent); ok {
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
	var result struct {
		Content           mcp.ContentBlocks `json:"content"`
		StructuredContent jsontext.Value    `json:"structuredContent"`
		IsError           bool              `json:"isError"`
		Meta              mcp.Meta          `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return err
	}
	*r = ToolResult{StructuredContent: result.StructuredContent, IsError: result.IsError, Meta: result.Meta}
	if len(result.Content) > 0 {
		r.Content = result.Content
	}
	return nil
}

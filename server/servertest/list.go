package servertest

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// ListTools returns all pages of tools/list.
func (c *Client) ListTools(ctx context.Context) ([]mcp.Tool, error) {
	return list[mcp.Tool](ctx, c, mcp.MethodToolsList, "tools")
}

// ListPrompts returns all pages of prompts/list.
func (c *Client) ListPrompts(ctx context.Context) ([]mcp.Prompt, error) {
	return list[mcp.Prompt](ctx, c, mcp.MethodPromptsList, "prompts")
}

// ListResources returns all pages of resources/list.
func (c *Client) ListResources(ctx context.Context) ([]mcp.Resource, error) {
	return list[mcp.Resource](ctx, c, mcp.MethodResourcesList, "resources")
}

// ListResourceTemplates returns all pages of resources/templates/list.
func (c *Client) ListResourceTemplates(ctx context.Context) ([]mcp.ResourceTemplate, error) {
	return list[mcp.ResourceTemplate](ctx, c, mcp.MethodResourcesTemplatesList, "resourceTemplates")
}

// list reads all pages of a list, whose entries are in the given member of the result.
func list[T any](ctx context.Context, c *Client, method, member string) ([]T, error) {
	var all []T
	var params any
	for {
		raw, err := c.Call(ctx, method, params)
		if err != nil {
			return nil, err
		}
		var page map[string]jsontext.Value
		var entries []T
		if err = json.Unmarshal(raw, &page); err == nil {
			err = json.Unmarshal(page[member], &entries)
		}
		if err != nil {
			return nil, fmt.Errorf("servertest: %s: %w", method, err)
		}
		all = append(all, entries...)
		cursor := page["nextCursor"]
		if cursor == nil {
			return all, nil
		}
		params = map[string]jsontext.Value{"cursor": cursor}
	}
}

package servertest

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// GetPrompt gets a prompt. A failure is an error, and an [*mcp.Error] if the server says
// so.
func (c *Client) GetPrompt(ctx context.Context, name string, args map[string]string) (*mcp.GetPromptResult, error) {
	return get[mcp.GetPromptResult](ctx, c, mcp.MethodPromptsGet, mcp.GetPromptParams{Name: name, Arguments: args})
}

// CompletePrompt asks for the possible values of an argument of a prompt. value is the text
// that was typed so far. decided has the arguments that already have a value; it may be nil.
func (c *Client) CompletePrompt(
	ctx context.Context, name, argument, value string, decided map[string]string,
) (*mcp.Completion, error) {
	return c.complete(ctx, mcp.CompletionReference{Type: "ref/prompt", Name: name}, argument, value, decided)
}

// CompleteResource is [Client.CompletePrompt] for a variable of a resource template.
func (c *Client) CompleteResource(
	ctx context.Context, uriTemplate, variable, value string, decided map[string]string,
) (*mcp.Completion, error) {
	return c.complete(ctx, mcp.CompletionReference{Type: "ref/resource", URI: uriTemplate}, variable, value, decided)
}

func (c *Client) complete(
	ctx context.Context, ref mcp.CompletionReference, argument, value string, decided map[string]string,
) (*mcp.Completion, error) {
	params := mcp.CompleteParams{Ref: ref, Argument: mcp.CompletionArgument{Name: argument, Value: value}}
	params.Context.Arguments = decided
	result, err := get[mcp.CompleteResult](ctx, c, mcp.MethodCompletionComplete, params)
	if err != nil {
		return nil, err
	}
	return &result.Completion, nil
}

// get calls a method and decodes its result.
func get[T any](ctx context.Context, c *Client, method string, params any) (*T, error) {
	raw, err := c.Call(ctx, method, params)
	if err != nil {
		return nil, err
	}
	result := new(T)
	if err := json.Unmarshal(raw, result); err != nil {
		return nil, fmt.Errorf("servertest: result of %s: %w", method, err)
	}
	return result, nil
}

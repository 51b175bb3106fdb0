package main

import (
	"context"
	"fmt"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// addPrompts adds the prompts of the conformance suite.
func addPrompts(srv *server.Server) {
	server.AddPrompt(srv, server.Prompt{
		Name: "test_simple_prompt", Description: "One message without arguments.",
	}, func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
		return mcp.PromptText("This is a simple prompt for testing."), nil
	})
	server.AddPrompt(srv, server.Prompt{
		Name: "test_prompt_with_arguments", Description: "One message that repeats both arguments.",
		Arguments: []server.PromptArgument{
			{Name: "arg1", Description: "First argument", Required: true,
				Complete: server.CompleteFrom("testValue1", "testValue2", "paris", "party")},
			{Name: "arg2", Description: "Second argument", Required: true},
		},
	}, func(_ context.Context, _ *server.Call, args map[string]string) (*mcp.GetPromptResult, error) {
		return mcp.PromptText(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])), nil
	})
	server.AddPrompt(srv, server.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "A resource, and what to do with it.",
		Arguments: []server.PromptArgument{{Name: "resourceUri", Description: "URI of the embedded resource", Required: true}},
	}, func(_ context.Context, _ *server.Call, args map[string]string) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: embedded(args["resourceUri"], "text/plain", "Embedded resource content for testing.")},
			{Role: mcp.RoleUser, Content: &mcp.TextContent{Text: "Please process the embedded resource above."}},
		}}, nil
	})
	server.AddPrompt(srv, server.Prompt{
		Name: "test_prompt_with_image", Description: "A picture, and what to do with it.",
	}, func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: redPixel()},
			{Role: mcp.RoleUser, Content: &mcp.TextContent{Text: "Please analyze the image above."}},
		}}, nil
	})
}

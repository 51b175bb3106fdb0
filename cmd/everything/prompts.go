package main

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// prompts adds the prompts of the conformance suite in the order in which they are listed.
var prompts = []fixture{
	inputPrompt,
	prompt(server.Prompt{
		Name: "test_simple_prompt", Description: "One message without arguments.",
	}, func(map[string]string) *mcp.GetPromptResult {
		return mcp.PromptText("This is a simple prompt for testing.")
	}),
	prompt(server.Prompt{
		Name: "test_prompt_with_arguments", Description: "One message that repeats both arguments.",
		Arguments: []server.PromptArgument{
			{Name: "arg1", Description: "First argument", Required: true,
				Complete: server.CompleteFrom("testValue1", "testValue2", "paris", "party")},
			{Name: "arg2", Description: "Second argument", Required: true},
		},
	}, func(args map[string]string) *mcp.GetPromptResult {
		return mcp.PromptText(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"]))
	}),
	prompt(server.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "A resource, and what to do with it.",
		Arguments: []server.PromptArgument{{Name: "resourceUri", Description: "URI of the embedded resource", Required: true}},
	}, func(args map[string]string) *mcp.GetPromptResult {
		return userSays(embedded(args["resourceUri"], "text/plain", "Embedded resource content for testing."),
			&mcp.TextContent{Text: "Please process the embedded resource above."})
	}),
	prompt(server.Prompt{
		Name: "test_prompt_with_image", Description: "A picture, and what to do with it.",
	}, func(map[string]string) *mcp.GetPromptResult {
		return userSays(redPixel(), &mcp.TextContent{Text: "Please analyze the image above."})
	}),
	promptOfVersion(1), // the last one, because it changes
}

// userSays returns a prompt with one message of the user for each block.
func userSays(blocks ...mcp.Content) *mcp.GetPromptResult {
	result := new(mcp.GetPromptResult)
	for _, block := range blocks {
		result.Messages = append(result.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: block})
	}
	return result
}

package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// changeFixtures are the tools that make the server change, and the tool that changes.
// They come last, and that one very last: a tool that is registered again is listed at
// the end, and the suite wants the names in the order that they had.
var changeFixtures = []fixture{
	trigger("test_trigger_tool_change", "Change the description of a tool.", func(srv *server.Server, version int) {
		srv.RemoveTools(changingTool)
		toolOfVersion(version)(srv)
	}),
	trigger("test_trigger_prompt_change", "Change the description of a prompt.", func(srv *server.Server, version int) {
		srv.RemovePrompts(changingPrompt)
		promptOfVersion(version)(srv)
	}),
	trigger("test_trigger_resource_update", "Tell those who watch test://watched-resource that it has changed.",
		func(srv *server.Server, _ int) { srv.ResourceUpdated(watchedURI) }),
	toolOfVersion(1),
}

// trigger returns a tool that makes a new version of something on each call.
func trigger(name, description string, change func(srv *server.Server, version int)) fixture {
	return func(srv *server.Server) {
		var mu sync.Mutex // guards version, and orders the changes
		version := 1
		server.AddTool(srv, server.Tool{Name: name, Description: description},
			func(context.Context, *server.Call, none) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				version++
				change(srv, version)
				return fmt.Sprintf("It has changed: this is version %d.", version), nil
			})
	}
}

const (
	changingTool   = "changing_tool"
	changingPrompt = "changing_prompt"
)

// toolOfVersion returns a version of the tool that changes.
func toolOfVersion(version int) fixture {
	return tool(server.Tool{
		Name: changingTool, Description: fmt.Sprintf("A tool that test_trigger_tool_change changes, version %d.", version),
	}, func(context.Context, *server.Call, none) (string, error) { return fmt.Sprint("version ", version), nil })
}

// promptOfVersion returns a version of the prompt that changes.
func promptOfVersion(version int) fixture {
	return prompt(server.Prompt{
		Name: changingPrompt, Description: fmt.Sprintf("A prompt that test_trigger_prompt_change changes, version %d.", version),
	}, func(map[string]string) *mcp.GetPromptResult { return mcp.PromptText(fmt.Sprint("version ", version)) })
}

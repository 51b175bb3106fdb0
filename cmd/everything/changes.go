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
var changeFixtures = []func(*server.Server){addToolTrigger, addPromptTrigger, addResourceTrigger, addChangingTool}

func addToolTrigger(srv *server.Server) {
	addTrigger(srv, "test_trigger_tool_change", "Change the description of a tool.", func(version int) {
		srv.RemoveTools(changingTool)
		registerChangingTool(srv, version)
	})
}

func addPromptTrigger(srv *server.Server) {
	addTrigger(srv, "test_trigger_prompt_change", "Change the description of a prompt.", func(version int) {
		srv.RemovePrompts(changingPrompt)
		registerChangingPrompt(srv, version)
	})
}

func addResourceTrigger(srv *server.Server) {
	addTrigger(srv, "test_trigger_resource_update", "Tell those who watch test://watched-resource that it has changed.",
		func(int) { srv.ResourceUpdated(watchedURI) })
}

// addTrigger adds a tool each call of which makes a new version of something.
func addTrigger(srv *server.Server, name, description string, change func(version int)) {
	var mu sync.Mutex // guards version, and orders the changes
	version := 1
	server.AddTool(srv, server.Tool{Name: name, Description: description},
		func(context.Context, *server.Call, none) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			version++
			change(version)
			return fmt.Sprintf("It has changed: this is version %d.", version), nil
		})
}

const (
	changingTool   = "changing_tool"
	changingPrompt = "changing_prompt"
)

func addChangingTool(srv *server.Server) { registerChangingTool(srv, 1) }

func registerChangingTool(srv *server.Server, version int) {
	server.AddTool(srv, server.Tool{
		Name: changingTool, Description: fmt.Sprintf("A tool that test_trigger_tool_change changes, version %d.", version),
	}, func(context.Context, *server.Call, none) (string, error) { return fmt.Sprint("version ", version), nil })
}

// addChangingPrompt adds the prompt that changes, which is the last one.
func addChangingPrompt(srv *server.Server) { registerChangingPrompt(srv, 1) }

func registerChangingPrompt(srv *server.Server, version int) {
	server.AddPrompt(srv, server.Prompt{
		Name: changingPrompt, Description: fmt.Sprintf("A prompt that test_trigger_prompt_change changes, version %d.", version),
	}, func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
		return mcp.PromptText(fmt.Sprint("version ", version)), nil
	})
}

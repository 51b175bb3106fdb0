package main

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A fixture adds something to a server.
type fixture func(*server.Server)

// tool returns the fixture that adds a tool.
func tool[In, Out any](t server.Tool, handle func(context.Context, *server.Call, In) (Out, error)) fixture {
	return func(srv *server.Server) { server.AddTool(srv, t, handle) }
}

// prompt returns the fixture that adds a prompt.
func prompt(p server.Prompt, render func(args map[string]string) *mcp.GetPromptResult) fixture {
	return func(srv *server.Server) {
		server.AddPrompt(srv, p, func(_ context.Context, _ *server.Call, args map[string]string) (*mcp.GetPromptResult, error) {
			return render(args), nil
		})
	}
}

// none is the input of a tool without arguments.
type none struct{}

// maxTime is the deadline of the tools whose arguments say how long they take.
const maxTime = 11 * time.Minute

// wait waits for a time and returns the cause if the call is cancelled first.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

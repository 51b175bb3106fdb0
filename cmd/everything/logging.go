package main

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// loggingFixtures are the tools that log: to the clients that want it, and to nobody else.
var loggingFixtures = []func(*server.Server){
	logs("test_logging_tool", "Log three messages while working."),
	logs("test_tool_with_logging", "Log three messages while working."),
}

func logs(name, description string) func(*server.Server) {
	return func(srv *server.Server) {
		server.AddTool(srv, server.Tool{Name: name, Description: description},
			func(ctx context.Context, call *server.Call, _ none) (string, error) {
				for i, message := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
					if i > 0 {
						if err := wait(ctx, 50*time.Millisecond); err != nil {
							return "", err
						}
					}
					if err := call.Log(mcp.LogInfo, message); err != nil {
						return "", err
					}
				}
				return "Three messages were logged.", nil
			})
	}
}

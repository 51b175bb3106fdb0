package main

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// loggingFixtures are the tools that log, to clients that have asked for log messages.
var loggingFixtures = []fixture{
	tool(server.Tool{Name: "test_logging_tool", Description: "Log three messages while working."}, logThrice),
	tool(server.Tool{Name: "test_tool_with_logging", Description: "Log three messages while working."}, logThrice),
}

func logThrice(ctx context.Context, call *server.Call, _ none) (string, error) {
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
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// progressFixtures are the tools that report progress.
var progressFixtures = []fixture{
	tool(server.Tool{
		Name: "test_tool_with_progress", Description: "Report progress 0, 50 and 100 of 100, then answer.",
	}, suiteProgress),
	tool(server.Tool{
		Name: "progress", Description: "Report progress in the given number of steps, with the given pause before each.",
		Deadline: maxTime, Streams: true,
	}, progress),
}

func suiteProgress(ctx context.Context, call *server.Call, _ none) (string, error) {
	for _, done := range []float64{0, 50, 100} {
		if err := call.Progress(done, 100, fmt.Sprintf("Completed step %v of 100", done)); err != nil {
			return "", err
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "Progress was reported.", nil
}

type progressInput struct {
	Steps int   `json:"steps" jsonschema:"number of reports, 1 to 100000"`
	MS    int64 `json:"ms,omitempty" jsonschema:"milliseconds before each report, 0 to 60000"`
}

func progress(ctx context.Context, call *server.Call, in progressInput) (string, error) {
	if in.Steps < 1 || in.Steps > 100_000 || in.MS < 0 || in.MS > 60_000 {
		return "", mcp.ToolErrorf("steps must be from 1 to 100000 and ms from 0 to 60000")
	}
	for step := range in.Steps {
		if err := wait(ctx, time.Duration(in.MS)*time.Millisecond); err != nil {
			return "", err
		}
		if err := call.Progress(float64(step+1), float64(in.Steps), ""); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d steps done", in.Steps), nil
}

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

const (
	maxSleepMS  = 600_000
	maxBigBytes = 64 << 20
)

// loadFixtures are the tools that use up time, memory and patience.
var loadFixtures = []fixture{
	tool(server.Tool{
		Name:        "sleep",
		Description: "Wait for the given number of milliseconds. A stubborn sleep ignores cancellation, as a badly written tool does.",
		Deadline:    maxTime,
	}, sleep),
	tool(server.Tool{
		Name: "panic", Description: "Panic. The server answers with an internal error and lives on.",
	}, func(context.Context, *server.Call, none) (string, error) { panic("as requested") }),
	tool(server.Tool{Name: "big", Description: "Return a text of the given length."}, big),
	tool(server.Tool{
		Name: "refuse", Description: "Refuse the call, as a quota that is used up does.",
	}, func(context.Context, *server.Call, none) (string, error) {
		return "", &mcp.Refusal{Status: 429, Reason: "quota", By: "refuse", RetryAfter: time.Second}
	}),
}

type sleepInput struct {
	MS       int64 `json:"ms" jsonschema:"milliseconds to wait, 0 to 600000"`
	Stubborn bool  `json:"stubborn,omitempty" jsonschema:"sleep on when the call is cancelled"`
}

func sleep(ctx context.Context, _ *server.Call, in sleepInput) (string, error) {
	if in.MS < 0 || in.MS > maxSleepMS {
		return "", mcp.ToolErrorf("ms must be from 0 to %d", maxSleepMS)
	}
	if in.Stubborn {
		ctx = context.WithoutCancel(ctx)
	}
	d := time.Duration(in.MS) * time.Millisecond
	return fmt.Sprintf("slept for %v", d), wait(ctx, d)
}

type bigInput struct {
	Bytes int `json:"bytes" jsonschema:"length of the text, 0 to 67108864"`
}

func big(_ context.Context, _ *server.Call, in bigInput) (string, error) {
	if in.Bytes < 0 || in.Bytes > maxBigBytes {
		return "", mcp.ToolErrorf("bytes must be from 0 to %d", maxBigBytes)
	}
	return strings.Repeat("x", in.Bytes), nil
}

package main

import (
	"context"
	"errors"
	"time"

	"github.com/vitrine-mcp/vitrine/server"
)

// reconnectionFixtures close the stream of a client that can resume it.
var reconnectionFixtures = []fixture{
	tool(server.Tool{
		Name:        "test_reconnection",
		Description: "Close the response stream before the answer, so that the client comes back for it. Others are just answered.",
	}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
		err := call.CloseStream(200 * time.Millisecond)
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return "", err
		}
		return "The stream was closed and resumed.", wait(ctx, 100*time.Millisecond)
	}),
}

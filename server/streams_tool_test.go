package server_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// A tool that streams is in a metric while it is registered.
func TestToolThatStreams(t *testing.T) {
	tel := recording(t)
	srv := newServer(t, server.WithTelemetry(tel))
	handler := func(context.Context, *server.Call, none) (string, error) { return "", nil }
	server.AddTool(srv, server.Tool{Name: "follow", Streams: true}, handler)
	server.AddTool(srv, server.Tool{Name: "get"}, handler)
	const follow, get = `vitrine_tools_streaming{gen_ai_tool_name="follow"} 1`, `gen_ai_tool_name="get"`
	require.Contains(t, scrape(t, tel), follow)
	require.NotContains(t, scrape(t, tel), get)
	server.AddTool(srv, server.Tool{Name: "follow"}, handler)
	require.NotContains(t, scrape(t, tel), follow)
}

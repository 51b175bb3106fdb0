package server_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// The log lines about a state and a notification that are refused say whose they were.
func TestLogLinesOfRefusalsNameTheClient(t *testing.T) {
	const nudge = "notifications/com.example/nudge"
	var log lockedBuffer
	srv := newServer(t, byContext, server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), hourly("nudges", 1, forMethods(nudge)))
	server.AddNotification(srv, nudge, "", func(context.Context, *server.Notice, none) {})
	addTwo(srv, "other")
	p := dialContext(t, as("bob"), srv)
	refusedState(t, mcp.StateMalformed, p.ask(strings.Replace(asking(1, "tools/call", retry(call("two", `{}`), "hello")),
		`"_meta":{`, `"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"desk","version":"4.3.0"},`, 1)))
	require.Regexp(t, `msg=state.refused .*target=two .*client=desk client_version=4.3.0 principal=bob .*reason=`, log.String())

	legacyClient := dialContext(t, as("ada"), srv)
	legacyClient.initialize("2025-11-25")
	for range 2 {
		legacyClient.send(notice(nudge, ""))
	}
	require.Contains(t, legacyClient.ask(legacy(2, "ping", "")), `"result"`)
	require.Regexp(t, `msg=notification.refused .*client=\S+ client_version=\S+ principal=ada `, log.String())
}

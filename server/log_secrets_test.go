package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// The log has no arguments, results, answers of users or credentials, at any level.
func TestLogsHaveNoSecrets(t *testing.T) {
	var log lockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 100}))
	srv := newServer(t, server.WithLogger(logger), server.WithMiddleware(middleware.Logging(logger)))
	server.AddTool(srv, server.Tool{Name: "pay"}, func(_ context.Context, call *server.Call, in struct {
		Card  string `json:"card"`
		Count int    `json:"count"`
	}) (string, error) {
		r, err := call.Elicit("k", form("m", anyForm))
		if err != nil {
			return "", err
		}
		return in.Card + string(r.Content), nil
	})
	server.AddPrompt(srv, server.Prompt{Name: "p", Arguments: []server.PromptArgument{{Name: "a"}}}, say("hush-prompt"))
	server.AddStaticResource(srv, server.Resource{URI: "x:y", Name: "n"}, "hush-resource")
	url := listen(t, srv)
	post := func(method, name, frame string) string {
		_, body := exchange(t, "POST", url, frame, "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: "+method, "Mcp-Name: "+name,
			"Authorization: Bearer hush-token", "Cookie: s=hush-cookie")
		return body
	}
	params := call("pay", `{"card":"hush-card","count":1}`)
	asked := post("tools/call", "pay", asking(1, "tools/call", params))
	require.Contains(t, asked, "input_required")
	var f frame
	require.NoError(t, json.Unmarshal([]byte(asked), &f))
	again := retryParams(t, params, f.Result, func(servertest.Question) string { return accepted("hush-user") })
	require.Contains(t, post("tools/call", "pay", asking(2, "tools/call", again)), "hush-card")
	require.Contains(t, post("tools/call", "pay", asking(3, "tools/call", call("pay", `{"card":"hush-card","count":"hush-count"}`))), `"isError":true`)
	require.Contains(t, post("tools/call", "pay", asking(4, "tools/call", retry(params, "hush-state", "k", accepted("x")))), "-32602")
	require.Contains(t, post("prompts/get", "p", modern(5, "prompts/get", prompt("p", `{"a":"hush-argument"}`))), "hush-prompt")
	require.Contains(t, post("resources/read", "x:y", modern(6, "resources/read", uri("x:y"))), "hush-resource")
	require.Contains(t, post("tools/call", "pay", `{"jsonrpc":"2.0","hush-key":`), "-32700")
	require.NoError(t, srv.Shutdown(t.Context()))
	require.NotEmpty(t, log.String(), "something was logged")
	require.NotContains(t, log.String(), "hush")
}

package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// internalError checks that a client gets an internal error, and the operator the reason.
func internalError(t *testing.T, method, params, want string, add func(*server.Server)) {
	t.Helper()
	var log logRecorder
	srv := newServer(t, server.WithLogger(slog.New(&log)))
	add(srv)
	answer := dial(t, srv).ask(modern(1, method, params))
	require.Contains(t, answer, `"code":-32603`)
	require.NotContains(t, answer, want)
	records := log.find("handler.error")
	require.Len(t, records, 1)
	require.Equal(t, slog.LevelError, records[0].level)
	require.Contains(t, fmt.Sprint(records[0].attrs), want)
}

// A cache hint that the protocol does not allow is a handler's mistake.
func TestImpossibleCacheHints(t *testing.T) {
	negative := -5 * time.Millisecond
	for name, tt := range map[string]struct {
		hint mcp.CacheHint
		want string
	}{
		"negative TTL":  {mcp.CacheFor(negative, mcp.CachePublic), "the TTL is negative"},
		"unknown scope": {mcp.CacheFor(time.Second, "foo"), `there is no cache scope "foo"`},
	} {
		t.Run(name, func(t *testing.T) {
			internalError(t, "resources/read", `"uri":"x://a"`, tt.want, func(srv *server.Server) {
				server.AddResource(srv, server.Resource{URI: "x://a", Name: "a"},
					func(context.Context, *server.Call, string) (*mcp.ReadResourceResult, error) {
						return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{Text: "a"}}, CacheHint: tt.hint}, nil
					})
			})
		})
	}
}

// nilBlocks are content blocks without a value, each with a block before it.
func nilBlocks() map[string][]mcp.Content {
	all := map[string][]mcp.Content{}
	for _, block := range []mcp.Content{
		nil, (*mcp.TextContent)(nil), (*mcp.ImageContent)(nil), (*mcp.AudioContent)(nil), (*mcp.ResourceLink)(nil),
		(*mcp.EmbeddedResource)(nil), (*mcp.ToolUseContent)(nil), (*mcp.ToolResultContent)(nil),
	} {
		all[fmt.Sprintf("%T", block)] = []mcp.Content{&mcp.TextContent{Text: "a"}, block}
	}
	return all
}

func TestNilContentBlocks(t *testing.T) {
	for name, content := range nilBlocks() {
		t.Run("tool/"+name, func(t *testing.T) {
			internalError(t, "tools/call", call("t", `{}`), "content block 1 is nil", func(srv *server.Server) {
				server.AddTool(srv, server.Tool{Name: "t"}, func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{Content: content}, nil
				})
			})
		})
		t.Run("prompt/"+name, func(t *testing.T) {
			internalError(t, "prompts/get", `"name":"p"`, "message 1 of the prompt needs a role and content", func(srv *server.Server) {
				server.AddPrompt(srv, server.Prompt{Name: "p"}, func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
					return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{
						{Role: mcp.RoleUser, Content: content[0]}, {Role: mcp.RoleUser, Content: content[1]},
					}}, nil
				})
			})
		})
	}
	t.Run("tool error", func(t *testing.T) {
		internalError(t, "tools/call", call("t", `{}`), "content block 0 is nil", func(srv *server.Server) {
			server.AddTool(srv, server.Tool{Name: "t"}, func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{nil}}, nil
			})
		})
	})
}

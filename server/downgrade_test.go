package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
)

// The list of tools has only what the legacy revision knows. The definitions are not changed.
func TestToolsForOlderClients(t *testing.T) {
	srv := newServer(t)
	yes := true
	server.AddTool(srv, server.Tool{
		Name: "object", Title: "T", Icons: []mcp.Icon{{Src: "data:,"}}, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: &yes},
		Meta: mcp.Meta{"example.com/k": 1},
	}, func(context.Context, *server.Call, none) (struct{}, error) { return struct{}{}, nil })
	server.AddTool(srv, server.Tool{Name: "array"},
		func(context.Context, *server.Call, none) ([]int, error) { return nil, nil })
	server.AddTool(srv, server.Tool{Name: "nullable"},
		func(context.Context, *server.Call, none) (*struct{}, error) { return nil, nil })
	server.AddTool(srv, server.Tool{Name: "anything"},
		func(context.Context, *server.Call, none) (any, error) { return nil, nil })
	server.AddTool(srv, server.Tool{Name: "given", OutputSchema: jsontext.Value(`{"properties":{"type":{"type":"object"}}}`)},
		func(context.Context, *server.Call, none) (any, error) { return nil, nil })

	const input = `"inputSchema":{"type":"object","additionalProperties":false}`
	const output = `,"outputSchema":{"type":"object","additionalProperties":false}`
	const annotations = `,"annotations":{"readOnlyHint":true}`
	const meta = `,"_meta":{"example.com/k":1}`
	rest := ""
	for _, name := range []string{"array", "nullable", "anything", "given"} {
		rest += `,{"name":"` + name + `",` + input + `}`
	}
	whole := dial(t, srv).ask(modern(1, "tools/list", ""))
	for version, extra := range map[string]string{
		"2025-11-25": `,"title":"T","icons":[{"src":"data:,"}]` + annotations + output + meta,
		"2025-06-18": `,"title":"T"` + annotations + output + meta,
		"2025-03-26": annotations,
		"2024-11-05": ``,
	} {
		t.Run(version, func(t *testing.T) {
			p := dial(t, srv)
			p.initialize(version)
			require.JSONEq(t, result(1, `"tools":[{"name":"object",`+input+extra+`}`+rest+`]`), p.ask(legacy(1, "tools/list", "")))
		})
	}
	require.Equal(t, whole, dial(t, srv).ask(modern(1, "tools/list", "")), "the definitions are shared")
	require.Contains(t, whole, `"outputSchema":{"type":"array"`)
}

func TestResultsForOlderClients(t *testing.T) {
	about := mcp.ContentMeta{Annotations: &mcp.Annotations{Audience: []string{"user"}}}
	shared := &mcp.CallToolResult{
		Content: []mcp.Content{
			&mcp.TextContent{Text: "t"},
			&mcp.AudioContent{Data: []byte{1, 2}, MIMEType: "audio/wav", ContentMeta: about},
			&mcp.ResourceLink{URI: "x:y", Name: "n", Description: "d", Icons: []mcp.Icon{{Src: "data:,"}}, ContentMeta: about},
		},
		StructuredContent: map[string]int{"n": 1},
	}
	before, err := json.Marshal(shared, json.Deterministic(true))
	require.NoError(t, err)
	srv := newServer(t)
	add := func(name string, out any) {
		server.AddTool(srv, server.Tool{Name: name}, func(context.Context, *server.Call, none) (any, error) { return out, nil })
	}
	add("list", []int{1})
	add("null", nil)
	add("object", map[string]int{"n": 1})
	server.AddTool(srv, server.Tool{Name: "blocks"},
		func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) { return shared, nil })
	server.AddTool(srv, server.Tool{Name: "bare"},
		func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: []int{1}}, nil
		})

	const who = `,"annotations":{"audience":["user"]}`
	const audio = `{"type":"audio","data":"AQI=","mimeType":"audio/wav"` + who + `}`
	const audioText = `{"type":"text","text":"[audio, audio/wav, 2 bytes]"` + who + `}`
	const link = `{"type":"resource_link","uri":"x:y","name":"n","description":"d"` + who
	const linkText = `{"type":"text","text":"n: x:y\nd"` + who + `}`
	const structured = `,"structuredContent":{"n":1}`
	for version, want := range map[string]struct{ audio, link, structured string }{
		"2025-11-25": {audio, link + `,"icons":[{"src":"data:,"}]}`, structured},
		"2025-06-18": {audio, link + `}`, structured},
		"2025-03-26": {audio, linkText, ""},
		"2024-11-05": {audioText, linkText, ""},
	} {
		t.Run(version, func(t *testing.T) {
			p := dial(t, srv)
			p.initialize(version)
			ask := func(tool string) string { return p.ask(legacy(1, "tools/call", call(tool, `{}`))) }
			text := func(s string) string { return fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, s) }
			require.JSONEq(t, result(1, text(`[1]`)), ask("list"))
			require.JSONEq(t, result(1, text(`null`)), ask("null"))
			require.JSONEq(t, result(1, text(`[1]`)), ask("bare"), "what was structured only is not lost")
			require.JSONEq(t, result(1, text(`{"n":1}`)+want.structured), ask("object"))
			require.JSONEq(t, result(1, `"content":[{"type":"text","text":"t"},`+want.audio+`,`+want.link+`]`+want.structured), ask("blocks"))
		})
	}
	after, err := json.Marshal(shared, json.Deterministic(true))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after), "the handler's result is not the server's to change")
}

// Over HTTP the revision of the session decides on the form of an answer, not a header.
func TestDowngradeFollowsTheSession(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x", Title: "T"}, text(""))
	url := listen(t, srv)
	res, _ := exchange(t, "POST", url, legacy(1, "initialize",
		`"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
	sid := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	exchange(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, sid)
	_, got := exchange(t, "POST", url, legacy(2, "tools/list", ""), sid, "Mcp-Protocol-Version: 2025-11-25")
	require.Contains(t, got, `"name":"x"`)
	require.NotContains(t, got, `"title"`)
	require.NoError(t, srv.Shutdown(t.Context()))
}

// A middleware may keep a list and answer with it again.
func TestSharedListIsNotChanged(t *testing.T) {
	tool := &mcp.Tool{Name: "x", Title: "T", InputSchema: jsontext.Value(`{"type":"object"}`)}
	shared := &mcp.ListToolsResult{Tools: []*mcp.Tool{tool}}
	srv := newServer(t, server.WithMiddleware(func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			if req.Method == mcp.MethodToolsList {
				return shared, nil
			}
			return next(ctx, req)
		}
	}))
	p := dial(t, srv)
	p.initialize("2024-11-05")
	require.NotContains(t, p.ask(legacy(1, "tools/list", "")), `"title"`)
	require.Same(t, tool, shared.Tools[0])
	require.Equal(t, "T", tool.Title)
}

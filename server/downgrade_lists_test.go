package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
)

var legacyVersions = mcp.Versions(mcp.Legacy)

// since returns the members if the version has them.
func since(v, from mcp.Version, members string) string {
	if v.AtLeast(from) {
		return members
	}
	return ""
}

// Lists of prompts, resources and templates have only what the legacy revision knows. The
// definitions are not changed.
func TestListsForOlderClients(t *testing.T) {
	srv := newServer(t)
	icons := []mcp.Icon{{Src: "data:,"}}
	meta := mcp.Meta{"example.com/k": 1}
	about := &mcp.Annotations{Audience: []string{"user"}, LastModified: "2026-01-01T00:00:00Z"}
	server.AddPrompt(srv, server.Prompt{Name: "p", Title: "T", Description: "D", Icons: icons, Meta: meta,
		Arguments: []server.PromptArgument{{Name: "a", Title: "A", Description: "AD", Required: true}, {Name: "b"}}}, say(""))
	server.AddPrompt(srv, server.Prompt{Name: "q"}, say(""))
	server.AddResource(srv, server.Resource{URI: "x:y", Name: "n", Title: "T", Description: "D", MIMEType: "a/b", Size: 3,
		Icons: icons, Meta: meta, Annotations: about}, reader(""))
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:{y}", Name: "n", Title: "T", Description: "D",
		MIMEType: "a/b", Icons: icons, Meta: meta, Annotations: about}, echoVars)
	lists := []string{"prompts/list", "resources/list", "resources/templates/list"}
	var whole []string
	for _, list := range lists {
		whole = append(whole, dial(t, srv).ask(modern(1, list, "")))
		require.Contains(t, whole[len(whole)-1], `"icons"`)
	}
	for _, v := range legacyVersions {
		t.Run(string(v), func(t *testing.T) {
			p := oldPipe(t, srv, v)
			title := since(v, mcp.Version20250618, `,"title":"T"`)
			rest := title + since(v, mcp.Version20251125, `,"icons":[{"src":"data:,"}]`) + since(v, mcp.Version20250618, `,"_meta":{"example.com/k":1}`)
			annotations := `,"annotations":{"audience":["user"]` + since(v, mcp.Version20250618, `,"lastModified":"2026-01-01T00:00:00Z"`) + `}`
			require.JSONEq(t, result(1, `"prompts":[{"name":"p","description":"D","arguments":[{"name":"a","description":"AD","required":true`+
				since(v, mcp.Version20250618, `,"title":"A"`)+`},{"name":"b"}]`+rest+`},{"name":"q"}]`), p.ask(legacy(1, "prompts/list", "")))
			require.JSONEq(t, result(1, `"resources":[{"uri":"x:y","name":"n","description":"D","mimeType":"a/b","size":3`+annotations+rest+`}]`),
				p.ask(legacy(1, "resources/list", "")))
			require.JSONEq(t, result(1, `"resourceTemplates":[{"uriTemplate":"x:{y}","name":"n","description":"D","mimeType":"a/b"`+annotations+rest+`}]`),
				p.ask(legacy(1, "resources/templates/list", "")))
		})
	}
	for i, list := range lists {
		require.Equal(t, whole[i], dial(t, srv).ask(modern(1, list, "")), "the definitions are shared")
	}
}

// Content has only what the legacy revision knows. The handler's result is not changed.
func TestContentForOlderClients(t *testing.T) {
	about := mcp.ContentMeta{
		Annotations: &mcp.Annotations{Audience: []string{"user"}, LastModified: "2026-01-01T00:00:00Z"}, Meta: mcp.Meta{"k": 1},
	}
	contents := mcp.ResourceContents{URI: "x:z", Text: "z", Meta: mcp.Meta{"k": 2}}
	blocks := []mcp.Content{
		&mcp.TextContent{Text: "plain"},
		&mcp.TextContent{Text: "t", ContentMeta: about},
		&mcp.TextContent{Text: "dated", ContentMeta: mcp.ContentMeta{Annotations: &mcp.Annotations{LastModified: "2026-01-01T00:00:00Z"}}},
		&mcp.TextContent{Text: "meta", ContentMeta: mcp.ContentMeta{Meta: mcp.Meta{"k": 4}}},
		&mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png", ContentMeta: about},
		&mcp.AudioContent{Data: []byte{1, 2}, MIMEType: "audio/wav", ContentMeta: about},
		&mcp.ResourceLink{URI: "x:y", Name: "n", Title: "T", Icons: []mcp.Icon{{Src: "data:,"}}, ContentMeta: about},
		&mcp.EmbeddedResource{Resource: contents, ContentMeta: about},
	}
	tool := &mcp.CallToolResult{Content: blocks, ResultMeta: mcp.ResultMeta{Meta: mcp.Meta{"r": 3}}}
	prompt := &mcp.GetPromptResult{Description: "D", ResultMeta: mcp.ResultMeta{Meta: mcp.Meta{"r": 3}}}
	for _, b := range blocks {
		prompt.Messages = append(prompt.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: b})
	}
	read := &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{contents}, ResultMeta: mcp.ResultMeta{Meta: mcp.Meta{"r": 3}}}
	encoded := func() string {
		raw, err := json.Marshal([]any{tool, prompt, read}, json.Deterministic(true))
		require.NoError(t, err)
		return string(raw)
	}
	before := encoded()
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x"}, func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) { return tool, nil })
	server.AddPrompt(srv, server.Prompt{Name: "x"},
		func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return prompt, nil
		})
	server.AddResource(srv, server.Resource{URI: "x:x", Name: "n"}, reader(read))

	for _, v := range legacyVersions {
		t.Run(string(v), func(t *testing.T) {
			p := oldPipe(t, srv, v)
			block := func(members string) string {
				return `{` + members + `,"annotations":{"audience":["user"]` + since(v, mcp.Version20250618, `,"lastModified":"2026-01-01T00:00:00Z"`) + `}` +
					since(v, mcp.Version20250618, `,"_meta":{"k":1}`) + `}`
			}
			audio := `"type":"text","text":"[audio, audio/wav, 2 bytes]"`
			if v.AtLeast(mcp.Version20250326) {
				audio = `"type":"audio","data":"AQI=","mimeType":"audio/wav"`
			}
			link := `"type":"text","text":"n: x:y"`
			if v.AtLeast(mcp.Version20250618) {
				link = `"type":"resource_link","uri":"x:y","name":"n","title":"T"` + since(v, mcp.Version20251125, `,"icons":[{"src":"data:,"}]`)
			}
			parts := `{"uri":"x:z","text":"z"` + since(v, mcp.Version20250618, `,"_meta":{"k":2}`) + `}`
			want := []string{`{"type":"text","text":"plain"}`, block(`"type":"text","text":"t"`),
				`{"type":"text","text":"dated","annotations":{` + since(v, mcp.Version20250618, `"lastModified":"2026-01-01T00:00:00Z"`) + `}}`,
				`{"type":"text","text":"meta"` + since(v, mcp.Version20250618, `,"_meta":{"k":4}`) + `}`,
				block(`"type":"image","data":"AQ==","mimeType":"image/png"`),
				block(audio), block(link), block(`"type":"resource","resource":` + parts)}
			require.JSONEq(t, result(1, `"content":[`+strings.Join(want, ",")+`],"_meta":{"r":3}`), p.ask(legacy(1, "tools/call", `"name":"x"`)))
			var messages []string
			for _, b := range want {
				messages = append(messages, fmt.Sprintf(`{"role":"user","content":%s}`, b))
			}
			require.JSONEq(t, result(1, `"description":"D","messages":[`+strings.Join(messages, ",")+`],"_meta":{"r":3}`), p.ask(legacy(1, "prompts/get", `"name":"x"`)))
			require.JSONEq(t, result(1, `"contents":[`+parts+`],"_meta":{"r":3}`), p.ask(legacy(1, "resources/read", uri("x:x"))))
		})
	}
	require.Equal(t, before, encoded(), "the handler's result is not the server's to change")
}

// The server introduces itself in the form of each revision.
func TestIntroductionToOlderClients(t *testing.T) {
	srv := newServer(t, server.WithTitle("T"), server.WithDescription("D"), server.WithWebsiteURL("https://example.com"),
		server.WithIcons(mcp.Icon{Src: "data:,"}))
	addCompleters(srv)
	for _, v := range legacyVersions {
		t.Run(string(v), func(t *testing.T) {
			// The revision counts that the two agree on, not the one in a header or of before.
			got := dial(t, srv).ask(legacy(1, "initialize", `"protocolVersion":"`+string(v)+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
			require.Contains(t, got, `"serverInfo":{"name":"test","version":"1"`+since(v, mcp.Version20250618, `,"title":"T"`)+
				since(v, mcp.Version20251125, `,"description":"D","websiteUrl":"https://example.com","icons":[{"src":"data:,"}]`)+`}`)
			require.Equal(t, v.AtLeast(mcp.Version20250326), strings.Contains(got, `"completions":{}`))
			require.Contains(t, got, `"prompts":{"listChanged":true}`)
		})
	}
	require.Contains(t, dial(t, srv).ask(modern(1, "server/discover", "")), `"websiteUrl"`, "and the server keeps it")
}

// A middleware may keep a result and answer with it again.
func TestSharedResultsAreNotChanged(t *testing.T) {
	prompt := &mcp.Prompt{Name: "p", Title: "T", Arguments: []mcp.PromptArgument{{Name: "a", Title: "A"}}}
	shared := &mcp.ListPromptsResult{Prompts: []*mcp.Prompt{prompt}}
	srv := newServer(t, server.WithMiddleware(func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			if req.Method == mcp.MethodPromptsList {
				return shared, nil
			}
			return next(ctx, req)
		}
	}))
	server.AddPrompt(srv, server.Prompt{Name: "p"}, say(""))
	require.NotContains(t, oldPipe(t, srv, mcp.Version20250326).ask(legacy(1, "prompts/list", "")), `"title"`)
	require.Same(t, prompt, shared.Prompts[0])
	require.Equal(t, "T", prompt.Title)
	require.Equal(t, "A", prompt.Arguments[0].Title)
}

package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// questions are all the things that need a capability of their own.
var questions = map[string]func(call *server.Call) error{
	"form": func(call *server.Call) error { _, err := call.Elicit("k", form("m", anyForm)); return err },
	"url": func(call *server.Call) error {
		_, err := call.Elicit("k", &mcp.ElicitParams{Mode: mcp.ElicitURL, Message: "m", URL: "https://x.test/"})
		return err
	},
	"several": func(call *server.Call) error {
		_, err := call.Elicit("k", form("m", `"v":{"type":"array","items":{"enum":["a"]}}`))
		return err
	},
	"sample": func(call *server.Call) error { _, err := call.Sample("k", sampling(nil, "")); return err },
	"tools": func(call *server.Call) error {
		_, err := call.Sample("k", sampling([]*mcp.Tool{{Name: "t", InputSchema: jsontext.Value(`{"type":"object"}`)}}, "none"))
		return err
	},
	"choice": func(call *server.Call) error {
		p := sampling(nil, "")
		p.ToolChoice = &mcp.ToolChoice{Mode: "none"}
		_, err := call.Sample("k", p)
		return err
	},
	"context": func(call *server.Call) error { _, err := call.Sample("k", sampling(nil, "thisServer")); return err },
	"roots":   func(call *server.Call) error { _, err := call.Roots("k"); return err },
}

func sampling(tools []*mcp.Tool, context string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{MaxTokens: 1, Tools: tools, IncludeContext: context,
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.ContentBlocks{&mcp.TextContent{Text: "x"}}}}}
}

// A client is asked only what it has declared. The words are the questions that are sent.
func TestDeclaredCapabilities(t *testing.T) {
	const all = allCapabilitiesJSON
	for name, tt := range map[string]struct{ version, caps, allowed string }{
		"nothing":                 {"2026-07-28", `{}`, ""},
		"all":                     {"2026-07-28", all, "form url several sample tools choice context roots"},
		"elicitation means forms": {"2026-07-28", `{"elicitation":{}}`, "form several"},
		"forms":                   {"2026-07-28", `{"elicitation":{"form":{}}}`, "form several"},
		"pages alone":             {"2026-07-28", `{"elicitation":{"url":{}}}`, "url"},
		"sampling":                {"2026-07-28", `{"sampling":{}}`, "sample"},
		"sampling with tools":     {"2026-07-28", `{"sampling":{"tools":{}}}`, "sample tools choice"},
		"sampling with context":   {"2026-07-28", `{"sampling":{"context":{}}}`, "sample context"},
		"roots":                   {"2026-07-28", `{"roots":{"listChanged":true}}`, "roots"},
		"null":                    {"2026-07-28", `{"roots":null,"sampling":null,"elicitation":null}`, ""},

		"all of 2025-11-25":         {"2025-11-25", all, "form url several sample tools choice context roots"},
		"sampling of 2025-11-25":    {"2025-11-25", `{"sampling":{}}`, "sample"},
		"elicitation of 2025-11-25": {"2025-11-25", `{"elicitation":{}}`, "form several"},
		"all of 2025-06-18":         {"2025-06-18", all, "form sample context roots"},
		"sampling of 2025-06-18":    {"2025-06-18", `{"sampling":{}}`, "sample context"},
		"all of 2025-03-26":         {"2025-03-26", all, "sample context roots"},
		"all of 2024-11-05":         {"2024-11-05", all, "sample context roots"},
		"nothing of 2025-11-25":     {"2025-11-25", `{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for q, ask := range questions {
				srv := newServer(t)
				server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
					if err := ask(call); errors.Is(err, mcp.ErrNotDeclared) {
						return "does without", nil
					} else if err != nil {
						return "", err
					}
					return "answered", nil
				})
				p := dial(t, srv)
				request := legacy
				if tt.version == "2026-07-28" {
					request = func(id any, method, params string) string {
						return strings.Replace(modern(id, method, params), `clientCapabilities":{}`, `clientCapabilities":`+tt.caps, 1)
					}
				} else {
					p.ask(legacy("init", "initialize", `"protocolVersion":"`+tt.version+`","capabilities":`+tt.caps+`,"clientInfo":{"name":"c","version":"1"}`))
					p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				}
				got := p.ask(request(1, "tools/call", call("t", `{}`)))
				if strings.Contains(" "+tt.allowed+" ", " "+q+" ") {
					require.Regexp(t, `"method":"(elicitation/create|sampling/createMessage|roots/list)"`, got, q)
				} else {
					require.Contains(t, got, `"does without"`, q)
				}
			}
		})
	}
}

// A handler that needs a capability returns the error, and the caller learns what is missing.
func TestRequiredCapabilities(t *testing.T) {
	srv := newServer(t)
	cannot := func(kinds ...string) func(call *server.Call) error {
		return func(call *server.Call) error {
			var all error
			for _, kind := range kinds {
				all = errors.Join(all, questions[kind](call))
			}
			return all
		}
	}
	for name, ask := range map[string]func(*server.Call) error{
		"sampling": cannot("sample"), "tools": cannot("tools"), "pages": cannot("url"), "forms": cannot("form"),
		"two": cannot("roots", "sample"), "own": func(*server.Call) error { return mcp.ErrNotDeclared },
		"half": cannot("form", "sample"),
	} {
		server.AddTool(srv, server.Tool{Name: name}, func(_ context.Context, call *server.Call, _ none) (string, error) { return "", ask(call) })
	}
	server.AddPrompt(srv, server.Prompt{Name: "p"}, func(_ context.Context, call *server.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
		return nil, questions["sample"](call)
	})

	t.Run("modern", func(t *testing.T) {
		url := listen(t, srv)
		for name, want := range map[string]string{
			"sampling": `{"sampling":{}}`, "tools": `{"sampling":{"tools":{}}}`, "pages": `{"elicitation":{"url":{}}}`,
			"forms": `{"elicitation":{"form":{}}}`, "two": `{"roots":{},"sampling":{}}`, "own": `{}`,
		} {
			res, body := exchange(t, "POST", url, modern(401, "tools/call", call(name, `{}`)),
				"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: "+name)
			require.Equal(t, http.StatusBadRequest, res.StatusCode)
			require.Contains(t, body, `"id":401`)
			require.Contains(t, body, `"code":-32021`)
			require.Contains(t, body, `"data":{"requiredCapabilities":`+want+`}`)
		}
		got := dial(t, srv).ask(strings.Replace(modern(1, "tools/call", call("half", `{}`)), `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{}}`, 1))
		require.Contains(t, got, `"requiredCapabilities":{"sampling":{}}`, "nothing is asked that leads nowhere")
		got = dial(t, srv).ask(strings.Replace(modern(1, "tools/call", call("forms", `{}`)), `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{},"roots":true}`, 1))
		require.Contains(t, got, `"method":"elicitation/create"`, "another capability has a wrong type")
	})
	t.Run("legacy", func(t *testing.T) {
		p := dial(t, srv)
		p.ask(legacy("init", "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		got := p.ask(legacy(1, "tools/call", call("tools", `{}`)))
		require.Contains(t, got, `"isError":true`)
		require.Contains(t, got, `the client has not declared this capability: sampling.tools`)
		got = p.ask(legacy(1, "prompts/get", `"name":"p"`))
		require.Contains(t, got, `"code":-32600`)
		require.Contains(t, got, `the client has not declared this capability: sampling`)
	})
}

// The same question in the form of each revision.
func TestQuestionsInTheFormOfEachRevision(t *testing.T) {
	ask := func(t *testing.T, version string, q func(call *server.Call) error) string {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "t"}, func(_ context.Context, call *server.Call, _ none) (string, error) { return "", q(call) })
		p := dial(t, srv)
		p.ask(legacy("init", "initialize", `"protocolVersion":"`+version+`",`+initializeAll))
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		return p.ask(legacy(1, "tools/call", call("t", `{}`)))
	}
	request := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	}
	t.Run("page", func(t *testing.T) {
		got := ask(t, "2025-11-25", questions["url"])
		require.Regexp(t, `"params":\{"mode":"url","message":"m","url":"https://x.test/","elicitationId":"[A-Z2-7]{26}"\}`, got)
	})
	t.Run("form", func(t *testing.T) {
		q := func(call *server.Call) error {
			_, err := call.Elicit("k", &mcp.ElicitParams{Mode: mcp.ElicitForm, Message: "m", ElicitationID: "mine", RequestedSchema: jsontext.Value(
				`{"type":"object","properties":{"z":{"type":"string","default":"d","title":"Z"},"b":{"type":"boolean","default":true},
				"a":{"type":"string","oneOf":[{"const":"x","title":"X"},{"const":"y","title":"Y"}]}},"required":["z"]}`)})
			return err
		}
		require.Equal(t, request("elicitation/create", `{"message":"m","requestedSchema":{"type":"object","properties":{"z":{"type":"string","default":"d","title":"Z"},"b":{"type":"boolean","default":true},"a":{"type":"string","oneOf":[{"const":"x","title":"X"},{"const":"y","title":"Y"}]}},"required":["z"]}}`),
			ask(t, "2025-11-25", q))
		got := ask(t, "2025-06-18", q)
		require.JSONEq(t, request("elicitation/create", `{"message":"m","requestedSchema":{"type":"object","properties":{"z":{"type":"string","title":"Z"},"b":{"type":"boolean","default":true},"a":{"type":"string","enum":["x","y"],"enumNames":["X","Y"]}},"required":["z"]}}`), got)
		require.Less(t, strings.Index(got, `"z":`), strings.Index(got, `"a":`), "the order of the form stays")
	})
	t.Run("messages", func(t *testing.T) {
		q := func(call *server.Call) error {
			p := sampling(nil, "")
			p.Messages[0].Content = mcp.ContentBlocks{&mcp.TextContent{Text: "a"}, &mcp.AudioContent{MIMEType: "audio/wav"}}
			_, err := call.Sample("k", p)
			return err
		}
		require.JSONEq(t, request("sampling/createMessage", `{"maxTokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"audio","data":"","mimeType":"audio/wav"}]}]}`),
			ask(t, "2025-11-25", q))
		require.JSONEq(t, request("sampling/createMessage", `{"maxTokens":1,"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"[audio, audio/wav, 0 bytes]"}}]}`),
			ask(t, "2024-11-05", q))
	})
	t.Run("roots", func(t *testing.T) {
		require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`, ask(t, "2025-06-18", questions["roots"]))
	})
}

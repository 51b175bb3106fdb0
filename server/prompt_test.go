package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// say is a prompt handler that ignores its call and says s.
func say(s string) server.PromptHandler {
	return func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
		return mcp.PromptText(s), nil
	}
}

// prompt is the members of the params of a prompts/get.
func prompt(name, arguments string) string {
	return fmt.Sprintf(`"name":%q,"arguments":%s`, name, arguments)
}

// userText is the members of a result of prompts/get with one text.
func userText(s string) string {
	return fmt.Sprintf(`"messages":[{"role":"user","content":{"type":"text","text":%q}}]`, s)
}

// oldPipe is a connection of a legacy client.
func oldPipe(t *testing.T, srv *server.Server, version mcp.Version) *rawPipe {
	t.Helper()
	p := dial(t, srv)
	p.initialize(string(version))
	return p
}

func TestPromptArguments(t *testing.T) {
	srv := newServer(t)
	server.AddPrompt(srv, server.Prompt{Name: "greet", Arguments: []server.PromptArgument{
		{Name: "tone"}, {Name: "name", Required: true}, {Name: "city", Required: true},
	}}, func(_ context.Context, _ *server.Call, args map[string]string) (*mcp.GetPromptResult, error) {
		args["own"] = "x" // never nil, and its own
		return mcp.PromptText(fmt.Sprint(args)), nil
	})
	server.AddPrompt(srv, server.Prompt{Name: "plain"},
		func(_ context.Context, _ *server.Call, args map[string]string) (*mcp.GetPromptResult, error) {
			args["own"] = "x"
			return mcp.PromptText(fmt.Sprint(args)), nil
		})
	const notStrings = "params.arguments must be an object whose members are strings"
	for _, tt := range []struct{ name, params, want, fault string }{
		{"all", prompt("greet", `{"name":"A","city":"B","tone":"c"}`), "map[city:B name:A own:x tone:c]", ""},
		{"required", prompt("greet", `{"city":"","name":"ü"}`), "map[city: name:ü own:x]", ""},
		{"more than it knows", prompt("plain", `{"z":"1"}`), "map[own:x z:1]", ""},
		{"none", `"name":"plain"`, "map[own:x]", ""},
		{"empty", prompt("plain", `{}`), "map[own:x]", ""},

		{"all missing at once", `"name":"greet"`, "", `missing required arguments: "name", "city"`},
		{"one missing", prompt("greet", `{"name":"A","tone":"c"}`), "", `missing required arguments: "city"`},
		{"names are case-sensitive", prompt("greet", `{"name":"A","City":"c"}`), "", `missing required arguments: "city"`},
		{"number", prompt("greet", `{"name":"A","city":1}`), "", notStrings},
		{"null value", prompt("greet", `{"name":"A","city":null}`), "", notStrings},
		{"object value", prompt("plain", `{"a":{}}`), "", notStrings},
		{"null", prompt("plain", `null`), "", notStrings},
		{"array", prompt("plain", `[]`), "", notStrings},
		{"string", prompt("plain", `"a"`), "", notStrings},
		{"unknown prompt", prompt("nope", `{}`), "", `there is no prompt "nope"`},
		{"no name", `"arguments":{}`, "", "params.name is missing"},
		{"name of a wrong type", `"name":7`, "", "params.name is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := func(rest string) string {
				if tt.fault != "" {
					return failure(1, -32602, tt.fault)
				}
				return result(1, userText(tt.want)+rest)
			}
			require.JSONEq(t, want(","+serverMeta), dial(t, srv).ask(modern(1, "prompts/get", tt.params)))
			require.JSONEq(t, want(""), oldPipe(t, srv, mcp.Version20241105).ask(legacy(1, "prompts/get", tt.params)))
		})
	}
}

func TestPromptFailures(t *testing.T) {
	internal := failure(1, -32603, "internal error")
	message := func(m ...mcp.PromptMessage) func() (*mcp.GetPromptResult, error) {
		return func() (*mcp.GetPromptResult, error) { return &mcp.GetPromptResult{Messages: m}, nil }
	}
	for _, tt := range []struct {
		name string
		h    func() (*mcp.GetPromptResult, error)
		want string // without it, a result
	}{
		{"protocol error", func() (*mcp.GetPromptResult, error) { return nil, mcp.NewError(-31000, "no") }, failure(1, -31000, "no")},
		{"wrapped", func() (*mcp.GetPromptResult, error) {
			return nil, fmt.Errorf("secret: %w", mcp.NewError(-31000, "no"))
		}, failure(1, -31000, "no")},
		{"any other", func() (*mcp.GetPromptResult, error) { return nil, errors.New("secret") }, internal},
		{"panic", func() (*mcp.GetPromptResult, error) { panic("secret") }, internal},
		{"nothing", func() (*mcp.GetPromptResult, error) { return nil, nil }, internal},
		{"no content", message(mcp.PromptMessage{Role: mcp.RoleUser}), internal},
		{"no role", message(mcp.PromptMessage{Content: &mcp.TextContent{}}), internal},
		{"system role", message(mcp.PromptMessage{Role: "system", Content: &mcp.TextContent{}}), internal},
		{"no messages", message(), ""},
		{"assistant", message(mcp.PromptMessage{Role: mcp.RoleAssistant, Content: &mcp.TextContent{}}), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			logs := &logRecorder{}
			srv := newServer(t, server.WithLogger(slog.New(logs)))
			server.AddPrompt(srv, server.Prompt{Name: "x"},
				func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return tt.h() })
			got := dial(t, srv).ask(modern(1, "prompts/get", `"name":"x"`))
			if tt.want == "" {
				require.Contains(t, got, `"messages":[`)
				return
			}
			require.JSONEq(t, tt.want, got)
			require.JSONEq(t, tt.want, oldPipe(t, srv, mcp.Version20251125).ask(legacy(1, "prompts/get", `"name":"x"`)))
			if tt.want == internal && tt.name != "panic" {
				require.Len(t, logs.find("handler.error"), 2)
			}
		})
	}
}

func TestPromptRegistrationErrors(t *testing.T) {
	srv := newServer(t)
	server.AddPrompt(srv, server.Prompt{Name: "taken"}, say(""))
	noMiddleware := []middleware.Middleware{nil}
	for _, tt := range []struct {
		name   string
		prompt server.Prompt
		h      server.PromptHandler
		want   string
	}{
		{"no name", server.Prompt{}, say(""), "must have 1 to 128 bytes"},
		{"long name", server.Prompt{Name: strings.Repeat("a", 129)}, say(""), "must have 1 to 128 bytes"},
		{"control character", server.Prompt{Name: "a\nb"}, say(""), `"a\nb": the name has a character that cannot be printed`},
		{"not UTF-8", server.Prompt{Name: "a\xff"}, say(""), "has a character that cannot be printed"},
		{"no handler", server.Prompt{Name: "x"}, nil, `prompt "x": the handler is nil`},
		{"nil middleware", server.Prompt{Name: "x", Middleware: noMiddleware}, say(""), `prompt "x": a middleware is nil`},
		{"argument without a name", server.Prompt{Name: "x", Arguments: []server.PromptArgument{{}}}, say(""), `an argument is named ""`},
		{"argument twice", server.Prompt{Name: "x", Arguments: []server.PromptArgument{{Name: "a"}, {Name: "a"}}}, say(""), `an argument is named "a"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, server.TryAddPrompt(srv, tt.prompt, tt.h), tt.want)
			require.Panics(t, func() { server.AddPrompt(srv, tt.prompt, tt.h) })
		})
	}
	require.NoError(t, server.TryAddPrompt(srv, server.Prompt{Name: "Plan a trip, süß"}, say("")))
	prompts, err := servertest.Connect(t, srv).ListPrompts(t.Context())
	require.NoError(t, err)
	require.Len(t, prompts, 2, "what was refused is not there")
}

// The name of a removed prompt can be used again.
func TestRemovePrompts(t *testing.T) {
	srv := newServer(t)
	server.AddPrompt(srv, server.Prompt{Name: "a"}, say("1"))
	server.AddPrompt(srv, server.Prompt{Name: "b"}, say("2"))
	client := servertest.Connect(t, srv)
	srv.RemovePrompts("a", "nope")
	_, err := client.GetPrompt(t.Context(), "a", nil)
	require.Equal(t, mcp.NewError(mcp.CodeInvalidParams, `there is no prompt "a"`), err)
	srv.RemovePrompts("b")
	prompts, err := client.ListPrompts(t.Context())
	require.NoError(t, err, "the feature is there once it was")
	require.Empty(t, prompts)
	server.AddPrompt(srv, server.Prompt{Name: "a"}, say("3"))
	got, err := client.GetPrompt(t.Context(), "a", nil)
	require.NoError(t, err)
	require.Equal(t, mcp.PromptText("3").Messages, got.Messages)
}

// Middlewares wrap a prompt as they wrap a tool, and its name is a label.
func TestPromptMiddleware(t *testing.T) {
	j := &journal{}
	srv := newServer(t, server.WithMiddleware(j.middleware("a")))
	j.take()
	server.AddPrompt(srv, server.Prompt{Name: "x", Middleware: []middleware.Middleware{j.middleware("p")}},
		func(_ context.Context, call *server.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
			j.add("handler of " + call.Route.Target)
			return mcp.PromptText(""), nil
		})
	require.Equal(t, []string{"build p", "build a"}, j.take())
	client := servertest.Connect(t, srv)
	_, err := client.GetPrompt(t.Context(), "x", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"a before", "p before", "handler of x", "p after", "a after"}, j.take())
	_, err = client.GetPrompt(t.Context(), "nope", nil)
	require.Error(t, err)
	require.Equal(t, []string{"a before", "a after"}, j.take())
}

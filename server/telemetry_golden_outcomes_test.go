package server_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

const clientInfo = `"io.modelcontextprotocol/clientInfo":{"name":"tester","version":"1.2"}`

func echo(id any, meta ...string) string {
	return modern(id, "tools/call", call("echo", `{}`), meta...)
}

// outcomeScenes are the requests that nobody disturbs.
func outcomeScenes() []scene {
	return []scene{{
		title: "success, modern, in memory", about: "A tools/call of a modern client, answered.",
		play: func(s *stage) {
			require.Contains(s.t, s.pipe().ask(echo(1, clientInfo)), "hello")
		},
	}, {
		title: "success, modern, over HTTP", about: "The same over HTTP: the connection is on the span.",
		play: func(s *stage) {
			require.Equal(s.t, 200, s.web().call("echo").status)
		},
	}, {
		title: "success, legacy, in memory",
		about: "Handshake and tools/call of a legacy client. A pipe has no session id. Later scenes leave the handshake out.",
		play: func(s *stage) {
			p := s.pipe()
			p.shake()
			require.Contains(s.t, p.ask(legacy(1, "tools/call", call("echo", `{}`))), "hello")
		},
	}, {
		title: "success, legacy, over HTTP", about: "The same over HTTP, with the id of the session, which is deleted at the end.",
		play: func(s *stage) {
			w := s.web()
			sid := w.shake()
			require.Contains(s.t, w.do("POST", legacy(1, "tools/call", call("echo", `{}`)), sid).body, "hello")
			require.Equal(s.t, 204, w.do("DELETE", "", sid).status)
		},
	}, {
		title: "through a proxy", about: "What a trusted proxy says of the way of a request, and the client's address instead of the proxy's.",
		play: func(s *stage) {
			trusting := func(http.Handler) http.Handler { return s.srv.Handler(server.WithTrustedProxies("192.0.2.7")) }
			require.Equal(s.t, 200, s.web(trusting).call("echo", "Via: 1.1 gateway", "X-Forwarded-For: 198.51.100.3").status)
		},
	}, {
		title: "with a middleware", about: "The span says how long the request was in the middleware, and how long in the handler.",
		options: []server.Option{server.WithMiddleware(pausing(2*time.Second, time.Second))},
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "slow"}, func(ctx context.Context, call *server.Call, in none) (string, error) {
				return sleep(4*time.Second)(ctx, call, in)
			})
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("slow", `{}`))), "done")
		},
	}, {
		title: "prompts/get", about: "The name of a registered prompt is in the name of the span.",
		play: func(s *stage) {
			server.AddPrompt(s.srv, server.Prompt{Name: "greet"}, say("hello"))
			require.Contains(s.t, s.pipe().ask(modern(1, "prompts/get", `"name":"greet"`)), "hello")
		},
	}, {
		title: "resources/read", about: "The URI is an attribute and neither in the name of the span nor in a label.",
		play: func(s *stage) {
			server.AddStaticResource(s.srv, server.Resource{URI: "test://a", Name: "a"}, "hello")
			require.Contains(s.t, s.pipe().ask(modern(1, "resources/read", uri("test://a"))), "hello")
		},
	}, {
		title: "lists and completion", about: "What has no target: server/discover, the lists, completion/complete.",
		play: func(s *stage) {
			server.AddPrompt(s.srv, server.Prompt{Name: "greet", Arguments: []server.PromptArgument{
				{Name: "name", Complete: server.CompleteFrom("Ada")}}}, say("hello"))
			server.AddStaticResource(s.srv, server.Resource{URI: "test://a", Name: "a"}, "hello")
			p := s.pipe()
			for _, method := range []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
				require.Contains(s.t, p.ask(modern(1, method, "")), `"result"`)
			}
			require.Contains(s.t, p.ask(modern(2, "completion/complete", completion(promptRef("greet"), argument("name", "A")))), "Ada")
		},
	}, {
		title: "legacy methods, and a client's progress", about: "ping and logging/setLevel. Progress that the client reports is a notification.",
		play: func(s *stage) {
			p := s.old()
			require.Contains(s.t, p.ask(legacy(1, "ping", "")), `"result"`)
			require.Contains(s.t, p.ask(legacy(2, "logging/setLevel", `"level":"debug"`)), `"result"`)
			p.send(notification("notifications/progress", `"progressToken":1,"progress":1`))
		},
	}, {
		title: "tool error", about: "A tool reports an error to the model: isError, and an error of the service.",
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "fail"}, func(context.Context, *server.Call, none) (string, error) {
				return "", errors.New("the city is not known")
			})
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("fail", `{}`))), `"isError":true`)
		},
	}, {
		title: "private error", about: "What is no answer for the caller is on the span, and the caller learns nothing of it.",
		play: func(s *stage) {
			server.AddPrompt(s.srv, server.Prompt{Name: "fail"},
				func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
					return nil, errors.New("the database password is wrong")
				})
			require.Regexp(s.t, `"message":"internal error; its operator can look it up by the trace id [0-9a-f]{32}"`,
				s.pipe().ask(modern(1, "prompts/get", `"name":"fail"`)))
		},
	}, {
		title: "panic", about: "The handler panics: contained, answered as an internal error, with the stack on the span.",
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "panic"}, func(context.Context, *server.Call, none) (string, error) {
				panic("out of cheese")
			})
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("panic", `{}`))), "-32603")
		},
	}, {
		title: "Goexit", about: "The handler ends its goroutine: the same as a panic.",
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "exit"}, func(context.Context, *server.Call, none) (string, error) {
				runtime.Goexit()
				return "", nil
			})
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("exit", `{}`))), "-32603")
		},
	}}
}

package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// The contexts of callers.
const (
	callerParent = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01"
	proxyParent  = "00-cccccccccccccccccccccccccccccccc-dddddddddddddddd-01"
	fromCaller   = `"traceparent":"` + callerParent + `"`
)

// parentScenes are the ways in which a caller names the span above.
func parentScenes() []scene {
	return []scene{{
		title: "parent from _meta", about: "The trace context in params._meta is the parent.",
		play: func(s *stage) { s.pipe().ask(echo(1, fromCaller)) },
	}, {
		title: "parent from _meta, of a notification", about: "Notifications have a parent as well.",
		play: func(s *stage) {
			s.old().send(notification("notifications/roots/list_changed", `"_meta":{`+fromCaller+`}`))
		},
	}, {
		title: "ambient span", about: "Without _meta the span of the HTTP server around the endpoint is the parent.",
		play: func(s *stage) { s.web(s.ambient).call("echo") },
	}, {
		title: "ambient span and _meta", about: "With both the ambient span is linked.",
		play: func(s *stage) {
			s.web(s.ambient).do("POST", echo(1, fromCaller), modernHeaders("tools/call", "echo")...)
		},
	}, {
		title: "traceparent header", about: "Without an ambient span the HTTP header is the parent.",
		play: func(s *stage) { s.web().call("echo", "Traceparent: "+proxyParent) },
	}, {
		title: "traceparent header and _meta", about: "With both the header is linked.",
		play: func(s *stage) {
			s.web().do("POST", echo(1, fromCaller), append(modernHeaders("tools/call", "echo"), "Traceparent: "+proxyParent)...)
		},
	}, {
		title: "untrusted parent", about: "A context of a stranger is linked, and the span begins a trace of its own.",
		telemetry: []telemetry.Option{telemetry.WithUntrustedParents()},
		play:      func(s *stage) { s.pipe().ask(echo(1, fromCaller)) },
	}, {
		title: "untrusted parent and ambient span", about: "Both are linked.",
		telemetry: []telemetry.Option{telemetry.WithUntrustedParents()},
		play: func(s *stage) {
			s.web(s.ambient).do("POST", echo(1, fromCaller), append(modernHeaders("tools/call", "echo"), "Traceparent: "+proxyParent)...)
		},
	}, {
		title: "untrusted header", about: "The HTTP header of a stranger is linked too.",
		telemetry: []telemetry.Option{telemetry.WithUntrustedParents()},
		play:      func(s *stage) { s.web().call("echo", "Traceparent: "+proxyParent) },
	}, {
		title: "arguments and results", about: "What a tool is given and returns is on its span only if that was asked for.",
		telemetry: []telemetry.Option{telemetry.WithArguments(nil), telemetry.WithResults(nil)},
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "shout"}, func(_ context.Context, _ *server.Call, in struct {
				What string `json:"what"`
			}) (string, error) {
				return strings.ToUpper(in.What), nil
			})
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("shout", `{"what":"hi"}`))), "HI")
		},
	}}
}

// ambient is the instrumentation that others put around an endpoint.
func (s *stage) ambient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := s.provider.Tracer("around the endpoint").Start(r.Context(), "POST /mcp", trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// errorScenes are the errors that a request can be answered with.
func errorScenes() []scene {
	old := func(s *stage) line { return s.old() }
	return []scene{{
		title: "parse error", about: "A frame that is no JSON (-32700): there is no request, and so no span.",
		play: func(s *stage) {
			require.Contains(s.t, s.pipe().ask(`{"jsonrpc":`), "-32700")
			require.Equal(s.t, 400, s.web().do("POST", `{"jsonrpc":`).status)
		},
	}, {
		title: "no request", about: "JSON that is no message (-32600): no span either.",
		play: func(s *stage) { require.Contains(s.t, s.pipe().ask(`{"jsonrpc":"1.0","id":1,"method":"x"}`), "-32600") },
	}, {
		title: "invalid request", about: "A second initialize (-32600) is the caller's fault.",
		play: func(s *stage) {
			require.Contains(s.t, old(s).ask(legacy(2, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},`+
				`"clientInfo":{"name":"old","version":"9"}`)), "-32600")
		},
	}, {
		title: "unknown method", about: "Its name is on the wire only: in spans and labels it is _OTHER.",
		play: func(s *stage) {
			require.Contains(s.t, s.pipe().ask(modern(1, "no/such/<script>", `"name":"hostile"`)), "-32601")
		},
	}, {
		title: "unknown notification", about: "The same for a notification, which has no answer.",
		play: func(s *stage) { s.pipe().send(notification("notifications/<script>", "")) },
	}, {
		title: "method of another era", about: "ping is no method of the modern era (-32601), but a known one: it has its name.",
		play: func(s *stage) { require.Contains(s.t, s.pipe().ask(modern(1, "ping", "")), "-32601") },
	}, {
		title: "unknown tool", about: "-32602; the name of the tool is neither in the name of the span nor in a label.",
		play: func(s *stage) {
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("hostile", `{}`))), "-32602")
		},
	}, {
		title: "unknown prompt", about: "The same for a prompt.",
		play: func(s *stage) {
			server.AddPrompt(s.srv, server.Prompt{Name: "greet"}, say("hello"))
			require.Contains(s.t, s.pipe().ask(modern(1, "prompts/get", `"name":"hostile"`)), "-32602")
		},
	}, {
		title: "arguments against the schema", about: "The model is told what is wrong, as an error of the tool (isError).",
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "strict"}, func(context.Context, *server.Call, struct {
				N int `json:"n"`
			}) (string, error) {
				return "", nil
			})
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("strict", `{"n":"one"}`))), `"isError":true`)
		},
	}, {
		title: "arguments against the Go type", about: "What the type says of a value may repeat it, and is for the model alone.",
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "ping"}, func(context.Context, *server.Call, struct {
				Addr netip.Addr `json:"addr"`
			}) (string, error) {
				return "", nil
			})
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("ping", `{"addr":"hostile"}`))), "hostile")
		},
	}, {
		title: "invalid params", about: "A modern request without its metadata (-32602).",
		play: func(s *stage) {
			require.Contains(s.t, s.pipe().ask(legacy(1, "tools/list",
				`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)), "-32602")
		},
	}, {
		title: "resource not found, legacy", about: "-32002.",
		play: func(s *stage) {
			server.AddStaticResource(s.srv, server.Resource{URI: "test://a", Name: "a"}, "hello")
			require.Contains(s.t, old(s).ask(legacy(1, "resources/read", uri("test://missing"))), "-32002")
		},
	}, {
		title: "resource not found, modern", about: "-32602.",
		play: func(s *stage) {
			server.AddStaticResource(s.srv, server.Resource{URI: "test://a", Name: "a"}, "hello")
			require.Contains(s.t, s.pipe().ask(modern(1, "resources/read", uri("test://missing"))), "-32602")
		},
	}, {
		title: "header mismatch", about: "A header contradicts the body (-32020).",
		play: func(s *stage) {
			require.Contains(s.t, s.web().do("POST", echo(1), modernHeaders("tools/call", "other")...).body, "-32020")
		},
	}, {
		title: "missing capability", about: "A tool asks what the client has not declared (-32021).",
		play: func(s *stage) {
			addTwo(s.srv)
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("two", `{}`))), "-32021")
		},
	}, {
		title: "pages to open first", about: "-32042, of 2025-11-25 alone: the client has to do something, and nobody is at fault.",
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "private"}, func(context.Context, *server.Call, none) (string, error) {
				return "", signIn(signInPage("a"))
			})
			p := s.pipe()
			p.ask(legacy(1, "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
			p.send(notice("notifications/initialized", ""))
			s.forget()
			require.Contains(s.t, p.ask(legacy(1, "tools/call", call("private", `{}`))), "-32042")
		},
	}, {
		title: "unsupported version", about: "-32022. The revision is on the span as it came, and as a label it is _OTHER.",
		play: func(s *stage) {
			require.Contains(s.t, s.pipe().ask(strings.Replace(echo(1), "2026-07-28", "2031-01-01", 1)), "-32022")
		},
	}, {
		title: "error of an application", about: "A code that the handler has chosen: the span has it, the label is _OTHER.",
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "broke"}, func(context.Context, *server.Call, none) (string, error) {
				return "", mcp.NewError(4711, "out of money")
			})
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("broke", `{}`))), "4711")
		},
	}, {
		title: "result that cannot be encoded", about: "The handler has returned, and its result fails: -32603.",
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "odd"},
				func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{ResultMeta: mcp.ResultMeta{Meta: mcp.Meta{"x": func() {}}}}, nil
				})
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/call", call("odd", `{}`))), "-32603")
		},
	}, {
		title: "cancelled over legacy HTTP", about: "The exchange has to end: with -32800, which counts as sent.",
		play: func(s *stage) {
			s.hold("wait")
			w := s.web()
			sid := w.session()
			a := w.start("POST", legacy(1, "tools/call", call("wait", `{}`)), sid)
			w.do("POST", cancelled(1), sid)
			require.Contains(s.t, a.wait().body, "-32800")
		},
	}}
}

// rejectionScenes are the requests that are answered without having been admitted.
func rejectionScenes() []scene {
	return []scene{{
		title: "duplicate_id", about: "The id of a request that is in flight. The first one is not disturbed.",
		play: func(s *stage) {
			release := s.hold("wait")
			p := s.pipe()
			p.send(modern(1, "tools/call", call("wait", `{}`)))
			require.Contains(s.t, p.ask(echo(1)), "duplicate_id")
			close(release)
			require.Contains(s.t, p.recv(), "released")
		},
	}, {
		title: "overload", about: "The queue is full: the server's fault.",
		limits: server.Limits{MaxInFlight: 1, MaxQueue: 1},
		play: func(s *stage) {
			release := s.hold("wait")
			p := s.pipe()
			p.send(modern(1, "tools/call", call("wait", `{}`)), echo(2))
			require.Contains(s.t, p.ask(echo(3)), "max_queue")
			later()
			close(release)
			require.Contains(s.t, p.recv()+p.recv(), "released")
		},
	}, {
		title: "overload, of sessions", about: "A legacy session too many over HTTP.", limits: server.Limits{MaxSessions: 1},
		play: func(s *stage) {
			s.hold("wait")
			w := s.web()
			a := w.start("POST", legacy(1, "tools/call", call("wait", `{}`)), w.session())
			require.Equal(s.t, 429, w.do("POST", legacy(1, "initialize",
				`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"old","version":"9"}`)).status)
			a.drop()
			s.shutdown(time.Second)
		},
	}, {
		title: "shutting_down", about: "A request that comes during the drain: the server's fault.",
		play: func(s *stage) {
			release := s.hold("wait")
			p, w := s.pipe(), s.web()
			p.send(modern(1, "tools/call", call("wait", `{}`)))
			defer s.drain()()
			require.Contains(s.t, p.ask(echo(2)), "shutting_down")
			require.Equal(s.t, 503, w.call("echo").status)
			close(release)
			require.Contains(s.t, p.recv(), "released")
		},
	}, {
		title: "not_initialized", nameless: true, about: "A legacy request before the handshake, on a pipe and over HTTP without a session.",
		play: func(s *stage) {
			require.Contains(s.t, s.pipe().ask(legacy(1, "tools/list", "")), "not initialized")
			require.Equal(s.t, 400, s.web().do("POST", legacy(1, "tools/list", "")).status)
		},
	}, {
		title: "era_forbidden", nameless: true, about: "A legacy request to a server of the modern era alone.",
		options: []server.Option{server.WithEras(mcp.Modern)},
		play: func(s *stage) {
			require.Contains(s.t, s.pipe().ask(legacy(1, "tools/list", "")), "does not serve legacy clients")
			require.Equal(s.t, 400, s.web().do("POST", legacy(1, "tools/list", "")).status)
		},
	}, {
		title: "session_unknown", about: "A session that never was, or is no more.",
		play: func(s *stage) {
			require.Equal(s.t, 404, s.web().do("POST", legacy(1, "tools/list", ""), "Mcp-Session-Id: gone").status)
		},
	}, {
		title: "too_large", about: "A frame that is too long: there is no request, and so no span.",
		limits: server.Limits{MaxFrameBytes: 500},
		play: func(s *stage) {
			long := fmt.Sprintf(`"x":%q`, strings.Repeat("x", 500))
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/list", long)), "max_frame_bytes")
			require.Equal(s.t, 413, s.web().do("POST", modern(1, "tools/list", long), modernHeaders("tools/list", "")...).status)
		},
	}, {
		title: "parse_error", about: "What is no JSON is rejected without a span (see parse error).",
		play: func(s *stage) { require.Contains(s.t, s.pipe().ask(`}`), "-32700") },
	}, {
		title: "refused", nameless: true, about: "A rule of admission lets the request not in: no fault of the service, in either era.",
		options: []server.Option{server.WithAdmission(func(context.Context, *middleware.Request) error {
			return &mcp.Refusal{Status: 429, Reason: "quota", By: "rule", Message: "come back later", RetryAfter: 1500 * time.Millisecond}
		})},
		play: func(s *stage) {
			require.Contains(s.t, s.pipe().ask(modern(1, "tools/list", "")), `"code":429`)
			require.Equal(s.t, 429, s.web().do("POST", modern(1, "tools/list", ""), modernHeaders("tools/list", "")...).status)
			require.Equal(s.t, 429, s.web().do("POST", legacy(1, "initialize", "")).status)
		},
	}, {
		title: "denied, need_scopes", nameless: true, about: "A policy hides one tool and demands a scope for another: no fault of the service. Operators see the hidden tool.",
		options: []server.Option{server.WithPolicy(auth.PolicyFunc(func(_ context.Context, _ *auth.Principal, op *auth.Operation) auth.Decision {
			if op.Name == "hidden" {
				return auth.Decision{Effect: auth.Deny, Rule: "hides"}
			}
			return auth.Decision{Effect: auth.NeedScopes, Scopes: []string{"echo"}, Rule: "demands"}
		}))},
		play: func(s *stage) {
			server.AddTool(s.srv, server.Tool{Name: "hidden"}, text("hello"))
			w := s.web()
			require.Contains(s.t, w.call("hidden").body, "there is no tool")
			require.Equal(s.t, 401, w.call("echo").status)
		},
	}, {
		title: "queued", about: "Two tools share a class that lets one handler run: the second call waits for the first one.",
		play: func(s *stage) {
			class := server.NewClass("one", 1)
			first := s.deaf(server.Tool{Name: "first", Class: class})
			close(s.deaf(server.Tool{Name: "second", Class: class}))
			p := s.pipe()
			p.send(modern(1, "tools/call", call("first", `{}`)), modern(2, "tools/call", call("second", `{}`)))
			time.Sleep(3 * time.Second)
			close(first)
			p.recv()
			p.recv()
		},
	}, {
		title: "refused for lack of a class", about: "One handler of a class runs, one request waits for it, and there is no place in the queue for a third.",
		limits: server.Limits{MaxQueue: 1},
		play: func(s *stage) {
			release := s.deaf(server.Tool{Name: "first", Class: server.NewClass("one", 1)})
			p := s.pipe()
			p.send(modern(1, "tools/call", call("first", `{}`)), modern(2, "tools/call", call("first", `{}`)))
			require.Contains(s.t, p.ask(modern(3, "tools/call", call("first", `{}`))), `"class":{"name":"one"`)
			close(release)
			p.recv()
			p.recv()
		},
	}}
}

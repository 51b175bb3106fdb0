package mcpgo_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/adapttest"
)

// A call has a span that follows the conventions, is counted, and is in /debug/traces.
func TestCallIsRecorded(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		result, err := wire.connect(w).CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{
			Name: "add", Arguments: numbers{2, 3}, Meta: mcp.NewMetaFromMap(map[string]any{
				"traceparent": adapttest.TraceParent,
			}),
		}})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"sum": 5.0}, result.StructuredContent)
		w.Recorded(wire.transport, wire.version)
	})
}

// The name of a prompt is in the span's name. The URI of a resource is an attribute only.
func TestPromptAndResourceAreRecorded(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		c := wire.connect(w)
		_, err := c.GetPrompt(t.Context(), mcp.GetPromptRequest{Params: mcp.GetPromptParams{Name: "greet"}})
		require.NoError(t, err)
		require.Equal(t, "greet", w.Span("prompts/get greet").Attributes["gen_ai.prompt.name"])

		_, err = read(t, c, "note://2")
		require.Error(t, err)
		span := w.Span("resources/read")
		require.Equal(t, "note://2", span.Attributes["mcp.resource.uri"])
		require.Equal(t, "-32603", span.Attributes["error.type"])
		require.Contains(t, span.Events, "exception", "the handler's own error")

		_, err = read(t, c, "note://3")
		require.Error(t, err)
		require.NotContains(t, w.Span("resources/read").Attributes, "error.type", "the handler says whose fault it is")

		_, err = c.ListTools(t.Context(), mcp.ListToolsRequest{})
		require.NoError(t, err)
		w.Span("tools/list")
	})
}

func read(t *testing.T, c *client.Client, uri string) (*mcp.ReadResourceResult, error) {
	t.Helper()
	return c.ReadResource(t.Context(), mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: uri}})
}

// A tool that fails is counted as an error, and the operator gets the handler's own error.
func TestToolErrorIsRecorded(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		c := wire.connect(w)
		result, err := call(t, c, "broken", nil)
		require.NoError(t, err)
		require.True(t, result.IsError)
		require.Equal(t, "tool_error", w.Span("tools/call broken").Attributes["error.type"])
		require.Equal(t, "tool_error", w.Ended("tools/call").ErrorType)

		_, err = call(t, c, "fail", nil)
		require.ErrorContains(t, err, "no such table", "mcp-go answers with its handlers' errors")
		span := w.Span("tools/call fail")
		require.Equal(t, "-32603", span.Attributes["error.type"])
		require.Contains(t, span.Events, "exception")
	})
}

// The name of an unregistered tool is no label.
func TestUnknownToolIsNoLabel(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		_, err := call(t, wire.connect(w), "made up by a stranger", nil)
		require.Error(t, err)
		require.NotContains(t, w.Span("tools/call").Attributes, "error.type", "it is the caller's fault")
		require.Equal(t, 1.0, w.Metric("mcp_server_operation_duration_seconds", adapttest.Labels{
			"mcp_method_name": "tools/call", "gen_ai_tool_name": "", "rpc_response_status_code": "-32602",
		}))
	})
}

// A method that the server does not have is recorded, but is no label.
func TestUnknownMethodIsNoLabel(t *testing.T) {
	w := newWorld(t)
	url := w.serveHTTP()
	exchange(t, url, initialize(t, url), `{"jsonrpc":"2.0","id":2,"method":"made/up","params":{}}`)
	require.Equal(t, 1.0, w.Metric("mcp_server_operation_duration_seconds", adapttest.Labels{
		"mcp_method_name": "_OTHER", "error_type": "", "rpc_response_status_code": "-32601",
	}))
}

// A running call is in /debug/requests.
func TestRunningCallIsShown(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		_, done := w.goWait(wire.connect(w))
		w.Running(wire.transport, done)
	})
}

// The console gets the requests that run and those that have ended.
func TestConsoleIsFed(t *testing.T) {
	w := newWorld(t)
	c := wires()[1].connect(w)
	_, err := call(t, c, "add", numbers{1, 2})
	require.NoError(t, err)
	_, done := w.goWait(c)
	w.Fed(done)
}

// A legacy session is shown while it is open, and counted with the reason for its end.
func TestSessionIsRecorded(t *testing.T) {
	for _, c := range []struct {
		wire  wire
		cause string
	}{{wires()[0], "session_delete"}, {wires()[2], "transport_close"}} {
		t.Run(c.wire.name, func(t *testing.T) {
			w := newWorld(t)
			connected := c.wire.connect(w)
			w.Eventually(func() bool {
				_, _, sessions := w.Live()
				return len(sessions) == 1 && sessions[0].Client == "tester" && sessions[0].Transport == c.wire.transport
			}, "the session on the page")
			require.NoError(t, connected.Close())
			w.Eventually(func() bool {
				return w.Metric("vitrine_sessions_closed_total", adapttest.Labels{"cause": c.cause}) == 1
			}, "the end of the session")
		})
	}
}

// A subscription is not recorded as a slow request. Shutdown does not wait for it.
func TestSubscriptionIsShown(t *testing.T) {
	for _, wire := range []wire{wires()[1], wires()[3]} {
		for _, end := range []string{"the client's", "server_shutdown"} {
			t.Run(wire.name+", "+end, func(t *testing.T) {
				w := newWorld(t)
				c := wire.connect(w)
				ctx, stop := contextOf(t)
				go func() { _ = c.Listen(ctx, mcp.SubscriptionFilter{ToolsListChanged: true}) }()
				w.Eventually(func() bool {
					requests, subscriptions, _ := w.Live()
					return len(requests) == 0 && len(subscriptions) == 1
				}, "the subscription on the page")
				if end == "server_shutdown" {
					require.NoError(t, w.adapter.Shutdown(t.Context()))
				} else {
					stop()
					end = map[string]string{"http": "client_disconnect", "stdio": "client_cancel"}[wire.transport]
				}
				w.Eventually(func() bool {
					return w.Metric("vitrine_subscription_duration_seconds", adapttest.Labels{"end": end}) == 1
				}, "the end of the subscription")
			})
		}
	}
}

// Without a wrapper, a call is recorded too.
func TestCallInMemoryIsRecorded(t *testing.T) {
	w := newWorld(t)
	c, err := client.NewInProcessClient(w.server)
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	defer c.Close()
	_, err = c.Initialize(t.Context(), mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: legacy, ClientInfo: mcp.Implementation{Name: "tester", Version: "2.0.0"},
	}})
	require.NoError(t, err)
	_, err = call(t, c, "add", numbers{1, 2})
	require.NoError(t, err)
	ended := w.Ended("tools/call")
	require.Equal(t, "memory", ended.Transport)
	require.Equal(t, "add", ended.Tool)
	require.NotEmpty(t, ended.RequestID)
}

// The spans of mcp-go's own tracing are left out.
func TestNoSpansOfTheSDK(t *testing.T) {
	w := newWorld(t)
	_, err := call(t, wires()[1].connect(w), "add", numbers{1, 2})
	require.NoError(t, err)
	for _, name := range w.SpanNames() {
		require.False(t, strings.HasPrefix(name, "mcp.") || strings.HasPrefix(name, "tool."), name)
	}
}

// Values that outer HTTP handlers put into the context of a request reach the handlers.
func TestValuesOfTheHTTPRequest(t *testing.T) {
	for _, version := range []string{legacy, modern} {
		w := newWorld(t)
		got := make(chan any, 1)
		w.server.AddTool(mcp.NewTool("value"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			got <- ctx.Value(valueKey{})
			return mcp.NewToolResultText("seen"), nil
		})
		inner := w.adapter.HTTP(server.NewStreamableHTTPServer(w.server))
		outer := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			inner.ServeHTTP(rw, req.WithContext(context.WithValue(req.Context(), valueKey{}, "a value")))
		}))
		defer outer.Close()
		wire, err := transport.NewStreamableHTTP(outer.URL)
		require.NoError(t, err)
		_, err = call(t, w.dial(wire, version), "value", nil)
		require.NoError(t, err)
		require.Equal(t, "a value", adapttest.Receive(t, got, "the value"))
	}
}

type valueKey struct{}

package gosdk_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/adapttest"
)

// A call has a span that follows the conventions, is counted, and is in /debug/traces.
func TestCallIsRecorded(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		session := wire.connect(w)
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{
			Name: "add", Arguments: sum{2, 3},
			Meta: sdk.Meta{"traceparent": adapttest.TraceParent},
		})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"Sum": 5.0}, result.StructuredContent)
		w.Recorded(wire.transport, wire.version)
	})
}

// A notification has a span with its transport and its client, in the client's trace.
func TestNotificationIsRecorded(t *testing.T) {
	for _, wire := range []wire{wires()[0], wires()[2], wires()[3]} { // the SDK drops those of 2026-07-28 over HTTP
		t.Run(wire.name, func(t *testing.T) {
			w := newWorld(t)
			require.NoError(t, wire.connect(w).NotifyProgress(t.Context(), &sdk.ProgressNotificationParams{
				ProgressToken: "x", Meta: sdk.Meta{"traceparent": adapttest.TraceParent},
			}))
			span := w.Span("notifications/progress")
			require.Equal(t, "b7ad6b7169203331", span.Parent().SpanID().String())
			require.Equal(t, map[string]string{"http": "tcp", "memory": "pipe"}[wire.transport], span.Attributes["network.transport"])
			require.Equal(t, wire.version, span.Attributes["mcp.protocol.version"])
			if wire.version == legacy { // later clients describe themselves in requests
				require.Equal(t, "tester", span.Attributes["vitrine.client.name"])
			}
		})
	}
}

// A notification whose POST has ended when the SDK dispatches it has the trace of its HTTP header, and not
// that of the POST that began the session.
func TestNotificationHasTheTraceOfItsPOST(t *testing.T) {
	w := newWorld(t)
	held, release := w.holdNotifications()
	url := w.serveHTTP(legacy, adapttest.InTrace)
	first := "00-11111111111111111111111111111111-1111111111111111-01"
	session := postTraced(t, url, "", initialize, first)
	postTraced(t, url, session, rootsChanged, first)
	adapttest.Receive(t, held, "the notification")
	postTraced(t, url, session, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}`, adapttest.TraceParent)
	release()
	span := w.Span("notifications/progress")
	require.Equal(t, "b7ad6b7169203331", span.Parent().SpanID().String())
	require.Equal(t, "tcp", span.Attributes["network.transport"])
}

// postTraced sends a message with a traceparent in the HTTP header, and returns the session.
func postTraced(t *testing.T, url, session, body, trace string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Traceparent": {trace},
	}
	if session != "" {
		req.Header["Mcp-Session-Id"], req.Header["Mcp-Protocol-Version"] = []string{session}, []string{legacy}
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Header.Get("Mcp-Session-Id")
}

// The name of a prompt is in the span's name. The URI of a resource is an attribute only.
func TestPromptAndResourceAreRecorded(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		session := wire.connect(w)
		_, err := session.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "greet"})
		require.NoError(t, err)
		require.Equal(t, "greet", w.Span("prompts/get greet").Attributes["gen_ai.prompt.name"])

		_, err = session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "note://1"})
		require.Error(t, err)
		span := w.Span("resources/read")
		require.Equal(t, "note://1", span.Attributes["mcp.resource.uri"])
		require.Equal(t, "-32603", span.Attributes["error.type"])
		require.Contains(t, span.Events, "exception", "the handler's own error")

		_, err = session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "note://2"})
		require.Error(t, err)
		require.NotContains(t, w.Span("resources/read").Attributes, "error.type", "the handler says whose fault it is")
	})
}

// A tool that fails is counted as an error, and the operator gets the handler's own error.
func TestToolErrorIsRecorded(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		result, err := call(t, wire.connect(w), "fail", none{})
		require.NoError(t, err)
		require.True(t, result.IsError)
		span := w.Span("tools/call fail")
		require.Equal(t, "tool_error", span.Attributes["error.type"])
		require.Contains(t, span.Events, "exception", "the handler's own error")
		require.Equal(t, 1.0, w.Metric("mcp_server_operation_duration_seconds", adapttest.Labels{
			"gen_ai_tool_name": "fail", "error_type": "tool_error",
		}))
		require.Equal(t, "tool_error", w.Ended("tools/call").ErrorType)
	})
}

// The name of an unregistered tool is no label.
func TestUnknownToolIsNoLabel(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		_, err := call(t, wire.connect(w), "made up by a stranger", none{})
		require.Error(t, err)
		span := w.Span("tools/call")
		require.NotContains(t, span.Attributes, "error.type", "it is the caller's fault")
		require.Equal(t, 1.0, w.Metric("mcp_server_operation_duration_seconds", adapttest.Labels{
			"mcp_method_name": "tools/call", "gen_ai_tool_name": "", "rpc_response_status_code": "-32602",
		}))
	})
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
	_, err := call(t, c, "add", sum{1, 2})
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
			session := c.wire.connect(w)
			w.Eventually(func() bool {
				_, _, sessions := w.Live()
				return len(sessions) == 1 && sessions[0].Client == "tester" && sessions[0].Transport == c.wire.transport
			}, "the session on the page")
			require.NoError(t, session.Close())
			w.Eventually(func() bool {
				return w.Metric("vitrine_sessions_closed_total", adapttest.Labels{"cause": c.cause}) == 1
			}, "the end of the session")
		})
	}
}

// A subscription is not recorded as a slow request. Shutdown does not wait for it.
func TestSubscriptionIsShown(t *testing.T) {
	for _, wire := range []wire{wires()[1], wires()[3]} {
		for _, end := range []string{"client_disconnect", "server_shutdown"} {
			t.Run(wire.name+", "+end, func(t *testing.T) {
				w := newWorld(t)
				session := wire.dial(w, sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "2.0.0"}, &sdk.ClientOptions{
					ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {},
				}))
				w.Eventually(func() bool {
					requests, subscriptions, _ := w.Live()
					return len(requests) == 0 && len(subscriptions) == 1
				}, "the subscription on the page")
				if end == "server_shutdown" {
					require.NoError(t, w.adapter.Shutdown(t.Context()))
				} else {
					require.NoError(t, session.Close())
				}
				ended := func(end string) float64 {
					return w.Metric("vitrine_subscription_duration_seconds", adapttest.Labels{"end": end})
				}
				w.Eventually(func() bool {
					if wire.transport == "memory" && end == "client_disconnect" { // its client cancels, and closes
						return ended("client_cancel")+ended("transport_close") == 1
					}
					return ended(end) == 1
				}, "the end of the subscription")
			})
		}
	}
}

// Values that outer HTTP handlers put into the context of a request reach the handlers.
func TestValuesOfTheHTTPRequest(t *testing.T) {
	for _, version := range []string{legacy, modern} {
		w := newWorld(t)
		session := w.dialHTTP(newClient(), version, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
				next.ServeHTTP(rw, req.WithContext(context.WithValue(req.Context(), valueKey{}, req.Header.Get("Mcp-Session-Id"))))
			})
		})
		_, err := call(t, session, "value", none{})
		require.NoError(t, err)
		require.Equal(t, session.ID(), adapttest.Receive(t, w.values, "the value"))
	}
}

// Without a wrapper, a call and its cancellation are recorded too.
func TestCallWithoutWrapper(t *testing.T) {
	w := newWorld(t)
	here, there := sdk.NewInMemoryTransports()
	server, err := w.server.Connect(t.Context(), here, nil)
	require.NoError(t, err)
	session := w.dial(newClient(), there, legacy)
	cancel, _ := w.goWait(session)
	cancel()
	w.Cancelled("client_cancel")
	require.NoError(t, session.Close())
	require.NoError(t, server.Wait())
}

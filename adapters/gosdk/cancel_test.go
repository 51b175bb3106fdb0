package gosdk_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// notifications/cancelled is client_cancel, with the client's reason. A client of
// 2026-07-28 over HTTP ends its POST instead.
func TestClientCancel(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		cancel, _ := w.goWait(wire.connect(w))
		cancel()
		if wire.name == "modern over HTTP" {
			w.Cancelled(mcp.CauseClientDisconnect)
			return
		}
		require.Equal(t, "context canceled", w.Cancelled(mcp.CauseClientCancel).CancelDetail)
	})
}

// In 2026-07-28 the end of the POST cancels the request, which the SDK does not do by
// itself. In earlier revisions it does not.
func TestClientDisconnect(t *testing.T) {
	t.Run("modern over HTTP", func(t *testing.T) {
		w := newWorld(t)
		cancel, _ := w.goWait(wires()[1].connect(w))
		cancel()
		w.Cancelled(mcp.CauseClientDisconnect)
	})
	t.Run("legacy over HTTP", func(t *testing.T) {
		w := newWorld(t)
		url := w.serveHTTP(legacy)
		session := post(t, t.Context(), url, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
		post(t, t.Context(), url, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		ctx, hangUp := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			post(t, ctx, url, session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{}}}`)
		}()
		adapttest.Receive(t, w.Started, "the handler to start")
		hangUp()
		<-gone
		// The SDK still takes the session's cancellation, which is then the cause.
		post(t, t.Context(), url, session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"changed my mind"}}`)
		require.Equal(t, "changed my mind", w.Cancelled(mcp.CauseClientCancel).CancelDetail)
	})
}

// post sends a message that a client of the SDK would not send, and returns the session.
func post(t *testing.T, ctx context.Context, url, session, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
		req.Header.Set("Mcp-Protocol-Version", legacy)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Header.Get("Mcp-Session-Id")
}

// The end of the connection is transport_close.
func TestTransportClose(t *testing.T) {
	for _, wire := range wires()[2:] {
		t.Run(wire.name, func(t *testing.T) {
			w := newWorld(t)
			here, there := pipes()
			session, err := w.server.Connect(t.Context(), w.adapter.Transport(here), nil)
			require.NoError(t, err)
			client := w.dial(newClient(), there, wire.version)
			w.goWait(client)
			require.NoError(t, there.Writer.Close())
			w.Cancelled(mcp.CauseTransportClose)
			require.NoError(t, session.Wait())
		})
	}
}

// pipes returns the two ends of a connection over pipes, as stdio is.
func pipes() (server, client *sdk.IOTransport) {
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	return &sdk.IOTransport{Reader: toServer, Writer: fromServer}, &sdk.IOTransport{Reader: toClient, Writer: fromClient}
}

// Shutdown cancels the requests that do not end in time with the cause server_shutdown, and
// refuses new ones.
func TestServerShutdown(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		session := wire.connect(w)
		w.goWait(session)
		ctx, now := context.WithCancel(t.Context())
		now()
		require.NoError(t, w.adapter.Shutdown(ctx))
		w.Cancelled(mcp.CauseServerShutdown)

		_, err := call(t, session, "add", sum{1, 2})
		w.Refused(err)
		require.NoError(t, w.adapter.Shutdown(t.Context()), "once is enough")
	})
}

// Shutdown waits for requests that end in time.
func TestShutdownWaits(t *testing.T) {
	w := newWorld(t)
	_, done := w.goWait(wires()[0].connect(w))
	w.ShutdownWaits(w.adapter.Shutdown, done)
}

// A subscription that begins after Shutdown is refused, and Shutdown does not wait for it.
func TestShutdownRefusesLateSubscription(t *testing.T) {
	w := newWorld(t)
	site := &adapttest.Site{Rig: w.Rig, URL: w.serveHTTP(modern), Version: modern, Client: http.DefaultClient}
	session := w.dial(newClient(), &sdk.StreamableClientTransport{Endpoint: site.URL}, modern)
	_, done := w.goWait(session)
	w.ShutdownEndsLate(w.adapter.Shutdown, done, func() bool {
		_, err := call(t, session, "add", sum{1, 2})
		return err != nil
	}, func() { site.Ask("", "", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`) })
	require.Equal(t, "shutting_down", w.Ended("subscriptions/listen").RejectReason)
	require.Zero(t, w.Metric("mcp_server_operation_duration_seconds", adapttest.Labels{"mcp_method_name": "subscriptions/listen", "error_type": ""}))
	require.Zero(t, w.Metric("vitrine_subscription_duration_seconds", nil))
}

// The cause is deadline, whether a middleware of the SDK has set the deadline or one of ours.
func TestDeadline(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		t.Run("of a middleware of the SDK", func(t *testing.T) {
			w := newWorld(t)
			w.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
					if method == "tools/call" {
						var cancel func()
						ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
						defer cancel()
					}
					return next(ctx, method, req)
				}
			})
			_, err := call(t, wire.connect(w), "wait", none{})
			require.NoError(t, err)
			w.Cancelled(mcp.CauseDeadline)
		})
		t.Run("of one of ours", func(t *testing.T) {
			w := newWorld(t, func(next middleware.Handler) middleware.Handler {
				return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
					if req.Method == "tools/call" {
						var cancel func()
						ctx, cancel = context.WithTimeoutCause(ctx, time.Millisecond, mcp.ErrDeadline)
						defer cancel()
					}
					return next(ctx, req)
				}
			})
			_, err := call(t, wire.connect(w), "wait", none{})
			require.NoError(t, err)
			w.Cancelled(mcp.CauseDeadline)
		})
	})
}

// A body that is too large to be read ahead reaches the SDK completely.
func TestLargeBody(t *testing.T) {
	w := newWorld(t)
	session := w.dialHTTP(newClient(), modern)
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{
		Name: "add", Arguments: sum{2, 3}, Meta: sdk.Meta{"padding": string(bytes.Repeat([]byte("x"), 2<<20))},
	})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"Sum": 5.0}, result.StructuredContent)
	require.Equal(t, "add", w.Ended("tools/call").Tool)
}

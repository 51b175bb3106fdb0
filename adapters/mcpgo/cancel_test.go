package mcpgo_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	vitrine "github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

// notifications/cancelled is client_cancel, with the client's reason.
func TestClientCancel(t *testing.T) {
	t.Run("over stdio", func(t *testing.T) {
		for _, wire := range wires()[2:] {
			w := newWorld(t)
			cancel, _ := w.goWait(wire.connect(w))
			cancel()
			require.Equal(t, "context canceled", w.Cancelled(vitrine.CauseClientCancel).CancelDetail)
		}
	})
	t.Run("legacy over HTTP", func(t *testing.T) {
		w := newWorld(t)
		url := w.serveHTTP()
		session := initialize(t, url)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			exchange(t, url, session, waitMessage)
		}()
		adapttest.Receive(t, w.Started, "the handler to start")
		exchange(t, url, session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"changed my mind"}}`)
		require.Equal(t, "changed my mind", w.Cancelled(vitrine.CauseClientCancel).CancelDetail)
		<-gone
	})
}

// mcp-go cancels a request when its POST ends, in both eras.
func TestClientDisconnect(t *testing.T) {
	t.Run("modern over HTTP", func(t *testing.T) {
		w := newWorld(t)
		cancel, _ := w.goWait(wires()[1].connect(w))
		cancel()
		w.Cancelled(vitrine.CauseClientDisconnect)
	})
	t.Run("legacy over HTTP", func(t *testing.T) {
		w := newWorld(t)
		url := w.serveHTTP()
		session := initialize(t, url)
		ctx, hangUp := contextOf(t)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			post(t, ctx, url, session, waitMessage)
		}()
		adapttest.Receive(t, w.Started, "the handler to start")
		hangUp()
		w.Cancelled(vitrine.CauseClientDisconnect)
		<-gone
	})
}

const waitMessage = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{}}}`

func initialize(t *testing.T, url string) (session string) {
	return exchange(t, url, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
}

func exchange(t *testing.T, url, session, body string) string {
	return post(t, t.Context(), url, session, body)
}

// post sends a message that a client of mcp-go would not send, and returns the session.
func post(t *testing.T, ctx context.Context, url, session, body string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
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

// The end of what the server reads is transport_close.
func TestTransportClose(t *testing.T) {
	for _, version := range []string{legacy, modern} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			c, hangUp := w.pipe(version)
			w.goWait(c)
			hangUp()
			w.Cancelled(vitrine.CauseTransportClose)
		})
	}
}

// The end of the context of Listen is server_shutdown.
func TestListenEnds(t *testing.T) {
	w := newWorld(t)
	in, send := io.Pipe()
	ctx, stop := contextOf(t)
	ended := make(chan error, 1)
	go func() { ended <- w.adapter.Listen(ctx, server.NewStdioServer(w.server), in, io.Discard) }()
	_, err := io.WriteString(send, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`+"\n"+waitMessage+"\n")
	require.NoError(t, err)
	adapttest.Receive(t, w.Started, "the handler to start")
	stop()
	w.Cancelled(vitrine.CauseServerShutdown)
	adapttest.Receive(t, ended, "the end of Listen")
	require.NoError(t, send.Close())
}

// Shutdown cancels the calls that do not end in time with the cause server_shutdown, and refuses
// new ones.
func TestServerShutdown(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		c := wire.connect(w)
		w.goWait(c)
		ctx, now := contextOf(t)
		now()
		require.NoError(t, w.adapter.Shutdown(ctx))
		w.Cancelled(vitrine.CauseServerShutdown)

		_, err := call(t, c, "add", numbers{1, 2})
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

// A subscription that begins after Shutdown ends at once, and Shutdown does not wait for it.
func TestShutdownEndsLateSubscription(t *testing.T) {
	for _, wire := range []wire{wires()[1], wires()[3]} {
		t.Run(wire.name, func(t *testing.T) {
			w := newWorld(t)
			c := wire.connect(w)
			_, done := w.goWait(c)
			w.ShutdownEndsLate(w.adapter.Shutdown, done, func() bool {
				_, err := call(t, c, "add", numbers{1, 2})
				return err != nil
			}, func() { _ = c.Listen(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true}) })
			require.Equal(t, 1.0, w.Metric("vitrine_subscription_duration_seconds", adapttest.Labels{"end": "server_shutdown"}))
		})
	}
}

// The cause is deadline, whether a middleware of mcp-go has set the deadline or one of ours.
func TestDeadline(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		t.Run("of a middleware of mcp-go", func(t *testing.T) {
			w := newWorldWith(t, []server.ServerOption{server.WithToolHandlerMiddleware(
				func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
					return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						ctx, cancel := context.WithTimeoutCause(ctx, time.Millisecond, vitrine.ErrDeadline)
						defer cancel()
						return next(ctx, req)
					}
				})})
			_, err := call(t, wire.connect(w), "wait", nil)
			require.Error(t, err)
			w.Cancelled(vitrine.CauseDeadline)
		})
		t.Run("of one of ours", func(t *testing.T) {
			w := newWorld(t, func(next middleware.Handler) middleware.Handler {
				return func(ctx context.Context, req *middleware.Request) (vitrine.Result, error) {
					ctx, cancel := context.WithTimeoutCause(ctx, time.Millisecond, vitrine.ErrDeadline)
					defer cancel()
					return next(ctx, req)
				}
			})
			_, err := call(t, wire.connect(w), "wait", nil)
			require.Error(t, err)
			w.Cancelled(vitrine.CauseDeadline)
		})
	})
}

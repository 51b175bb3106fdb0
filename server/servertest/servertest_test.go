package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

type none = struct{}

func newServer(opts ...server.Option) *server.Server {
	return server.New("test", "1", append(opts, server.WithTelemetry(telemetry.Disabled()), server.WithLogger(slog.New(slog.DiscardHandler)))...)
}

// eras are the ways to connect.
var eras = map[string][]servertest.Option{
	"modern": nil,
	"2025":   {servertest.Legacy(mcp.Version20251125)},
	"2024":   {servertest.Legacy(mcp.Version20241105)},
}

func TestCallToolInBothEras(t *testing.T) {
	for name, opts := range eras {
		t.Run(name, func(t *testing.T) {
			client := servertest.Connect(t, newWeather(), opts...)
			tools, err := client.ListTools(t.Context())
			require.NoError(t, err)
			require.Len(t, tools, 1)
			require.Equal(t, "forecast", tools[0].Name)
			require.Contains(t, string(tools[0].InputSchema), `"name of a city"`)

			result, err := client.CallTool(t.Context(), "forecast", map[string]string{"city": "Bern"})
			require.NoError(t, err)
			require.False(t, result.IsError)
			require.JSONEq(t, `{"high":21,"sky":"clear over Bern"}`, result.Text())
			if name == "2024" {
				require.Empty(t, result.StructuredContent, "it came with 2025-06-18")
			} else {
				require.JSONEq(t, result.Text(), string(result.StructuredContent))
			}

			_, err = client.CallTool(t.Context(), "nope", nil)
			require.Equal(t, mcp.NewError(mcp.CodeInvalidParams, `there is no tool "nope"`), err)
			_, err = client.Call(t.Context(), "no/such", nil)
			require.Equal(t, mcp.NewError(mcp.CodeMethodNotFound, `there is no method "no/such"`), err)
		})
	}
}

func TestContent(t *testing.T) {
	blocks := []mcp.Content{
		&mcp.TextContent{Text: "a"}, &mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png"}, &mcp.AudioContent{Data: []byte{2}, MIMEType: "audio/wav"},
		&mcp.ResourceLink{URI: "x:y", Name: "y"}, &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "x:z", Blob: []byte{3}}},
		&mcp.TextContent{Text: "b"},
	}
	srv := newServer()
	server.AddTool(srv, server.Tool{Name: "x"}, func(context.Context, *server.Call, none) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: blocks, IsError: true}, nil
	})
	result, err := servertest.Connect(t, srv).CallTool(t.Context(), "x", nil)
	require.NoError(t, err)
	require.Equal(t, blocks, result.Content)
	require.Equal(t, "a\nb", result.Text())
	require.True(t, result.IsError)
	require.Contains(t, result.Meta, mcp.MetaServerInfo)
	require.ErrorIs(t, result.Into(new(any)), servertest.ErrNoStructuredContent)
}

// Cancelling the context of a call cancels the handler, with the client's cause.
func TestCancelledContextCancelsTheHandler(t *testing.T) {
	mine := errors.New("I do not want it any more")
	for name, opts := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer()
				causes := make(chan error, 1)
				server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return "", nil
				})
				client := servertest.Connect(t, srv, opts...)
				ctx, cancel := context.WithCancelCause(t.Context())
				done := make(chan error, 1)
				go func() {
					_, err := client.CallTool(ctx, "wait", nil)
					done <- err
				}()
				synctest.Wait()
				cancel(mine)
				require.ErrorIs(t, <-done, mine)
				require.ErrorIs(t, <-causes, mcp.ErrClientCancelled)

				_, err := client.CallTool(ctx, "wait", nil)
				require.ErrorIs(t, err, mine, "a context that has ended sends nothing")
				_, err = client.ListTools(t.Context())
				require.NoError(t, err, "the connection goes on")
			})
		})
	}
}

func TestContextDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
			<-ctx.Done()
			return "", nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := servertest.Connect(t, srv).CallTool(ctx, "wait", nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestConcurrentCalls(t *testing.T) {
	srv := newServer()
	server.AddTool(srv, server.Tool{Name: "echo"},
		func(_ context.Context, _ *server.Call, in map[string]int) (string, error) {
			return fmt.Sprint(in["n"]), nil
		})
	client := servertest.Connect(t, srv)
	var wg sync.WaitGroup
	for n := range 100 {
		wg.Go(func() {
			result, err := client.CallTool(t.Context(), "echo", map[string]int{"n": n})
			if err != nil || result.Text() != fmt.Sprint(n) {
				t.Errorf("%d: %v %v", n, result, err)
			}
		})
	}
	wg.Wait()
}

// All notifications of a call have been passed on when it returns.
func TestNotificationsPrecedeTheReturnOfTheCall(t *testing.T) {
	for name, opts := range eras {
		t.Run(name, func(t *testing.T) {
			srv := newServer()
			server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
				for i := range 5 {
					if err := c.Progress(float64(i), 5, "step"); err != nil {
						return "", err
					}
				}
				return "", nil
			})
			var seen []servertest.Progress
			var methods []string
			client := servertest.Connect(t, srv, append(opts,
				servertest.OnProgress(func(p servertest.Progress) { seen = append(seen, p) }),
				servertest.OnNotification(func(method string, params jsontext.Value) { methods = append(methods, method) }))...)
			_, err := client.CallTool(t.Context(), "x", nil)
			require.NoError(t, err)
			require.Len(t, seen, 5)
			require.Equal(t, 4.0, seen[4].Progress)
			require.Equal(t, 5.0, seen[4].Total)
			if name == "2024" {
				require.Empty(t, seen[4].Message, "that revision has no such member")
			} else {
				require.Equal(t, "step", seen[4].Message)
			}
			require.NotEmpty(t, seen[4].Token)
			require.Len(t, methods, 5)
			require.Equal(t, mcp.NotificationProgress, methods[0])
		})
	}
}

func TestParams(t *testing.T) {
	srv := newServer()
	got := make(chan mcp.Meta, 1)
	server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
		got <- c.Meta()
		return "", nil
	})
	client := servertest.Connect(t, srv)
	_, err := client.Call(t.Context(), "tools/call", map[string]any{
		"name":  "x",
		"_meta": map[string]any{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", mcp.MetaClientInfo: map[string]any{"name": "own", "version": "0"}},
	})
	require.NoError(t, err)
	meta := <-got
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", meta["traceparent"])
	require.Equal(t, "own", meta[mcp.MetaClientInfo].(map[string]any)["name"], "what is given stays")
	require.Equal(t, "2026-07-28", meta[mcp.MetaProtocolVersion])

	_, err = client.Call(t.Context(), "tools/call", []int{1})
	require.ErrorContains(t, err, "must encode to a JSON object")
	_, err = client.CallTool(t.Context(), "x", "text")
	require.ErrorContains(t, err, "must encode to a JSON object")
	require.ErrorContains(t, client.Notify("notifications/x", 1), "must encode to a JSON object")
	require.NoError(t, client.Notify("notifications/x", map[string]int{"a": 1}))
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		causes := make(chan error, 1)
		server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "", nil
		})
		client := servertest.Connect(t, srv)
		done := make(chan error, 1)
		go func() {
			_, err := client.CallTool(context.Background(), "wait", nil)
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, client.Close())
		require.NoError(t, client.Close(), "once")
		require.ErrorIs(t, <-done, mcp.ErrClosed)
		require.Error(t, <-causes)
		_, err := client.ListTools(context.Background())
		require.ErrorIs(t, err, mcp.ErrClosed)
		require.ErrorIs(t, client.Notify("notifications/x", nil), mcp.ErrClosed)
	})
}

// Close names a handler that ignores its context.
func TestCloseNamesAbandonedHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		release := make(chan struct{})
		defer close(release)
		server.AddTool(srv, server.Tool{Name: "stubborn"},
			func(context.Context, *server.Call, none) (string, error) { <-release; return "", nil })
		client := servertest.Connect(t, srv)
		go func() { _, _ = client.CallTool(context.Background(), "stubborn", nil) }()
		synctest.Wait()
		require.ErrorContains(t, client.Close(), "tools/call stubborn")
	})
}

// When the server shuts down, waiting calls fail.
func TestShutdownFailsWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		client := servertest.Connect(t, srv)
		require.NoError(t, srv.Shutdown(t.Context()))
		_, err := client.ListTools(t.Context())
		require.ErrorIs(t, err, mcp.ErrClosed)
		require.NoError(t, client.Close())
	})
}

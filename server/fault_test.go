package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
)

// A handler that returns ctx.Err() says that it was cancelled, not that the tool
// failed.
func TestContextErrorsAreTheCause(t *testing.T) {
	for name, failed := range map[string]func(ctx context.Context) error{
		"ctx.Err":  func(ctx context.Context) error { return ctx.Err() },
		"wrapped":  func(ctx context.Context) error { return fmt.Errorf("query: %w", ctx.Err()) },
		"cause":    func(ctx context.Context) error { return fmt.Errorf("query: %w", context.Cause(ctx)) },
		"deadline": func(context.Context) error { return fmt.Errorf("query: %w", context.DeadlineExceeded) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs := &logRecorder{}
				srv := newServer(t, server.WithLogger(slog.New(logs)))
				server.AddTool(srv, server.Tool{Name: "x"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
					<-ctx.Done()
					return "", failed(ctx)
				})
				p := dial(t, srv)
				p.send(modern(1, "tools/call", call("x", `{}`)))
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_ = srv.Shutdown(ctx) // its deadline cancels the call
				require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the request was cancelled: server_shutdown",
					"data":{"reason":"server_shutdown"}}}`, p.recv())
				require.Empty(t, logs.find("handler.error"))
			})
		})
	}
	// A time-out of the handler's own is the tool's failure.
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x"}, func(context.Context, *server.Call, none) (string, error) {
		return "", context.DeadlineExceeded
	})
	require.Contains(t, dial(t, srv).ask(modern(1, "tools/call", call("x", `{}`))), `"isError":true`)
}

func TestNilHandlersAndMiddlewares(t *testing.T) {
	srv := newServer(t)
	var handler server.ToolHandler[none, string]
	require.ErrorContains(t, server.TryAddTool(srv, server.Tool{Name: "x"}, handler), `tool "x": the handler is nil`)
	middlewares := []middleware.Middleware{middleware.Chain(), nil}
	require.ErrorContains(t, server.TryAddTool(srv, server.Tool{Name: "x", Middleware: middlewares}, text("")), `tool "x": a middleware is nil`)
	require.Panics(t, func() { server.AddTool(srv, server.Tool{Name: "x"}, handler) })
	_, err := server.TryNew("test", "1", server.WithMiddleware(middlewares...))
	require.EqualError(t, err, "server: a middleware is nil")
	server.AddTool(srv, server.Tool{Name: "x"}, text("")) // the name is not taken
}

// A line break in JSON that the program has given does not break a frame.
func TestGivenJSONStaysOnOneLine(t *testing.T) {
	const input = "{\r\n \"type\" : \"object\",\n\t\"properties\": {\"b\": {\"maximum\": 1.50}, \"a\": {\"const\": \"x \\n y\"}}\n}\n"
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x", InputSchema: jsontext.Value(input)},
		func(context.Context, *server.Call, map[string]any) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{StructuredContent: jsontext.Value("{\n \"n\" :\r\n 1.0 }")}, nil
		})
	for version, prepare := range map[string]func(p *rawPipe) func(id any, method, params string) string{
		"modern": func(*rawPipe) func(any, string, string) string {
			return func(id any, method, params string) string { return modern(id, method, params) }
		},
		"legacy": func(p *rawPipe) func(any, string, string) string { p.initialize("2025-11-25"); return legacy },
	} {
		t.Run(version, func(t *testing.T) {
			p := dial(t, srv)
			request := prepare(p)
			require.Contains(t, p.ask(request(1, "tools/list", "")),
				`"inputSchema":{"type":"object","properties":{"b":{"maximum":1.50},"a":{"const":"x \n y"}}}`)
			require.Contains(t, p.ask(request(2, "tools/call", call("x", `{}`))), `"structuredContent":{"n":1.0}`)
		})
	}
}

// A value that fits the schema and not the Go type is a fault of the server. A value with
// invalid contents is the caller's fault.
func TestSchemaContradictsType(t *testing.T) {
	type in struct {
		N int8       `json:"n"`
		A netip.Addr `json:"a"`
	}
	logs := &logRecorder{}
	srv := newServer(t, server.WithLogger(slog.New(logs)))
	server.AddTool(srv, server.Tool{Name: "x", AllowUnmatchedProperties: true, InputSchema: jsontext.Value(`{"type":"object"}`)},
		func(context.Context, *server.Call, in) (string, error) { return "ok", nil })
	p := dial(t, srv)
	for arguments, field := range map[string]string{`{"n":"1"}`: "/n", `{"a":1}`: "/a", `{"n":{}}`: "/n"} {
		before := len(logs.find("handler.error"))
		require.JSONEq(t, failure(1, -32603, "internal error"), p.ask(modern(1, "tools/call", call("x", arguments))))
		records := logs.find("handler.error")[before:]
		require.Len(t, records, 1)
		require.Contains(t, records[0].attrs["error"], "the input schema contradicts the Go type server_test.in: "+field+": ")
	}
	before := len(logs.find("handler.error"))
	for _, arguments := range []string{`{"n":300}`, `{"n":1.5}`, `{"a":"home"}`} {
		require.Contains(t, p.ask(modern(1, "tools/call", call("x", arguments))), `"isError":true`, arguments)
	}
	require.Len(t, logs.find("handler.error"), before)
}

// A pipe over TCP has the address of its peer.
func TestServePipeOverTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	srv := newServer(t)
	seen := make(chan [2]string, 1)
	server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
		seen <- [2]string{c.Core().Conn.Network, c.Core().Conn.RemoteAddr}
		return "", nil
	})
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	conn, err := l.Accept()
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.ServePipe(context.Background(), conn) }()
	_, err = client.Write([]byte(modern(1, "tools/call", call("x", `{}`)) + "\n"))
	require.NoError(t, err)
	require.Equal(t, [2]string{"tcp", client.LocalAddr().String()}, <-seen)
	require.NoError(t, client.Close())
	<-served
}

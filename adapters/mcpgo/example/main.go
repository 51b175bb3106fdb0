// Command example is a server of mcp-go with Vitrine's telemetry and middlewares:
//
//	go run ./example            # over stdio
//	go run ./example -http :8080
//
// What operators look at is on the second address: /metrics, /debug/requests,
// /debug/traces and /debug/live.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/vitrine-mcp/vitrine/adapters/mcpgo"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

func greet(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText("Hello, " + req.GetString("name", "you")), nil
}

func main() {
	address := flag.String("http", "", "serve HTTP on this `address`, not stdio")
	admin := flag.String("admin", "127.0.0.1:0", "serve what operators look at on this `address`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *admin); err != nil {
		slog.Error("the server has failed", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, admin string) error {
	srv := server.NewMCPServer("greeter", "1.0.0")
	srv.AddTool(mcp.NewTool("greet", mcp.WithDescription("Greets somebody."), mcp.WithString("name")), greet)

	t, err := telemetry.New(telemetry.WithService("greeter", "1.0.0"))
	if err != nil {
		return err
	}
	log := slog.New(t.LogHandler(slog.NewTextHandler(os.Stderr, nil)))
	adapter := mcpgo.Instrument(srv, t, middleware.Logging(log))
	operators, err := serveOperators(t, admin, log)
	if err != nil {
		return err
	}
	defer operators.Close()

	if address == "" {
		err = adapter.Listen(ctx, server.NewStdioServer(srv), os.Stdin, os.Stdout)
	} else {
		err = serveHTTP(ctx, address, srv, adapter)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func serveHTTP(ctx context.Context, address string, srv *server.MCPServer, adapter *mcpgo.Adapter) error {
	handler := server.NewStreamableHTTPServer(srv)
	endpoint := &http.Server{Addr: address, Handler: adapter.HTTP(handler)}
	ended := make(chan error, 1)
	go func() { ended <- endpoint.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(adapter.Shutdown(grace), endpoint.Close())
}

// pages are what operators look at.
func pages(t *telemetry.Telemetry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", t.MetricsHandler())
	mux.Handle("/debug/requests", t.RequestsHandler())
	mux.Handle("/debug/traces", t.TracesHandler())
	mux.Handle("/debug/traces/", t.TracesHandler())
	mux.Handle("/debug/live", t.LiveHandler())
	return mux
}

// serveOperators serves the pages on a listener of their own.
func serveOperators(t *telemetry.Telemetry, address string, log *slog.Logger) (*http.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	log.Info("operators look here", "address", listener.Addr().String())
	server := &http.Server{Handler: pages(t)}
	go func() { _ = server.Serve(listener) }()
	return server, nil
}

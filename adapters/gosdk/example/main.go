// Command example is a server of the Go SDK with Vitrine's telemetry and middlewares:
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

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/adapters/gosdk"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

type greeting struct {
	Name string `json:"name"`
}

func greet(_ context.Context, _ *sdk.CallToolRequest, in greeting) (*sdk.CallToolResult, any, error) {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "Hello, " + in.Name}}}, nil, nil
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
	server := sdk.NewServer(&sdk.Implementation{Name: "greeter", Version: "1.0.0"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "greet", Description: "Greets somebody."}, greet)

	t, err := telemetry.New(telemetry.WithService("greeter", "1.0.0"))
	if err != nil {
		return err
	}
	log := slog.New(t.LogHandler(slog.NewTextHandler(os.Stderr, nil)))
	adapter := gosdk.Instrument(server, t, middleware.Logging(log))
	operators := &http.Server{Handler: pages(t)}
	listener, err := net.Listen("tcp", admin)
	if err != nil {
		return err
	}
	log.Info("operators look here", "address", listener.Addr().String())
	go func() { _ = operators.Serve(listener) }()
	defer operators.Close()

	if address == "" {
		err = server.Run(ctx, adapter.Transport(&sdk.StdioTransport{}))
	} else {
		err = serveHTTP(ctx, address, server, adapter)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
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

func serveHTTP(ctx context.Context, address string, server *sdk.Server, adapter *gosdk.Adapter) error {
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true}) // 2026-07-28; without it, the earlier revisions
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

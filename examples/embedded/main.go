// Embedded serves MCP from a program that has a life of its own: its mux, its
// Prometheus registry, its health check and its shutdown. Nothing of package
// service is used; what that package puts together is put together here. Try it:
//
//	go run ./examples/embedded
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/telemetry/otlp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("the shop has failed", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and then lets what runs come to its end.
func run(ctx context.Context) error {
	app, err := newShop(prometheus.NewRegistry())
	if err != nil {
		return err
	}
	if err := app.start(ctx); err != nil {
		return err
	}
	web := &http.Server{Addr: "127.0.0.1:8080", Handler: app.mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	broken := make(chan error, 1)
	go func() { broken <- web.ListenAndServe() }()
	slog.Info("the shop is open", "mcp", "http://"+web.Addr+"/shop/mcp", "metrics", "http://"+web.Addr+"/metrics")

	select {
	case err = <-broken:
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	// The server first: it answers what runs and refuses the rest, over connections
	// that are still open. Then the listener, and the telemetry at last.
	err = errors.Join(err, app.srv.Shutdown(patience), web.Shutdown(patience))
	return errors.Join(err, app.tel.Shutdown(patience))
}

// A shop is the program around the MCP server.
type shop struct {
	srv   *server.Server
	tel   *telemetry.Telemetry
	mux   *http.ServeMux
	stock atomic.Pointer[map[string]int] // nil until it is loaded
}

func newShop(registry *prometheus.Registry) (*shop, error) {
	tel, err := telemetry.New(telemetry.WithService("shop", "0.3.0"), telemetry.WithRegistry(registry))
	if err != nil {
		return nil, err
	}
	s := &shop{tel: tel, mux: http.NewServeMux()}
	s.srv = server.New("shop", "0.3.0",
		server.WithTelemetry(tel),
		server.WithInstructions("Ask for the stock before you promise anything."),
		server.WithLimits(server.Limits{RequestTimeout: 5 * time.Second}),
		server.WithMiddleware(closed(time.Now)))

	s.srv.AddHook("stock", s.load, func(context.Context) error {
		slog.Info("the shop is closed")
		return nil
	})
	s.srv.AddReadiness("stock", func(context.Context) error {
		if s.stock.Load() == nil {
			return errors.New("not loaded yet")
		}
		return nil
	})

	// The warehouse answers two questions at a time; more of them wait in a queue.
	warehouse := server.NewClass("warehouse", 2)
	server.AddTool(s.srv, server.Tool{
		Name: "stock", Description: "How many of an article are in stock",
		Class: warehouse,
	}, s.lookup)

	s.mux.Handle("/shop/mcp", s.srv.Handler())
	s.mux.Handle("/metrics", tel.MetricsHandler())
	s.mux.HandleFunc("/healthz", s.health)
	return s, nil
}

// start begins to export telemetry, if the OTEL_* variables ask for it, and runs
// the start hooks.
func (s *shop) start(ctx context.Context) error {
	if err := otlp.Start(ctx, s.tel); err != nil {
		slog.Warn("the telemetry is not exported", "error", err) // no reason not to serve
	}
	return s.srv.Start(ctx)
}

// load stands for the work of a program before it can serve.
func (s *shop) load(context.Context) error {
	s.stock.Store(&map[string]int{"lamp": 12, "chair": 0})
	return nil
}

func (s *shop) health(w http.ResponseWriter, r *http.Request) {
	if err := s.srv.Ready(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

type stockIn struct {
	Article string `json:"article"`
}

type stockOut struct {
	Article string `json:"article"`
	Count   int    `json:"count"`
}

func (s *shop) lookup(_ context.Context, _ *server.Call, in stockIn) (stockOut, error) {
	count, found := (*s.stock.Load())[in.Article]
	if !found {
		return stockOut{}, mcp.CallerFault(mcp.ToolErrorf("there is no article %q", in.Article)) // for the model to mend
	}
	return stockOut{Article: in.Article, Count: count}, nil
}

// closed refuses tool calls on Sundays: a middleware that answers by itself.
func closed(now func() time.Time) middleware.Middleware {
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			if req.Method == mcp.MethodToolsCall && now().Weekday() == time.Sunday {
				return mcp.ToolErrorResult("The warehouse is closed on Sundays."), nil
			}
			return next(ctx, req)
		}
	}
}

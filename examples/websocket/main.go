// Websocket serves MCP over WebSockets: it shows how to write a transport that Vitrine does not
// have. The transport is conn.go; the rest is a small server. It is a module of its own, because
// it needs a library for WebSockets. Try it from this folder:
//
//	go run .
//
// and speak to it with any WebSocket client that asks for the subprotocol mcp, such as
//
//	websocat --protocol mcp ws://127.0.0.1:8081/mcp
//	{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
//
// What its metrics, spans and logs say of a connection is what every connection's say; the
// transport has the name websocket in logs and the label _OTHER on metrics.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/vitrine-mcp/vitrine/server"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8081", "`host:port` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr); err != nil {
		slog.Error("the server has failed", "error", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, addr string) error {
	srv := newServer()
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint(ctx, srv))
	web := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	broken := make(chan error, 1)
	go func() { broken <- web.ListenAndServe() }()
	slog.Info("listening", "url", "ws://"+addr+"/mcp")
	var err error
	select {
	case err = <-broken:
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, srv.Shutdown(patience), web.Shutdown(patience))
}

type greetIn struct {
	Name string `json:"name" jsonschema:"who is greeted"`
}

func newServer() *server.Server {
	srv := server.New("websocket", "1.0.0")
	server.AddTool(srv, server.Tool{Name: "greet", Description: "Says hello."},
		func(_ context.Context, _ *server.Call, in greetIn) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})
	return srv
}

// endpoint serves each WebSocket that clients open as a connection of srv. ctx ends all of them:
// their handlers are cancelled with the cause server_shutdown.
func endpoint(ctx context.Context, srv *server.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The library compares Origin with Host. That is not enough on a local machine: the page of
		// an attacker whose name has been rebound to 127.0.0.1 has both alike.
		if !isLocal(r.Host) {
			http.Error(w, "Host is not allowed: use 127.0.0.1 or localhost", http.StatusForbidden)
			return
		}
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}})
		if err != nil {
			return // Accept has answered
		}
		if ws.Subprotocol() != subprotocol {
			_ = ws.Close(websocket.StatusPolicyViolation, "the subprotocol must be "+subprotocol)
			return
		}
		if err := srv.ServeConn(ctx, newConn(ws, r.RemoteAddr)); err != nil {
			slog.Warn("the connection has left handlers behind", "error", err)
		}
	})
}

// isLocal reports whether a Host header names this machine and nothing that a name service decides.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

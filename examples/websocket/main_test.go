package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/transport"
	"github.com/vitrine-mcp/vitrine/transport/transporttest"
)

// The transport keeps the promises of transport.Conn.
func TestConn(t *testing.T) {
	patience := closePatience
	closePatience = 50 * time.Millisecond // most checks have a peer that does not take leave
	defer func() { closePatience = patience }()
	accepted := make(chan *websocket.Conn)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}})
		if err != nil {
			t.Error(err)
		}
		accepted <- ws
	}))
	defer web.Close()
	transporttest.Run(t, func(t *testing.T) (transport.Conn, transporttest.Peer) {
		theirs := dial(t, web.URL)
		return newConn(<-accepted, "peer"), transporttest.Peer{Conn: newConn(theirs, "us")}
	})
}

// dial opens a WebSocket.
func dial(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	ws, res, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1),
		&websocket.DialOptions{Subprotocols: []string{subprotocol}})
	if err != nil {
		t.Fatal(err)
	}
	if res.Body != nil {
		res.Body.Close()
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

func send(t *testing.T, ws *websocket.Conn, message string) {
	t.Helper()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
}

func ask(t *testing.T, ws *websocket.Conn, message string) string {
	t.Helper()
	send(t, ws, message)
	_, answer, err := ws.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func modernCall(tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"name":"Ada"},%s}}`, tool, modernMeta)
}

// One endpoint serves clients of both eras.
func TestBothEras(t *testing.T) {
	web := httptest.NewServer(endpoint(t.Context(), newServer()))
	defer web.Close()
	modern := dial(t, web.URL)
	if answer := ask(t, modern, modernCall("greet")); !strings.Contains(answer, "Hello, Ada!") {
		t.Error(answer)
	}
	legacy := dial(t, web.URL)
	answer := ask(t, legacy, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	if !strings.Contains(answer, `"protocolVersion":"2025-11-25"`) {
		t.Error(answer)
	}
	send(t, legacy, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	answer = ask(t, legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"}}}`)
	if !strings.Contains(answer, "Hello, Ada!") {
		t.Error(answer)
	}
	for _, ws := range []*websocket.Conn{modern, legacy} {
		if err := ws.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Error(err)
		}
	}
}

// A handler learns why it was cancelled. A WebSocket has no half-close: when the client has closed
// it, there is no grace.
func TestHandlersLearnTheirCause(t *testing.T) {
	for _, tt := range []struct {
		name string
		does func(t *testing.T, ws *websocket.Conn, stop func())
		want mcp.Cause
	}{
		{"the client cancels", func(t *testing.T, ws *websocket.Conn, _ func()) {
			send(t, ws, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		}, mcp.CauseClientCancel},
		{"the client closes", func(t *testing.T, ws *websocket.Conn, _ func()) {
			_ = ws.Close(websocket.StatusNormalClosure, "")
		}, mcp.CauseTransportClose},
		{"the client is gone", func(t *testing.T, ws *websocket.Conn, _ func()) { _ = ws.CloseNow() }, mcp.CauseTransportError},
		{"the client sends bytes", func(t *testing.T, ws *websocket.Conn, _ func()) {
			if err := ws.Write(t.Context(), websocket.MessageBinary, []byte("x")); err != nil {
				t.Error(err)
			}
		}, mcp.CauseTransportError},
		{"the server stops", func(_ *testing.T, _ *websocket.Conn, stop func()) { stop() }, mcp.CauseServerShutdown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			started, ended := make(chan struct{}), make(chan mcp.Cause, 1)
			srv := server.New("test", "1", server.WithLimits(server.Limits{EOFGrace: time.Hour}))
			server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ greetIn) (string, error) {
				close(started)
				<-ctx.Done()
				cause, _ := mcp.CauseOf(ctx)
				ended <- cause
				return "", nil
			})
			web := httptest.NewServer(endpoint(ctx, srv))
			defer web.Close()
			ws := dial(t, web.URL)
			send(t, ws, modernCall("wait"))
			<-started
			tt.does(t, ws, stop)
			if cause := <-ended; cause != tt.want {
				t.Errorf("the cause is %s, want %s", cause, tt.want)
			}
		})
	}
}

// The endpoint refuses clients without the subprotocol, and pages whose name was rebound to this
// machine.
func TestRefusedHandshakes(t *testing.T) {
	web := httptest.NewServer(endpoint(t.Context(), newServer()))
	defer web.Close()
	ws, _, err := websocket.Dial(t.Context(), web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Error("without the subprotocol:", err)
	}
	_, res, err := websocket.Dial(t.Context(), web.URL, &websocket.DialOptions{
		Subprotocols: []string{subprotocol}, Host: "rebound.example:80", HTTPHeader: http.Header{"Origin": {"http://rebound.example:80"}}})
	if err == nil || res.StatusCode != http.StatusForbidden {
		t.Error("from a page with a rebound name:", err)
	}
}

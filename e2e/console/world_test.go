package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// patience is the time that a test waits for something that must happen.
const patience = 60 * time.Second

// A world is a service at work, and a way to call it.
type world struct {
	service.Endpoints
	open   chan struct{} // closed: the handlers that hang return
	client *http.Client
	opened []string // legacy sessions
}

// newWorld starts a service. It ends with the test.
func newWorld(t *testing.T, args ...string) *world {
	t.Helper()
	w := &world{open: make(chan struct{}), client: &http.Client{Transport: &http.Transport{}}}
	srv := server.New("orders", "2.4.1")
	w.addTools(srv)
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan service.Endpoints, 1), make(chan error, 1)
	args = append([]string{"--addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--log-level=error", "--drain-timeout=1s"}, args...)
	go func() {
		done <- service.Run(ctx, srv, service.WithArgs(args), service.WithGetenv(func(string) string { return "" }),
			service.WithCommand("orders"), service.WithStdout(io.Discard), service.WithStderr(io.Discard),
			service.WithListening(func(e service.Endpoints) { ready <- e }))
	}()
	select {
	case w.Endpoints = <-ready:
	case err := <-done:
		t.Fatalf("the service ended: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		w.release()
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, server.ErrAbandoned) {
				t.Errorf("the service ended: %v", err)
			}
		case <-time.After(patience):
			t.Error("the service does not end while a console is open")
		}
		w.client.CloseIdleConnections()
	})
	return w
}

// release lets the handlers go that hang.
func (w *world) release() {
	select {
	case <-w.open:
	default:
		close(w.open)
	}
}

type query struct {
	Text string `json:"text,omitempty"`
}

func (w *world) addTools(srv *server.Server) {
	add := func(name string, handler func(ctx context.Context, call *server.Call, in query) (string, error)) {
		server.AddTool(srv, server.Tool{Name: name, Description: name}, handler)
	}
	add("search_orders", func(ctx context.Context, _ *server.Call, _ query) (string, error) {
		return "3 orders", work(ctx, "index.query", 4*time.Millisecond)
	})
	add("get_order", func(context.Context, *server.Call, query) (string, error) { return "order 4711", nil })
	add("forecast_demand", func(ctx context.Context, _ *server.Call, _ query) (string, error) {
		ctx, span := otel.Tracer("orders").Start(ctx, "forecast")
		defer span.End()
		if err := work(ctx, "warehouse.read", 30*time.Millisecond); err != nil {
			return "", err
		}
		return "12 % more", work(ctx, "model.predict", 90*time.Millisecond)
	})
	add("charge_card", func(ctx context.Context, _ *server.Call, in query) (string, error) {
		ctx, span := otel.Tracer("orders").Start(ctx, "payments.charge")
		defer span.End()
		span.SetAttributes(attribute.String("peer.service", "payments"))
		_ = work(ctx, "http.post", 12*time.Millisecond)
		if in.Text == "fail" {
			span.SetStatus(codes.Error, "the provider says no")
			return "", errors.New("payments: 503 from the provider")
		}
		return "charged", nil
	})
	add("export_ledger", func(_ context.Context, _ *server.Call, _ query) (string, error) {
		<-w.open // also after its context has ended
		return "done", nil
	})
	add("watch_shipment", func(ctx context.Context, _ *server.Call, _ query) (string, error) {
		select {
		case <-w.open:
			return "done", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	add("render_invoice", func(context.Context, *server.Call, query) (string, error) {
		panic("invoice: template has no field Total")
	})
}

// work is a span that takes about so long.
func work(ctx context.Context, name string, about time.Duration) error {
	_, span := otel.Tracer("orders").Start(ctx, name)
	defer span.End()
	timer := time.NewTimer(about/2 + rand.N(about))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A caller is a client by its name.
type caller struct{ name, version string }

// call calls a tool in the modern era. The answer is of no interest.
func (w *world) call(ctx context.Context, who caller, id any, tool, text string) error {
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{
			"name": tool, "arguments": map[string]any{"text": text}, "_meta": map[string]any{
				"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
				"io.modelcontextprotocol/clientCapabilities": map[string]any{},
				"io.modelcontextprotocol/clientInfo":         map[string]any{"name": who.name, "version": who.version},
			},
		},
	})
	if err != nil {
		return err
	}
	return w.post(ctx, body, map[string]string{
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	}, nil)
}

// post posts a frame. The session of the answer goes to session, if there is one.
func (w *world) post(ctx context.Context, body []byte, header map[string]string, session *string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.MCP, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if session != nil {
		*session = resp.Header.Get("Mcp-Session-Id")
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// session opens a legacy session.
func (w *world) session(t *testing.T, who caller) (id string) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
		`"capabilities":{},"clientInfo":{"name":%q,"version":%q}}}`, who.name, who.version)
	if err := w.post(t.Context(), []byte(body), nil, &id); err != nil || id == "" {
		t.Fatalf("initialize: session %q, %v", id, err)
	}
	if err := w.legacy(t.Context(), id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		t.Fatal(err)
	}
	w.opened = append(w.opened, id)
	return id
}

// end ends a legacy session.
func (w *world) end(t *testing.T, session string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, w.MCP, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", session)
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// legacy posts a frame in a session.
func (w *world) legacy(ctx context.Context, session, frame string) error {
	return w.post(ctx, []byte(frame), map[string]string{"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}, nil)
}

// background runs f until the test ends, and waits for it.
func background(t *testing.T, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// begin starts a call that is not waited for before the test ends.
func (w *world) begin(t *testing.T, who caller, id any, tool string) (drop context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	background(t, func(done context.Context) {
		stop := context.AfterFunc(done, cancel)
		defer stop()
		_ = w.call(ctx, who, id, tool, "") // the page shows its outcome
	})
	return cancel
}

// awaitInFlight waits until a request is in flight. It is false if ctx has ended before.
func (w *world) awaitInFlight(ctx context.Context, id string) bool {
	for ctx.Err() == nil {
		var rep struct{ Requests []struct{ ID string } }
		if req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.Admin+"/debug/requests", nil); err == nil {
			req.Header.Set("Accept", "application/json")
			if resp, err := w.client.Do(req); err == nil {
				_ = json.NewDecoder(resp.Body).Decode(&rep) // cut off: the next look sees more
				resp.Body.Close()
			}
		}
		for _, r := range rep.Requests {
			if r.ID == id {
				return true
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// awaitListeners waits until n streams of live frames are open.
func (w *world) awaitListeners(t *testing.T, n int) {
	t.Helper()
	want := fmt.Sprintf("\nvitrine_telemetry_live_listeners %d\n", n)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		resp, err := w.client.Get(w.Admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && bytes.Contains(text, []byte(want)) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("there are never %d listeners", n)
		}
	}
}

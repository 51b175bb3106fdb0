package gosdk_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/adapters/gosdk"
	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is an instrumented server that records the calls of its handlers.
type world struct {
	*adapttest.Rig
	t       *testing.T
	server  *sdk.Server
	adapter *gosdk.Adapter
	failure error        // what the tool fail returns
	values  chan any     // what the tool value has found in its context
	pages   atomic.Int64 // how many pages of lists the server of newToolWorld has made
	onPage  func()       // runs for each of these pages; may be nil
}

type (
	sum   struct{ A, B int }
	total struct{ Sum int }
	none  struct{}
)

func newWorld(t *testing.T, middlewares ...middleware.Middleware) *world {
	w := &world{
		Rig: adapttest.New(t), t: t,
		failure: errors.New("no such table"),
		values:  make(chan any, 10),
	}
	w.server = sdk.NewServer(&sdk.Implementation{Name: "world", Version: "1.0.0"}, &sdk.ServerOptions{
		CompletionHandler: func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			panic("the completion's fault")
		},
		ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationServerRequest) {
			panic("the notification's fault")
		},
	})
	sdk.AddTool(w.server, &sdk.Tool{Name: "add"}, func(_ context.Context, _ *sdk.CallToolRequest, in sum) (*sdk.CallToolResult, total, error) {
		return nil, total{in.A + in.B}, nil
	})
	sdk.AddTool(w.server, &sdk.Tool{Name: "wait"}, w.wait)
	sdk.AddTool(w.server, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		return nil, nil, w.failure
	})
	sdk.AddTool(w.server, &sdk.Tool{Name: "panic"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		panic("the handler's fault")
	})
	sdk.AddTool(w.server, &sdk.Tool{Name: "value"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		w.values <- ctx.Value(valueKey{})
		return nil, nil, nil
	})
	w.server.AddPrompt(&sdk.Prompt{Name: "greet"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Description: "a greeting"}, nil
	})
	w.server.AddResource(&sdk.Resource{Name: "note", URI: "note://1"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return nil, errors.New("the disk is on fire")
	})
	w.server.AddResource(&sdk.Resource{Name: "gone", URI: "note://2"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return nil, mcp.CallerFault(errors.New("it was deleted"))
	})
	w.adapter = gosdk.Instrument(w.server, w.Telemetry, middlewares...)
	return w
}

type valueKey struct{}

// wait waits until it is cancelled or released.
func (w *world) wait(ctx context.Context, _ *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
	return nil, nil, w.Wait(ctx)
}

// A wire connects a client.
type wire struct {
	name      string
	transport string // as telemetry names it
	version   string
	dial      func(w *world, client *sdk.Client) *sdk.ClientSession
}

func (x wire) connect(w *world) *sdk.ClientSession {
	return x.dial(w, newClient())
}

func newClient() *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "2.0.0"}, nil)
}

// wires has all of them.
func wires() []wire {
	return []wire{
		{"legacy over HTTP", "http", legacy, func(w *world, c *sdk.Client) *sdk.ClientSession { return w.dialHTTP(c, legacy) }},
		{"modern over HTTP", "http", modern, func(w *world, c *sdk.Client) *sdk.ClientSession { return w.dialHTTP(c, modern) }},
		{"legacy in memory", "memory", legacy, func(w *world, c *sdk.Client) *sdk.ClientSession { return w.dialMemory(c, legacy) }},
		{"modern in memory", "memory", modern, func(w *world, c *sdk.Client) *sdk.ClientSession { return w.dialMemory(c, modern) }},
	}
}

// farAway is a time at which nothing in a test has expired.
var farAway = time.Now().Add(time.Hour)

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// each runs a test over all wires.
func each(t *testing.T, test func(t *testing.T, wire wire)) {
	for _, wire := range wires() {
		t.Run(wire.name, func(t *testing.T) { test(t, wire) })
	}
}

// serveHTTP serves one era: a handler of the SDK speaks either.
func (w *world) serveHTTP(version string, outer ...func(http.Handler) http.Handler) (url string) {
	w.t.Helper()
	return w.listen(w.adapter.HTTP(w.sdkHandler(version)), outer...)
}

func (w *world) sdkHandler(version string) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return w.server },
		&sdk.StreamableHTTPOptions{Stateless: version == modern})
}

func (w *world) listen(handler http.Handler, outer ...func(http.Handler) http.Handler) (url string) {
	w.t.Helper()
	for _, wrap := range outer {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	w.t.Cleanup(func() {
		for session := range w.server.Sessions() {
			_ = session.Close()
		}
		server.Close()
	})
	return server.URL
}

func (w *world) dialHTTP(client *sdk.Client, version string, outer ...func(http.Handler) http.Handler) *sdk.ClientSession {
	return w.dial(client, &sdk.StreamableClientTransport{Endpoint: w.serveHTTP(version, outer...)}, version)
}

func (w *world) dialMemory(client *sdk.Client, version string) *sdk.ClientSession {
	w.t.Helper()
	here, there := sdk.NewInMemoryTransports()
	session, err := w.server.Connect(w.t.Context(), w.adapter.Transport(here), nil)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = session.Wait() })
	return w.dial(client, there, version)
}

func (w *world) dial(client *sdk.Client, transport sdk.Transport, version string) *sdk.ClientSession {
	w.t.Helper()
	session, err := client.Connect(w.t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = session.Close() })
	return session
}

// call calls a tool.
func call(t *testing.T, session *sdk.ClientSession, tool string, arguments any) (*sdk.CallToolResult, error) {
	t.Helper()
	return session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
}

// goWait calls the tool wait, and returns when its handler runs.
func (w *world) goWait(session *sdk.ClientSession) (cancel context.CancelFunc, done <-chan error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "wait", Arguments: none{}})
		ended <- err
	}()
	w.t.Cleanup(cancel)
	adapttest.Receive(w.t, w.Started, "the handler to start")
	return cancel, ended
}

package mcpgo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/adapters/mcpgo"
	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	vitrine "github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is an instrumented server that records the calls of its handlers.
type world struct {
	*adapttest.Rig
	t       *testing.T
	server  *server.MCPServer
	adapter *mcpgo.Adapter
	failure error // what the tool fail returns
}

func newWorld(t *testing.T, middlewares ...middleware.Middleware) *world {
	return newWorldWith(t, nil, middlewares...)
}

// newWorldWith makes the server with more options.
func newWorldWith(t *testing.T, options []server.ServerOption, middlewares ...middleware.Middleware) *world {
	w := &world{
		Rig: adapttest.New(t), t: t,
		failure: errors.New("no such table"),
	}
	w.server = server.NewMCPServer("world", "1.0.0",
		append(options, server.WithPromptCompletionProvider(completions{}), server.WithCompletions())...)
	w.adapter = mcpgo.Instrument(w.server, w.Telemetry, middlewares...)
	w.server.AddTool(mcp.NewTool("add", mcp.WithNumber("a"), mcp.WithNumber("b")),
		func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultStructuredOnly(map[string]any{"sum": req.GetInt("a", 0) + req.GetInt("b", 0)}), nil
		})
	w.server.AddTool(mcp.NewTool("wait"), w.wait)
	w.server.AddTool(mcp.NewTool("fail"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, w.failure
	})
	w.server.AddTool(mcp.NewTool("broken"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError("it is broken"), nil
	})
	w.server.AddTool(mcp.NewTool("panic"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		panic("the handler's fault")
	})
	w.server.AddPrompt(mcp.NewPrompt("greet"), func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return mcp.NewGetPromptResult("a greeting", nil), nil
	})
	w.server.AddResource(mcp.NewResource("note://1", "note"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: "note://1", Text: "a note"}}, nil
	})
	w.server.AddResource(mcp.NewResource("note://2", "fire"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return nil, errors.New("the disk is on fire")
	})
	w.server.AddResource(mcp.NewResource("note://3", "gone"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		return nil, vitrine.CallerFault(errors.New("it was deleted"))
	})
	return w
}

// completions panic.
type completions struct{}

func (completions) CompletePromptArgument(context.Context, string, mcp.CompleteArgument, mcp.CompleteContext) (*mcp.Completion, error) {
	panic("the provider's fault")
}

// wait waits until it is cancelled or released.
func (w *world) wait(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText("waited"), w.Wait(ctx)
}

// A wire connects a client.
type wire struct {
	name      string
	transport string // as telemetry names it
	version   string
}

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// wires has all of them.
func wires() []wire {
	return []wire{
		{"legacy over HTTP", "http", legacy}, {"modern over HTTP", "http", modern},
		{"legacy over stdio", "stdio", legacy}, {"modern over stdio", "stdio", modern},
	}
}

// each runs a test over all wires.
func each(t *testing.T, test func(t *testing.T, wire wire)) {
	for _, wire := range wires() {
		t.Run(wire.name, func(t *testing.T) { test(t, wire) })
	}
}

func (x wire) connect(w *world) *client.Client {
	if x.transport == "stdio" {
		c, _ := w.pipe(x.version)
		return c
	}
	c, err := transport.NewStreamableHTTP(w.serveHTTP())
	require.NoError(w.t, err)
	return w.dial(c, x.version)
}

// serveHTTP serves both eras.
func (w *world) serveHTTP() (url string) {
	server := httptest.NewServer(w.adapter.HTTP(server.NewStreamableHTTPServer(w.server)))
	w.t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return server.URL
}

// pipe connects a client over pipes, as stdio is. hangUp ends what the server reads.
func (w *world) pipe(version string) (c *client.Client, hangUp func()) {
	w.t.Helper()
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- w.adapter.Listen(w.t.Context(), server.NewStdioServer(w.server), toServer, fromServer)
		_ = fromServer.Close()
	}()
	w.t.Cleanup(func() {
		_ = fromClient.Close()
		_ = adapttest.Receive(w.t, served, "the end of Listen")
	})
	return w.dial(transport.NewIO(toClient, fromClient, io.NopCloser(http.NoBody)), version), func() { _ = fromClient.Close() }
}

func (w *world) dial(wire transport.Interface, version string) *client.Client {
	w.t.Helper()
	c := client.NewClient(wire, client.WithProtocolVersion(version), client.WithElicitationHandler(agreeing{}))
	require.NoError(w.t, c.Start(w.t.Context()))
	_, err := c.Initialize(w.t.Context(), mcp.InitializeRequest{Params: mcp.InitializeParams{
		ClientInfo: mcp.Implementation{Name: "tester", Version: "2.0.0"},
	}})
	require.NoError(w.t, err)
	require.Equal(w.t, version, c.ProtocolVersion())
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// An agreeing user accepts each question.
type agreeing struct{}

func (agreeing) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{},
	}}, nil
}

// call calls a tool.
func call(t *testing.T, c *client.Client, tool string, arguments any) (*mcp.CallToolResult, error) {
	t.Helper()
	return c.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: arguments}})
}

// goWait calls the tool wait, and returns when its handler runs.
func (w *world) goWait(c *client.Client) (cancel context.CancelFunc, done <-chan error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "wait"}})
		ended <- err
	}()
	w.t.Cleanup(cancel)
	adapttest.Receive(w.t, w.Started, "the handler to start")
	return cancel, ended
}

type numbers struct {
	A int `json:"a"`
	B int `json:"b"`
}

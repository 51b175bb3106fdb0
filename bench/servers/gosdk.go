package servers

import (
	"context"
	"net"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newGoSDK has a handler for each era, because a stateful one rejects modern clients.
func newGoSDK(tools int) (Server, error) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	said := func(s string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
	}
	mcp.AddTool(srv, &mcp.Tool{Name: Echo, Description: echoDescription},
		func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			return said(in.Text), nil, nil
		})
	mcp.AddTool(srv, &mcp.Tool{Name: Steps, Description: stepsDescription},
		func(ctx context.Context, req *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
			for i := range StepCount {
				err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: StepCount,
				})
				if err != nil {
					return nil, nil, err
				}
			}
			return said("done"), nil, nil
		})
	for _, name := range fillers(tools) {
		mcp.AddTool(srv, &mcp.Tool{Name: name, Description: fillerDescription},
			func(context.Context, *mcp.CallToolRequest, filler) (*mcp.CallToolResult, any, error) {
				return said(""), nil, nil
			})
	}
	get := func(*http.Request) *mcp.Server { return srv }
	// The cheaper form of its answers. It cannot carry progress, so that requests for progress use
	// the other one.
	plain := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	streaming := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
	return Server{
		Modern: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Name") == Steps {
				streaming.ServeHTTP(w, r)
			} else {
				plain.ServeHTTP(w, r)
			}
		}),
		Legacy: mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{JSONResponse: true}),
		Stdio:  func(ctx context.Context) error { return srv.Run(ctx, &mcp.StdioTransport{}) },
		// Like NewInMemoryTransports, with one end for the bench.
		Memory: func() (Ask, error) {
			return overPipe(func(c net.Conn) { _ = srv.Run(context.Background(), &mcp.IOTransport{Reader: c, Writer: c}) }), nil
		},
	}, nil
}

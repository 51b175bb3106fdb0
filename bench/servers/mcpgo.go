package servers

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func newMCPGo(tools int) (Server, error) { return mcpGo(tools) }

func newMCPGoValidating(tools int) (Server, error) {
	return mcpGo(tools, server.WithInputSchemaValidation(), server.WithOutputSchemaValidation())
}

// inProcess works like the transport of an in-process client.
func inProcess(srv *server.MCPServer) (Ask, error) {
	session := server.NewInProcessSession(server.GenerateInProcessSessionID(), nil)
	if err := srv.RegisterSession(context.Background(), session); err != nil {
		return nil, err
	}
	ctx := srv.WithContext(context.Background(), session)
	return func(message []byte) ([]byte, error) {
		return json.Marshal(srv.HandleMessage(ctx, message))
	}, nil
}

func mcpGo(tools int, opts ...server.ServerOption) (Server, error) {
	srv := server.NewMCPServer("bench", "1", append(opts, server.WithToolCapabilities(true), server.WithRecovery())...)
	srv.AddTool(mcp.NewTool(Echo, mcp.WithDescription(echoDescription), mcp.WithInputSchema[text]()),
		mcp.NewTypedToolHandler(func(_ context.Context, _ mcp.CallToolRequest, in text) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(in.Text), nil
		}))
	srv.AddTool(mcp.NewTool(Steps, mcp.WithDescription(stepsDescription), mcp.WithInputSchema[none]()),
		func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for i := range StepCount {
				err := srv.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
					"progressToken": req.Params.Meta.ProgressToken, "progress": i + 1, "total": StepCount,
				})
				if err != nil {
					return nil, err
				}
			}
			return mcp.NewToolResultText("done"), nil
		})
	for _, name := range fillers(tools) {
		srv.AddTool(mcp.NewTool(name, mcp.WithDescription(fillerDescription), mcp.WithInputSchema[filler]()),
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText(""), nil
			})
	}
	return Server{
		Modern: server.NewStreamableHTTPServer(srv),
		Legacy: server.NewStreamableHTTPServer(srv, server.WithStateful(true)),
		Stdio:  func(context.Context) error { return server.ServeStdio(srv) },
		Memory: func() (Ask, error) { return inProcess(srv) },
	}, nil
}

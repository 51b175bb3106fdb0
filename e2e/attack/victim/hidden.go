package main

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// addHidden adds one item of each kind, with the name hidden, for policies to hide.
func addHidden(srv *server.Server) {
	complete := server.CompleteFrom("secret-1", "secret-2")
	server.AddTool(srv, server.Tool{Name: "hidden"}, func(context.Context, *server.Call, none) (string, error) {
		return "secret", nil
	})
	server.AddPrompt(srv, server.Prompt{Name: "hidden", Arguments: []server.PromptArgument{{Name: "a", Complete: complete}}},
		func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return mcp.PromptText("secret"), nil
		})
	server.AddStaticResource(srv, server.Resource{URI: "test://hidden", Name: "hidden", MIMEType: "text/plain"}, "secret")
	server.AddResourceTemplate(srv, server.ResourceTemplate{
		URITemplate: "hidden://{a}", Name: "hidden", Complete: map[string]server.CompleteFunc{"a": complete},
	}, func(context.Context, *server.Call, string, map[string]string) (string, error) { return "secret", nil })
}

package mcpgo_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/mark3labs/mcp-go/server"

	"github.com/vitrine-mcp/vitrine/adapters/mcpgo"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A server of mcp-go becomes a protected resource. A policy demands a scope for one of its tools.
func ExampleAdapter_Authenticate() {
	srv := server.NewMCPServer("notes", "1.0.0")
	resource, err := oauth.New(oauth.Config{Issuers: []string{"https://login.example.com"}, Resource: "https://mcp.example.com/mcp"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resource.Close()

	adapter := mcpgo.Instrument(srv, telemetry.Disabled())
	adapter.Authenticate(resource)
	adapter.Authorize(auth.PolicyFunc(func(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
		if op.Name == "delete_note" && !p.HasScope("notes:write") {
			return auth.Decision{Effect: auth.NeedScopes, Scopes: []string{"notes:write"}, Rule: "write"}
		}
		return auth.Decision{Effect: auth.Allow}
	}))
	handler := adapter.HTTP(server.NewStreamableHTTPServer(srv))

	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader("{}")))
	fmt.Println(answer.Code, answer.Header().Get("WWW-Authenticate"))

	// Output:
	// 401 Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
}

package oauth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// A program of its own gives the resource server to server.WithAuthenticator, and serves the
// metadata. Programs of package service need flags only: --oauth-issuer and --oauth-resource.
func Example() {
	rs, err := oauth.New(oauth.Config{
		Issuers: []string{"https://login.example.com"}, Resource: "https://mcp.example.com/mcp", Scopes: []string{"files:read"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rs.Close()

	mux := http.NewServeMux()
	// mux.Handle("/mcp", srv.Handler()) of server.New(…, server.WithAuthenticator(rs))
	for _, path := range rs.MetadataPaths() {
		mux.Handle(path, rs.Handler())
		fmt.Println(path)
	}

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "/.well-known/oauth-protected-resource/mcp", nil))
	var metadata map[string]any
	_ = json.Unmarshal(answer.Body.Bytes(), &metadata)
	fmt.Println(metadata["resource"], metadata["authorization_servers"])
	fmt.Println(rs.Challenge(403, []string{"files:write"}))

	// Output:
	// /.well-known/oauth-protected-resource
	// /.well-known/oauth-protected-resource/mcp
	// https://mcp.example.com/mcp [https://login.example.com]
	// Bearer error="insufficient_scope", error_description="the operation needs scopes that the access token does not have", scope="files:write", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
}

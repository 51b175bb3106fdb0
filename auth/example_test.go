package auth_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// staticTokens finds principals by bearer tokens, which it keeps as digests. Give it to a
// server with server.WithAuthenticator.
type staticTokens map[[sha256.Size]byte]*auth.Principal

func (t staticTokens) Authenticate(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
	if caller.Transport == "stdio" {
		return nil, nil // the user who has started the process
	}
	token, _ := strings.CutPrefix(http.Header(caller.Header).Get("Authorization"), "Bearer ")
	if p := t[sha256.Sum256([]byte(token))]; p != nil {
		return p, nil
	}
	return nil, &mcp.Refusal{Status: 401, Reason: "token", By: "static_tokens", Challenge: `Bearer realm="weather"`}
}

func ExampleAuthenticator() {
	tokens := staticTokens{sha256.Sum256([]byte("sesame")): {Subject: "ann", Scopes: []string{"forecast"}}}
	for _, header := range []string{"Bearer sesame", "Bearer open", ""} {
		p, err := tokens.Authenticate(context.Background(), &auth.Caller{
			Transport: "http", Header: http.Header{"Authorization": {header}},
		})
		fmt.Printf("%q: %v %v\n", header, p, err)
	}

	// Output:
	// "Bearer sesame": ann <nil>
	// "Bearer open":  refused: token
	// "":  refused: token
}

func ExamplePrincipal_HasScope() {
	ann := &auth.Principal{Issuer: "https://login.example.com", Subject: "ann", Scopes: []string{"files:read"}}
	fmt.Println(ann, ann.HasScope("files:read"), ann.HasScope("files:write"))
	var nobody *auth.Principal
	fmt.Println(nobody.HasScope("files:read"))

	// Output:
	// ann (https://login.example.com) true false
	// false
}

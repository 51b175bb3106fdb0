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

func ExamplePolicy() {
	// Drafts are for their team. Everybody else does not learn that they exist.
	drafts := auth.PolicyFunc(func(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
		if strings.HasPrefix(op.Name, "draft_") && (p == nil || p.Tenant != "editors") {
			return auth.Decision{Effect: auth.Deny, Rule: "drafts"}
		}
		return auth.Decision{Effect: auth.Allow}
	})
	policy := auth.Combine(auth.Scopes(auth.Hierarchy{"texts:write": {"texts:read"}}), drafts)

	ann := &auth.Principal{Subject: "ann", Scopes: []string{"texts:write"}}
	for _, op := range []*auth.Operation{
		{Method: "tools/call", Kind: auth.KindTool, Name: "read", Scopes: []string{"texts:read"}},
		{Method: "tools/call", Kind: auth.KindTool, Name: "publish", Scopes: []string{"texts:publish"}},
		{Method: "tools/call", Kind: auth.KindTool, Name: "draft_read"},
	} {
		d := policy.Decide(context.Background(), ann, op)
		fmt.Println(op.Name, d.Effect, d.Rule, d.Scopes)
	}

	// Output:
	// read allow scopes []
	// publish need_scopes scopes [texts:publish]
	// draft_read deny drafts []
}

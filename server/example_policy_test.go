package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A policy in Go hides the tools of operators from all others. Scopes hide nothing: a caller that
// lacks one is told what to ask for.
func ExampleWithPolicy() {
	operators := auth.PolicyFunc(func(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
		if strings.HasPrefix(op.Name, "admin_") && !p.HasScope("operate") {
			return auth.Decision{Effect: auth.Deny, Rule: "operators", Reason: "only operators may see this"}
		}
		return auth.Decision{Effect: auth.Allow, Rule: "operators"}
	})
	srv := server.New("notes", "1.0.0", server.WithTelemetry(telemetry.Disabled()), server.WithLogger(slog.New(slog.DiscardHandler)),
		server.WithPolicy(operators), server.WithScopeHierarchy(auth.Hierarchy{"notes:write": {"notes:read"}}),
		server.WithAuthenticator(auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) {
			return &auth.Principal{Subject: "ann", Scopes: []string{"notes:write"}}, nil
		})))
	type none struct{}
	for _, t := range []server.Tool{
		{Name: "read", Scopes: []string{"notes:read"}}, {Name: "delete", Scopes: []string{"notes:write", "notes:delete"}}, {Name: "admin_reset"},
	} {
		server.AddTool(srv, t, func(context.Context, *server.Call, none) (string, error) { return "done", nil })
	}

	t := newExampleT() // a test passes its own
	defer t.end()
	client := servertest.Connect(t, srv)
	for _, name := range []string{"read", "delete", "admin_reset"} {
		result, err := client.CallTool(context.Background(), name, none{})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(name+":", result.Text())
	}

	// Output:
	// read: done
	// this needs the scopes notes:write notes:delete (403)
	// there is no tool "admin_reset" (-32602)
}

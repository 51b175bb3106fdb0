package server_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/server"
)

// A policy that waits holds no turn.
func TestPolicyHoldsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decide := make(chan struct{})
		srv := newServer(t, server.WithLimits(server.Limits{MaxTurns: 1}),
			server.WithPolicy(auth.PolicyFunc(func(context.Context, *auth.Principal, *auth.Operation) auth.Decision {
				<-decide
				return auth.Decision{Effect: auth.Allow}
			})))
		server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
		answered := inBackground(srv, "POST", modern(1, "tools/call", call("hi", "{}")), modernHeaders("tools/call", "hi")...)
		synctest.Wait()
		for _, s := range srv.Core().Snapshot().Shares {
			if s.Limit == "max_turns" {
				require.Zero(t, s.Used)
			}
		}
		close(decide)
		require.Contains(t, (<-answered).Body.String(), "hello")
	})
}

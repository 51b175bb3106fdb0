//go:build !race

package auth_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

func TestAllocationsOfADecision(t *testing.T) {
	policy := auth.Combine(auth.Scopes(files), always(auth.Decision{Effect: auth.Allow, Rule: "open"}))
	p := &auth.Principal{Subject: "ann", Scopes: []string{"mail", "files:admin"}}
	op := &auth.Operation{Method: "tools/call", Scopes: []string{"files:read"}}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if d := policy.Decide(t.Context(), p, op); d.Rule != "open" {
			t.Errorf("got %+v", d)
		}
	}))
}

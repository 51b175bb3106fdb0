package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

// The first decision that does not pass stays.
func TestARefusalStaysTheDecision(t *testing.T) {
	allow, dry := &auth.Decision{Effect: auth.Allow, Rule: "a"}, &auth.Decision{Rule: "b", DryRun: true}
	deny, later := &auth.Decision{Rule: "c"}, &auth.Decision{Effect: auth.NeedScopes, Rule: "d"}
	var r Request
	require.Nil(t, r.Decision())
	for i, want := range []*auth.Decision{allow, dry, deny, deny, deny} {
		r.SetDecision([]*auth.Decision{allow, dry, deny, later, allow}[i])
		require.Same(t, want, r.Decision())
	}
}

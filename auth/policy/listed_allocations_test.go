//go:build !race

package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
)

// The decision about one more item of a list allocates nothing if the rules are about the caller alone.
func TestListedAllocations(t *testing.T) {
	p := parse(t, "default: deny\nrules:\n  - name: staff\n    effect: allow\n    when: principal.tenant == \"bank\"\n")
	bank, op := &auth.Principal{Subject: "ann", Tenant: "bank"}, listed("read")
	require.Zero(t, testing.AllocsPerRun(1000, func() { p.Decide(t.Context(), bank, op) }))
}

package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/policy"
)

// The file in the examples is the one of the page, and decides as the page says.
func TestExampleFile(t *testing.T) {
	p, err := policy.Open("../../examples/policy/policy.yaml", policy.Config{})
	require.NoError(t, err)
	file, err := os.ReadFile("../../examples/policy/policy.yaml")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/policy.md")
	require.NoError(t, err)
	_, rules, _ := strings.Cut(string(file), "examples/policy/policy.yaml\n")
	require.Contains(t, string(page), "```yaml\n"+rules+"```\n")

	ann := &auth.Principal{Subject: "ann", Tenant: "bank", Claims: map[string]any{"shift": "night"}}
	d := p.Decide(t.Context(), ann, call("pay", `{"amount": 20}`))
	require.True(t, d.Passes() && d.DryRun && d.Rule == "night-shift", "%+v", d)
	require.Equal(t, "large-payments", p.Decide(t.Context(), ann, call("pay", `{"amount": 2000}`)).Rule)
	read := &auth.Operation{Method: "resources/read", Kind: auth.KindTemplate, URI: "file:///home/bob/a"}
	require.Equal(t, "default", p.Decide(t.Context(), ann, read).Rule)
}

// The page of limits has each limit, its field and its default.
func TestPageListsLimits(t *testing.T) {
	page, err := os.ReadFile("../../docs/limits.md")
	require.NoError(t, err)
	for _, row := range []string{
		policy.LimitFileBytes + "` | `MaxFileBytes` | 1 MiB |", policy.LimitRules + "` | `MaxRules` | 1000 |",
		policy.LimitCostEstimate + "` | `MaxCostEstimate` | 10,000,000 steps |", policy.LimitCost + "` | `MaxCost` | 100,000 steps |",
		policy.LimitValues + "` | `MaxValues` | 10,000 |", policy.LimitDepth + "` | `MaxDepth` | 128 |",
	} {
		require.Contains(t, string(page), "\n| `"+row)
	}
}

// The page lists all variables.
func TestPageListsVariables(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy.md")
	require.NoError(t, err)
	for _, first := range []string{"principal", "operation", "caller"} {
		_, err = policy.Parse([]byte("default: deny\nrules: [{name: a, effect: allow, when: "+first+".x}]"), policy.Config{})
		_, names, ok := strings.Cut(err.Error(), "there are ")
		require.True(t, ok)
		for name := range strings.SplitSeq(names, ", ") {
			require.Contains(t, string(page), "`"+name+"`")
		}
	}
}

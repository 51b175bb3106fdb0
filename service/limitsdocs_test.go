package service_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// documentedLimit is the first cell of a row of docs/limits.md, or a name in its list of the limits of telemetry.
var documentedLimit = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| `[A-Z]|`([a-z_]+)` \\((?:`telemetry\\.|`[A-Z]|`audit\\.)")

// TestLimitsPageIsComplete checks that /debug/limits of a server with an issuer, a file of rules and an audit has
// all limits of docs/limits.md, and no other.
func TestLimitsPageIsComplete(t *testing.T) {
	text, err := os.ReadFile("../docs/limits.md")
	require.NoError(t, err)
	var want []string
	for _, found := range documentedLimit.FindAllStringSubmatch(string(text), -1) {
		want = append(want, found[1]+found[2])
	}
	require.Contains(t, want, "max_policy_depth")
	require.Contains(t, want, "recent_total_spans")

	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, []byte("default: allow\n"), 0o600))
	i := newIssuer(t)
	r := start(t, server.New("test", "1"), append(i.settings(), "--policy="+rules, "--audit-file="+filepath.Join(t.TempDir(), "audit.jsonl"))...)
	var got []string
	page := limitsPage(t, r)
	for _, l := range page.Limits {
		got = append(got, l.Limit)
	}
	require.ElementsMatch(t, want, got)
}

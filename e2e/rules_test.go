package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// promtool checks the rules in deploy/ and dashboards/, and runs their tests: each alert fires
// where it must and stays silent elsewhere.
func TestRulesPassPromtool(t *testing.T) {
	needs.Long(t, "e2e/prometheus")
	needs.Tool(t, "e2e/prometheus", "promtool")
	t.Parallel()
	tests, err := filepath.Glob("../dashboards/*_test.yml")
	if err != nil || len(tests) == 0 {
		t.Fatalf("no tests of the rules: %v", err)
	}
	for _, args := range [][]string{
		{"check", "config", "../deploy/prometheus/prometheus.yml"},
		{"check", "rules", "../dashboards/rules.yml"},
		append([]string{"test", "rules"}, tests...),
	} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

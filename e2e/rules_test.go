package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// TestRules lets promtool check what deploy/ and dashboards/ give to Prometheus, and
// run the tests of the rules: each alert where it fires and where it stays silent.
func TestRules(t *testing.T) {
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

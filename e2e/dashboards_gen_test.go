package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// The steps of dashboards/README.md for a server of the reader: the tools come from the server,
// one gets an objective of its own, and Prometheus accepts the rules.
func TestOwnObjectives(t *testing.T) {
	needs.Long(t, "e2e/prometheus")
	needs.Tool(t, "e2e/prometheus", "promtool")
	t.Parallel()
	s := serveHTTP(t)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "objectives.yaml"), filepath.Join(dir, "monitoring")
	generate := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"run", "-C", "..", "./dashboards/gen"}, args...)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("gen %v: %v\n%s", args, err, stderr.String())
		}
		return string(text)
	}
	config := generate("-tools", s.mcp)
	var tools struct{ Tools map[string]any }
	if err := yaml.Unmarshal([]byte(config), &tools); err != nil || len(tools.Tools) < 20 {
		t.Errorf("%d tools in\n%s\n%v", len(tools.Tools), config, err)
	}
	edited := strings.NewReplacer(
		"name: Vitrine", "name: Everything\nselector: job=\"everything\"",
		"echo: {}", "echo: {availability: 99.99, latency: 100ms, fast: 99}", "sleep: {}", "sleep: {latency: -1s}",
	).Replace(config)
	if err := os.WriteFile(file, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	generate("-config", file, "-tools", s.mcp, "-out", out)
	rules := filepath.Join(out, "rules.yml")
	if text, err := exec.Command("promtool", "check", "rules", rules).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, text)
	}
	text, err := os.ReadFile(rules)
	var parsed ruleFile
	if err == nil {
		err = yaml.Unmarshal(text, &parsed)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range parsed.Groups {
		for _, r := range g.Rules {
			if _, err := parser.ParseExpr(r.Expr); err != nil {
				t.Errorf("%s%s: %v", r.Record, r.Alert, err)
			}
		}
	}
	if !strings.Contains(string(text), `gen_ai_tool_name="echo"`) || !strings.Contains(string(text), `job="everything"`) {
		t.Errorf("the promise to echo is not in\n%s", text)
	}
}

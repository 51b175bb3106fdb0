package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// cutPanel returns the query of the panel for the number of cut calls, over a time until now.
func cutPanel(t *testing.T, over time.Duration) string {
	t.Helper()
	var found []string
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			if p.Title == "Calls cut" {
				for _, target := range p.Targets {
					found = append(found, d.filledOver(target.Expr, over))
				}
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d queries say how many calls were cut", len(found))
	}
	return found[0]
}

// callsCut returns the number in the panel for the time since a moment.
func (p *prometheus) callsCut(t *testing.T, since time.Time) float64 {
	t.Helper()
	over := time.Duration(math.Ceil(time.Since(since).Seconds())) * time.Second
	lines, err := p.shown(cutPanel(t, over), "", true, since)
	if err != nil || len(lines) != 1 || len(lines[0].points) != 1 {
		t.Fatalf("the panel shows %v: %v", lines, err)
	}
	return lines[0].points[0][1]
}

// The query of the panel is compared with series as processes leave them. Its answer is exact,
// whether processes have different addresses or follow each other under one, and whether they
// were scraped often or once.
func TestQueryCountsCutCalls(t *testing.T) {
	needs.Long(t, "e2e/prometheus")
	needs.Tool(t, "e2e/prometheus", "promtool")
	t.Parallel()
	const series = `{series: 'vitrine_requests_cancelled_total{job="mcp",instance="%s",method="tools/call",tool="%s",cause="server_shutdown"}', values: '%s'}`
	for _, c := range []struct {
		title  string
		series [][3]string // instance, tool, values each minute
		want   string
	}{
		{"nothing", [][3]string{{"a", "x", "0x60"}}, "0"},
		{"at the end of a process", [][3]string{{"a", "x", "0x50 3 stale"}, {"b", "x", "0x60"}}, "3"},
		{"of two tools", [][3]string{{"a", "x", "0x50 3 stale"}, {"a", "y", "_x20 0x30 2 stale"}}, "5"},
		{"of two processes", [][3]string{{"a", "x", "0x50 3 stale"}, {"b", "x", "0x20 4 4 stale"}}, "7"},
		{"seen only once", [][3]string{{"a", "x", "_x50 4 stale"}}, "4"},
		{"the next process cuts nothing", [][3]string{{"a", "x", "0x30 3 stale 0x20"}}, "3"},
		{"the next process cuts as many", [][3]string{{"a", "x", "0x30 3 stale 0x20 3 stale"}}, "6"},
		{"the next process cuts fewer", [][3]string{{"a", "x", "0x30 3 stale _x5 0x20 2 2 stale"}}, "5"},
		{"many processes, some of which cut", [][3]string{{"a", "x", "0x10 5 stale 0x10 stale 0x10 7 stale 0x10 1 stale"}}, "13"},
	} {
		t.Run(c.title, func(t *testing.T) {
			var all []string
			for _, s := range c.series {
				all = append(all, fmt.Sprintf(series, s[0], s[1], s[2]))
			}
			file := filepath.Join(t.TempDir(), "test.yml")
			text := encode(object{"tests": []object{{
				"interval":         "1m",
				"input_series":     "SERIES",
				"promql_expr_test": []object{{"expr": cutPanel(t, time.Hour), "eval_time": "60m", "exp_samples": []object{{"labels": "{}", "value": "VALUE"}}}},
			}}})
			text = strings.NewReplacer(`"SERIES"`, "["+strings.Join(all, ", ")+"]", `"VALUE"`, c.want).Replace(text)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("promtool", "test", "rules", file).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

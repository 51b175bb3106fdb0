package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// The dashboards are checked against Grafana's own types. A dashboard with a mistake fails.
func TestDashboardsHaveGrafanasTypes(t *testing.T) {
	needs.Long(t, "e2e/grafana")
	t.Parallel()
	packages, err := filepath.Abs("node/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	node, tsc := filepath.Join(packages, "node/bin/node"), filepath.Join(packages, "typescript/bin/tsc")
	types := filepath.Join(packages, "@grafana/schema/dist/types")
	for _, file := range []string{node, tsc, types} {
		if _, err := os.Stat(file); err != nil {
			needs.Skip(t, "e2e/grafana", "npm packages of e2e/node not installed")
		}
	}
	var program strings.Builder
	fmt.Fprintf(&program, "import type { Board } from './dashboard';\n")
	for i, d := range readDashboards(t) {
		text := compactFile(t, filepath.Join("../dashboards", d.file))
		fmt.Fprintf(&program, "export const board%d = %s satisfies Board;\n", i, text)
		if d.file != "overview.json" {
			continue
		}
		for j, mistake := range [][2]string{
			{`"mode":"palette-classic"`, `"mode":"palette-modern"`},
			{`"type":"timeseries"`, `"type":"timeserie"`},
			{`"drawStyle":"line"`, `"drawStyle":"lines"`},
			{`"placement":"bottom"`, `"placement":"below"`},
			{`"graphMode":"none",`, ``},
			{`"yHistogram":true`, `"yHistograms":true`},
			{`"steps":[`, `"step":[`},
			{`"format":"heatmap"`, `"format":"heat"`},
			{`"refId":"A",`, ``},
			{`"gridPos":{"x":0,`, `"gridPos":{"left":0,`},
			{`"refresh":2`, `"refresh":3`},
			{`"schemaVersion":39`, `"schemaVersion":"39"`},
			{`"templating":{"list"`, `"templating":{"lists"`},
		} {
			if !strings.Contains(text, mistake[0]) {
				t.Errorf("%s has no %s to be mistaken about", d.file, mistake[0])
			}
			fmt.Fprintf(&program, "// @ts-expect-error: %s\nexport const broken%d = %s satisfies Board;\n",
				mistake[1], j, strings.Replace(text, mistake[0], mistake[1], 1))
		}
	}
	declarations, err := os.ReadFile("node/dashboard.d.ts")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"boards.ts": program.String(), "dashboard.d.ts": string(declarations),
		"tsconfig.json": encode(object{
			"files": []string{"boards.ts"},
			"compilerOptions": object{
				"strict": true, "noEmit": true, "skipLibCheck": true, "types": []string{}, "target": "es2022", "module": "esnext",
				"moduleResolution": "bundler", "paths": object{
					"@grafana/schema": []string{filepath.Join(types, "index.d.ts")},
					"composable/*":    []string{filepath.Join(types, "raw/composable/*")},
				},
			},
		}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(node, tsc, "--project", dir)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("tsc: %v\n%s", err, out)
	}
}

// compactFile reads JSON and puts it on one line, on which tsc expects an error.
func compactFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	var out bytes.Buffer
	if err == nil {
		err = json.Compact(&out, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

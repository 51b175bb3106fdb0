package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// boards returns the dashboards of a configuration, by their keys.
func boards(c *config) map[string]dashboard {
	all := map[string]dashboard{}
	for _, s := range sheets(c) {
		all[s.key] = s.dashboard(c)
	}
	return all
}

// TestPanels checks that each panel has a description, a unit and its good values, and that no
// panels overlap.
func TestPanels(t *testing.T) {
	c := defaults()
	uids := map[string]bool{}
	for key, d := range boards(&c) {
		require.False(t, uids[d.UID])
		uids[d.UID] = true
		require.LessOrEqual(t, len(d.UID), 40)
		require.NotEmpty(t, d.Description, key)
		taken, ids := map[[2]int]string{}, map[int]bool{}
		for _, p := range d.Panels {
			at := key + ": " + p.Title
			require.False(t, ids[p.ID], at)
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				require.Less(t, x, 24, at)
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					require.Empty(t, taken[[2]int{x, y}], at)
					taken[[2]int{x, y}] = at
				}
			}
			require.NotEmpty(t, p.Title, at)
			if p.Type == "row" {
				continue
			}
			require.Regexp(t, `^[A-Za-z].*\.$`, p.Description, at)
			require.NotEmpty(t, p.FieldConfig.Defaults.Unit, at)
			require.NotEmpty(t, p.FieldConfig.Defaults.Thresholds.Steps, at)
			require.NotEmpty(t, p.Targets, at)
			last := -1e300
			for i, step := range p.FieldConfig.Defaults.Thresholds.Steps {
				require.Equal(t, i == 0, step.Value == nil, at)
				if i > 0 {
					require.GreaterOrEqual(t, *step.Value, last, at)
					last = *step.Value
				}
			}
			for _, target := range p.Targets {
				require.NotEqual(t, target.Instant, target.Range, at)
				require.True(t, len(p.Targets) == 1 || target.LegendFormat != "", "%s: which line is which?", at)
			}
		}
	}
}

var (
	aSelector = regexp.MustCompile(`\b[a-z][a-zA-Z0-9_:]*\{[^}]*\}`)
	aMetric   = regexp.MustCompile(`\b(?:vitrine|mcp|go|process)_[a-z0-9_]+`)
)

// TestFilters checks that the filters of a dashboard and the selector of the configuration are in
// every query. For series of rules they are in the rules.
func TestFilters(t *testing.T) {
	c := defaults()
	c.Selector = `team="weather"`
	for key, d := range boards(&c) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				selectors := aSelector.FindAllString(target.Expr, -1)
				require.NotEmpty(t, selectors, target.Expr)
				for _, s := range selectors {
					require.Contains(t, s, `namespace=~"$namespace"`, key)
					require.Contains(t, s, `job=~"$job"`, key)
					if strings.HasPrefix(s, "vitrine:") {
						require.Contains(t, s, `gen_ai_tool_name=~"$tool"`)
						continue
					}
					require.Contains(t, s, `instance=~"$instance"`)
					require.Contains(t, s, c.Selector)
				}
				for _, name := range aMetric.FindAllString(aSelector.ReplaceAllString(target.Expr, ""), -1) {
					require.Contains(t, []string{"mcp_method_name", "mcp_protocol_version"}, name, "%s: no selector in %s", key, target.Expr)
				}
			}
		}
	}
	for _, g := range rules(&c).Groups {
		for _, r := range g.Rules {
			for _, name := range regexp.MustCompile(`\b(?:vitrine[:_]|mcp_server_)[a-z0-9_:]+\b`).FindAllString(aSelector.ReplaceAllString(r.Expr, ""), -1) {
				t.Errorf("no selector for %s in %s", name, r.Expr)
			}
			for _, s := range aSelector.FindAllString(r.Expr, -1) {
				if strings.HasPrefix(s, "vitrine:") {
					require.Contains(t, s, `service="vitrine"`, r.Expr)
				} else {
					require.Contains(t, s, c.Selector, r.Expr)
				}
			}
		}
	}
}

// TestEveryMetricIsShown checks that each metric is in a panel or a rule.
func TestEveryMetricIsShown(t *testing.T) {
	c := defaults()
	seen := map[string]bool{}
	for _, d := range boards(&c) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				for _, name := range aMetric.FindAllString(target.Expr, -1) {
					seen[name] = true
					for _, part := range []string{"_bucket", "_sum", "_count"} {
						seen[strings.TrimSuffix(name, part)] = true
					}
				}
			}
		}
	}
	for name := range catalogue {
		require.True(t, seen[name], "no panel shows %s", name)
	}
}

// Requests without an objective of latency, like calls of tools that stream, are neither slow nor fast enough.
func TestPanelsOfLatencyShowOnlyWhatHasAnObjective(t *testing.T) {
	c := defaults()
	for key, d := range boards(&c) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				rates := strings.Count(target.Expr, recordSlow) + strings.Count(target.Expr, recordSlowing) + strings.Count(target.Expr, recordSucceeded)
				require.Equal(t, rates, strings.Count(target.Expr, "and on "+toolLabels+" "+recordSlowable), "%s: %s", key, p.Title)
			}
		}
	}
}

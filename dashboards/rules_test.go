// Package dashboards holds the rules, and later the dashboards, for the metrics of a
// Vitrine server.
package dashboards

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

var (
	metricName = regexp.MustCompile(`\b(?:vitrine|mcp)_[a-z_]+`)
	selector   = regexp.MustCompile(`\b((?:vitrine|mcp)_[a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)(?:=|!=|=~|!~)"([^"]*)"`)
)

// TestRulesNameWhatExists fails when a rule names a metric, a label or a label value
// that no server exposes.
func TestRulesNameWhatExists(t *testing.T) {
	metrics := map[string]telemetry.Metric{}
	for _, m := range telemetry.Catalogue() {
		metrics[m.Name] = m
	}
	rules, err := os.ReadFile("rules.yml")
	require.NoError(t, err)
	names := metricName.FindAllString(string(rules), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.Contains(t, metrics, name)
	}
	selectors := selector.FindAllStringSubmatch(string(rules), -1)
	require.NotEmpty(t, selectors)
	for _, s := range selectors {
		labels := metrics[s[1]].Labels
		matchers := matcher.FindAllStringSubmatch(s[2], -1)
		require.NotEmpty(t, matchers, s[0])
		for _, m := range matchers {
			i := slices.IndexFunc(labels, func(l telemetry.Label) bool { return l.Name == m[1] })
			require.GreaterOrEqual(t, i, 0, "%s has no label %s", s[1], m[1])
			if labels[i].Values != nil { // else they come from registrations
				require.Contains(t, labels[i].Values, m[2], "%s{%s}", s[1], m[1])
			}
		}
	}
}

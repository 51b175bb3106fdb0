package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write the files of dashboards/ anew")

// folder is where the files of the default configuration are.
const folder = ".."

// TestFiles fails when the files in dashboards/ are not what is generated.
func TestFiles(t *testing.T) {
	c := defaults()
	want, err := files(&c)
	require.NoError(t, err)
	if *update {
		require.NoError(t, write(folder, &c))
	}
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Equal(t, string(text), string(got), "%s: go test ./dashboards/... -update writes it anew", name)
	}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".json" {
			require.Contains(t, want, e.Name(), "nothing generates it")
		}
	}
}

// TestGeneratedTwice checks that two runs generate the same files.
func TestGeneratedTwice(t *testing.T) {
	c := defaults()
	c.Tools = map[string]objective{"a": {Availability: 99}, "b": {Latency: time.Second}, "c": {Fast: 99}}
	once, err := files(&c)
	require.NoError(t, err)
	for range 10 {
		again, err := files(&c)
		require.NoError(t, err)
		require.Equal(t, once, again)
	}
}

// alerts returns those of the default configuration.
func alerts(t *testing.T) (list []rule) {
	t.Helper()
	c := defaults()
	for _, g := range rules(&c).Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				list = append(list, r)
			}
		}
	}
	require.NotEmpty(t, list)
	return list
}

// links returns the places of the runbook that a runbook_url may name.
func (r *rule) links(t *testing.T) []string {
	t.Helper()
	url, fragment, found := strings.Cut(r.Annotations["runbook_url"], "#")
	require.True(t, found, r.Alert)
	require.Regexp(t, `^https://.*/docs/runbook\.md$`, url)
	list := regexp.MustCompile(`(?:^|}})([a-z0-9-]+)`).FindAllStringSubmatch(fragment, -1)
	require.NotEmpty(t, list, r.Alert)
	var all []string
	for _, m := range list {
		all = append(all, m[1])
	}
	return all
}

// TestAlerts checks that each alert has a severity, a description and a link to the runbook, and
// that the link's target exists.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../../docs/runbook.md")
	require.NoError(t, err)
	var anchors []string
	for _, title := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(text), -1) {
		kept := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(title[1]), "")
		anchors = append(anchors, strings.ReplaceAll(kept, " ", "-"))
	}
	seen := map[string]bool{}
	for _, r := range alerts(t) {
		require.False(t, seen[r.Alert], "promtool takes two rules with one name for one: %s", r.Alert)
		seen[r.Alert] = true
		require.Contains(t, []string{page, ticket}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.NotEmpty(t, r.For, "%s: a single scrape is no reason", r.Alert)
		for _, anchor := range r.links(t) {
			require.Contains(t, anchors, anchor, r.Alert)
		}
	}
}

// An alert that fires for a single event must outlive its wait: the event is in the window for no longer than the window.
func TestAlertsForSingleEventsWaitForLessThanTheirWindow(t *testing.T) {
	single := regexp.MustCompile(`increase\([^\[]*\[(\w+)\]\)\) > 0$`)
	seen := 0
	for _, r := range alerts(t) {
		found := single.FindStringSubmatch(r.Expr)
		if found == nil {
			continue
		}
		seen++
		window, err := time.ParseDuration(found[1])
		require.NoError(t, err, r.Alert)
		wait, err := time.ParseDuration(r.For)
		require.NoError(t, err, r.Alert)
		require.GreaterOrEqual(t, window, 2*wait, r.Alert)
	}
	require.NotZero(t, seen)
}

// TestAlertsAreTested checks the tests that promtool runs. For each alert and each place of the
// runbook that it names, there is a moment at which the alert fires. There is also one at which
// it is silent.
func TestAlertsAreTested(t *testing.T) {
	fires, silent := map[string]bool{}, map[string]bool{}
	names, err := filepath.Glob(filepath.Join(folder, "*_test.yml"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		var file struct {
			Tests []struct {
				AlertRuleTest []struct {
					Alertname string
					ExpAlerts []struct {
						ExpAnnotations map[string]string `yaml:"exp_annotations"`
					} `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		require.NoError(t, yaml.Unmarshal(text, &file))
		for _, test := range file.Tests {
			for _, at := range test.AlertRuleTest {
				silent[at.Alertname] = silent[at.Alertname] || len(at.ExpAlerts) == 0
				for _, alert := range at.ExpAlerts {
					_, anchor, _ := strings.Cut(alert.ExpAnnotations["runbook_url"], "#")
					fires[at.Alertname+"#"+anchor] = true
				}
			}
		}
	}
	for _, r := range alerts(t) {
		require.True(t, silent[r.Alert], "no test has %s silent", r.Alert)
		for _, anchor := range r.links(t) {
			require.True(t, fires[r.Alert+"#"+anchor], "no test has %s fire and lead to %s", r.Alert, anchor)
		}
	}
}

// TestSelectors checks that queries ask only for metrics that a server exposes.
func TestSelectors(t *testing.T) {
	for _, c := range []struct {
		title   string
		metric  string
		matcher []matcher
	}{
		{"a metric", "vitrine_requests_admited_total", nil},
		{"a histogram without its part", "mcp_server_operation_duration_seconds", nil},
		{"the part of a counter", "vitrine_requests_admitted_total_count", nil},
		{"a label", "vitrine_requests_admitted_total", []matcher{is("tool", "x")}},
		{"a value", "vitrine_requests_cancelled_total", []matcher{is("cause", "deadline", "dead")}},
		{"buckets of a sum", "mcp_server_operation_duration_seconds_sum", []matcher{is("le", "5")}},
	} {
		t.Run(c.title, func(t *testing.T) {
			require.Panics(t, func() { source{}.of(c.metric, c.matcher...) })
		})
	}
	s := source{selector: `job="weather"`}
	require.Equal(t, `vitrine_requests_cancelled_total{job="weather",cause=~"deadline|client_cancel",tool=""}`,
		s.of("vitrine_requests_cancelled_total", is("cause", "deadline", "client_cancel"), is("tool", "")))
}

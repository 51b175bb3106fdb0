package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadConfig(t *testing.T) {
	for _, c := range []struct {
		title, text string
		want        string // part of the error; empty for none
	}{
		{"nothing", "", ""},
		{"all", "name: Weather\nselector: job=\"weather\"\nrunbook: https://wiki.example.com/mcp\nrequest_timeout: 5m\n" +
			"minimum: {requests: 1, failures: 1}\nobjective: {availability: 99.5, latency: 2s, fast: 99}\ntools: {forecast: {latency: 500ms}, export: {latency: -1s}}\n", ""},
		{"a field that there is not", "objectives: {}", "objectives"},
		{"no name", "name: '???'", "no letter"},
		{"a long name", "name: " + strings.Repeat("long ", 6), "longer than"},
		{"more than can be burnt", "objective: {availability: 90}", "availability must be"},
		{"nothing may fail", "tools: {x: {fast: 100}}", "tools: x: fast must be"},
		{"no bucket", "tools: {x: {latency: 3s}}", "latency must be one of the buckets"},
		{"no tool", "tools: {\"a\\\"b\": {latency: 1s}}", "no name of a tool"},
		{"never over", "request_timeout: 0s", "request_timeout"},
		{"certificates that never expire", "certificate_left: 0s", "certificate_left"},
		{"no minimum", "minimum: {requests: 0}", "minimum"},
	} {
		t.Run(c.title, func(t *testing.T) {
			_, err := readConfig([]byte(c.text))
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}

// TestObjectives checks that a tool with its own objectives has its own buckets and budgets, and
// is not in those of the other tools.
func TestObjectives(t *testing.T) {
	c, err := readConfig([]byte("selector: team=\"a\"\nobjective: {availability: 99.95}\n" +
		"tools: {forecast: {availability: 99.5, latency: 500ms}, get.map: {latency: 1s, fast: 99}, export: {latency: -1s}, same: {}}"))
	require.NoError(t, err)
	exprs := map[string]string{}
	for _, g := range rules(&c).Groups {
		for _, r := range g.Rules {
			exprs[r.Record+r.Alert] = r.Expr
		}
	}
	require.Equal(t, `vitrine:served:rate3d{service="vitrine",gen_ai_tool_name!~"export|forecast|get[.]map"} * 0 + 0.0005
or vitrine:served:rate3d{service="vitrine",gen_ai_tool_name="export"} * 0 + 0.0005
or vitrine:served:rate3d{service="vitrine",gen_ai_tool_name="forecast"} * 0 + 0.005
or vitrine:served:rate3d{service="vitrine",gen_ai_tool_name="get.map"} * 0 + 0.0005`, exprs[recordBudget])
	require.Equal(t, `vitrine:succeeded:rate3d{service="vitrine",gen_ai_tool_name!~"export|forecast|get[.]map"} * 0 + 0.05
  unless on (namespace, job, gen_ai_tool_name) max by (namespace, job, gen_ai_tool_name) (last_over_time(vitrine_tools_streaming{team="a"}[3d]))
or vitrine:succeeded:rate3d{service="vitrine",gen_ai_tool_name="forecast"} * 0 + 0.05
or vitrine:succeeded:rate3d{service="vitrine",gen_ai_tool_name="get.map"} * 0 + 0.01`, exprs[recordSlowable])
	slow := exprs[recordSlow+"5m"]
	require.Contains(t, slow, `gen_ai_tool_name="forecast",error_type="",rpc_response_status_code="",le="0.5"}`)
	require.Contains(t, slow, `gen_ai_tool_name="get.map",error_type="",rpc_response_status_code="",le=~"1|1.0"}`)
	require.Contains(t, slow, `gen_ai_tool_name!~"export|forecast|get[.]map",error_type="",rpc_response_status_code="",le=~"5|5.0"}`)
	require.NotContains(t, slow, `gen_ai_tool_name="export"`)
}

// Certificates that live for a day need another limit than those that live for months.
func TestCertificateLeft(t *testing.T) {
	for text, want := range map[string]string{"": " < 604800", "certificate_left: 8h": " < 28800"} {
		c, err := readConfig([]byte(text))
		require.NoError(t, err)
		rule := certificateExpires(&c, c.source())
		require.True(t, strings.HasSuffix(rule.Expr, want), rule.Expr)
	}
}

// TestNoLatency checks that there are no rules and panels of latency without an objective.
func TestNoLatency(t *testing.T) {
	c, err := readConfig([]byte("objective: {latency: -1s}"))
	require.NoError(t, err)
	all, err := files(&c)
	require.NoError(t, err)
	for name, text := range all {
		require.NotContains(t, string(text), "vitrine:slow", name)
		require.NotContains(t, string(text), "LatencyBudget", name)
	}
	require.NotContains(t, string(all["rules.yml"]), "latency")
}

// fakeServer lists tools in pages of one.
func fakeServer(t *testing.T, tools ...string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing shows below
		if r.Header.Get("Authorization") != "Bearer x" || r.Header.Get("Mcp-Method") != "tools/list" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		for i, tool := range tools {
			if i == 0 && !strings.Contains(string(body), `"cursor"`) || i > 0 && strings.Contains(string(body), `"cursor":"`+tools[i-1]+`"`) {
				next := `,"nextCursor":"` + tool + `"`
				if i == len(tools)-1 {
					next = ""
				}
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"`+tool+`"}]`+next+`}}`) // to a test
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestTools checks that files can be generated from the configuration that is made of a server's
// tools.
func TestTools(t *testing.T) {
	url, dir := fakeServer(t, "forecast", "alerts"), t.TempDir()
	var out bytes.Buffer
	bearer := []string{"-header", "Authorization: Bearer x"}
	generate := func(args ...string) error {
		out.Reset()
		return run(t.Context(), append(bearer, args...), &out, io.Discard)
	}
	require.NoError(t, generate("-tools", url))
	require.Contains(t, out.String(), "\n    alerts: {}\n    forecast: {}\n")
	file := filepath.Join(dir, "objectives.yaml")
	text := strings.NewReplacer("name: Vitrine", "name: My Weather", "alerts: {}", "alerts: {availability: 99}").Replace(out.String())
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	require.NoError(t, generate("-config", file, "-tools", url))
	require.Contains(t, out.String(), "alerts:\n        availability: 99\n", "what was promised is kept")

	to := filepath.Join(dir, "monitoring")
	require.NoError(t, generate("-config", file, "-tools", url, "-out", to))
	rules, err := os.ReadFile(filepath.Join(to, "rules.yml"))
	require.NoError(t, err)
	require.Contains(t, string(rules), "my-weather-availability")
	require.Contains(t, string(rules), `gen_ai_tool_name="alerts"} * 0 + 0.01`)
	overview, err := os.ReadFile(filepath.Join(to, "overview.json"))
	require.NoError(t, err)
	require.Contains(t, string(overview), `"uid": "my-weather-overview"`)
	require.Contains(t, string(overview), `"title": "My Weather: overview"`)

	require.ErrorContains(t, generate("-config", file, "-tools", fakeServer(t, "forecast"), "-out", to), "the server has no alerts")
	require.ErrorContains(t, run(t.Context(), []string{"-tools", url}, &out, io.Discard), "401")
	require.ErrorContains(t, generate(), "give -out, or -tools")
	require.ErrorContains(t, generate("-header", "x", "-out", to), "no colon")
	require.Error(t, generate("-config", filepath.Join(dir, "nothing.yaml"), "-out", to))
}

// TestReadme checks that the configuration in README.md is valid, and that the page has all
// alerts.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "README.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "```yaml\nname:")
	require.True(t, found)
	block, _, _ := strings.Cut(rest, "```")
	c, err := readConfig([]byte("name:" + block))
	require.NoError(t, err)
	require.Equal(t, "Weather", c.Name)
	require.Len(t, c.Tools, 3)
	for _, r := range alerts(t) {
		require.Contains(t, string(text), "`"+r.Alert+"`")
	}
}

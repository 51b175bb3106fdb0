package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// The metric of the autoscaler is in the configuration of the adapter, and that one uses metrics
// of the server.
func TestAutoscalerMetric(t *testing.T) {
	scaled := as[*autoscalingv2.HorizontalPodAutoscaler](t, rendered(t, autoscalingValues()))
	require.Len(t, scaled, 1)
	require.Len(t, scaled[0].Spec.Metrics, 2)
	require.Equal(t, "cpu", string(scaled[0].Spec.Metrics[0].Resource.Name))
	name := scaled[0].Spec.Metrics[1].Pods.Metric.Name

	var adapter struct {
		Rules struct {
			Default bool
			Custom  []struct {
				SeriesQuery, MetricsQuery string
				Resources                 struct {
					Overrides map[string]struct{ Resource string }
				}
				Name struct{ Matches, As string }
			}
		}
	}
	require.NoError(t, yaml.UnmarshalStrict(readFile(t, kubeDir+"/prometheus-adapter.yaml"), &adapter))
	require.Len(t, adapter.Rules.Custom, 1)
	rule := adapter.Rules.Custom[0]
	require.Equal(t, name, rule.Name.As)
	require.Equal(t, "^"+name+"$", rule.Name.Matches)
	require.True(t, strings.HasPrefix(rule.SeriesQuery, name+"{"))

	metrics := telemetry.Catalogue()
	i := slices.IndexFunc(metrics, func(m telemetry.Metric) bool { return m.Name == name })
	require.GreaterOrEqual(t, i, 0, "the server has no metric %s", name)
	states := metrics[i].Labels[0]
	require.Equal(t, "state", states.Name)
	_, wanted, _ := strings.Cut(rule.MetricsQuery, `state=~"`)
	wanted, _, _ = strings.Cut(wanted, `"`)
	for state := range strings.SplitSeq(wanted, "|") {
		require.Contains(t, states.Values, state)
	}

	needs.Tool(t, "deploy/promtool", "promtool")
	query := strings.NewReplacer("<<.Series>>", name, "<<.LabelMatchers>>", `namespace="mcp",pod=~"a|b"`, "<<.GroupBy>>", "pod").
		Replace(rule.MetricsQuery)
	rules, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{
		"name": "adapter", "rules": []any{map[string]any{"record": "adapter:query", "expr": query}},
	}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(file, rules, 0o600))
	out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", file).CombinedOutput()
	require.NoError(t, err, string(out))
}

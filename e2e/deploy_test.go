package e2e

import (
	"maps"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A collector checks the configuration in deploy, with and without the policy.
func TestCollectorConfig(t *testing.T) {
	file := jaegerProgram(t) // a collector with the parts that the configuration needs
	for _, configs := range [][]string{
		{collectorConfig}, {collectorConfig, tailSamplingConfig}, {jaegerConfig}, {jaegerConfig, tailSamplingConfig},
	} {
		args := []string{"validate"}
		for _, c := range configs {
			args = append(args, "--config="+c)
		}
		if out, err := exec.Command(file, args...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", configs, err, out)
		}
	}
}

// The commands and snippets of the documentation are those of the files that the tests run.
func TestTelemetryDocHasTheTestedCommands(t *testing.T) {
	doc, err := os.ReadFile("../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	policy, err := os.ReadFile(tailSamplingConfig)
	if err != nil {
		t.Fatal(err)
	}
	_, policies, found := strings.Cut(string(policy), "    policies:\n")
	policies, _, end := strings.Cut(policies, "\nservice:")
	if !found || !end || !strings.Contains(string(doc), policies) {
		t.Errorf("docs/telemetry.md does not show the policies of %s:\n%s", tailSamplingConfig, policies)
	}
	files := map[string]bool{}
	for _, m := range regexp.MustCompile(`--config=(\S+)`).FindAllStringSubmatch(string(doc), -1) {
		files["../"+m[1]] = true
	}
	want := []string{jaegerConfig, collectorConfig, tailSamplingConfig}
	if endpoint := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:4318/v1/traces"; !strings.Contains(string(doc), endpoint) {
		t.Errorf("docs/telemetry.md does not set %s", endpoint)
	}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("docs/telemetry.md starts programs with %q, want %q", got, want)
	}
}

// The configuration for Prometheus 3 differs from the one for Prometheus 2 only in the setting
// that version 2 does not know. promtool and a real Prometheus check the one for version 2.
func TestPrometheusConfigsDifferInOneSetting(t *testing.T) {
	read := func(name string) (config map[string]any) {
		raw, err := os.ReadFile("../deploy/prometheus/" + name)
		if err == nil {
			err = yaml.Unmarshal(raw, &config)
		}
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	two, three := read("prometheus.yml"), read("prometheus-3.yml")
	two["global"].(map[string]any)["always_scrape_classic_histograms"] = true
	if !reflect.DeepEqual(two, three) {
		t.Errorf("prometheus-3.yml says\n%v\nand should say\n%v", three, two)
	}
}

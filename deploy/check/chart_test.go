package check

import (
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	corev1 "k8s.io/api/core/v1"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// helm lint --strict, with the oldest Kubernetes that the chart supports.
func TestChartPassesHelmLint(t *testing.T) {
	version, err := common.ParseKubeVersion("v" + oldest + ".0")
	require.NoError(t, err)
	for name, values := range map[string]Values{"defaults": {}, "everything": fullValues()} {
		t.Run(name, func(t *testing.T) {
			linter := lint.RunAll(filepath.FromSlash(chartDir), values, namespace, lint.WithKubeVersion(version))
			for _, m := range linter.Messages {
				if m.Severity > support.InfoSev {
					t.Error(m)
				}
			}
		})
	}
	require.Equal(t, ">="+oldest+".0-0", loaded(t).chart.Metadata.KubeVersion)
}

// The schema, and the further checks of the templates, refuse wrong values.
func TestWrongValuesAreRefused(t *testing.T) {
	route := func(more Values) Values {
		values := Values{"enabled": true, "hostnames": []any{"mcp.example.com"}, "parentRefs": []any{Values{"name": "g"}}}
		for key, value := range more {
			values[key] = value
		}
		return Values{"httpRoute": values}
	}
	for _, c := range []struct {
		name   string
		values Values
		want   string // in the error
	}{
		{"unknown value", Values{"replicas": 3}, "'replicas' not allowed"},
		{"unknown value, deeper", Values{"image": Values{"name": "x"}}, "'name' not allowed"},
		{"unknown setting", Values{"settings": Values{"max-inflight": "5"}}, "'max-inflight' not allowed"},
		{"setting with a value of its own", Values{"settings": Values{"drain-timeout": "5s"}}, "'drain-timeout' not allowed"},
		{"setting that is a list", Values{"settings": Values{"max-in-flight": []any{1}}}, "/settings/max-in-flight"},
		{"no replica", Values{"replicaCount": 0}, "/replicaCount"},
		{"wrong type", Values{"replicaCount": "two"}, "/replicaCount"},
		{"negative time", Values{"shutdown": Values{"drainSeconds": -1}}, "/shutdown/drainSeconds"},
		{"no margin", Values{"shutdown": Values{"marginSeconds": 0}}, "/shutdown/marginSeconds"},
		{"path without slash", Values{"path": "mcp"}, "/path"},
		{"wildcard host", route(Values{"hostnames": []any{"*.example.com"}}), "/httpRoute/hostnames/0"},
		{"host with a port", Values{"allowedHosts": []any{"a,b"}}, "/allowedHosts/0"},
		{"digest", Values{"image": Values{"digest": "sha256:abc"}}, "/image/digest"},
		{"affinity", Values{"service": Values{"sessionAffinity": "Cookie"}}, "/service/sessionAffinity"},
		{"endpoint without scheme", Values{"telemetry": Values{"tracesEndpoint": "collector:4318"}}, "/telemetry/tracesEndpoint"},
		{"all of the memory", Values{"memoryLimitPercent": 100}, "/memoryLimitPercent"},
		{"route without service", route(Values{"routes": []any{Values{"method": "tools/call", "port": 1}}}), "/httpRoute/routes/0"},
		{"memory", Values{"resources": Values{"limits": Values{"memory": "much"}}}, "much is not a size"},
		{"replicas without keys", Values{"stateKeys": Values{"enabled": false}}, "need the same state keys"},
		{"autoscaling without keys", Values{
			"replicaCount": 1, "stateKeys": Values{"enabled": false}, "autoscaling": Values{"enabled": true},
		}, "need the same state keys"},
		{"route without gateway", route(Values{"parentRefs": []any{}}), "name the gateway"},
		{"route without host", route(Values{"hostnames": []any{}}), "name the host"},
		{"readiness too late", Values{"probes": Values{"readinessSeconds": 3}}, "probes.readinessSeconds: the server refuses requests 5 s after"},
		{"readiness at the last moment", Values{"probes": Values{"readinessSeconds": 5}, "shutdown": Values{"delaySeconds": 10}}, "two probes that fail take 10 s"},
		{"no delay", Values{"shutdown": Values{"delaySeconds": 0}}, "make the delay longer"},
		{"lingering too short", Values{
			"serviceMonitor": Values{"enabled": true, "interval": "20s"},
		}, "shutdown.lingerSeconds: a process that ends waits 20 s for a last scrape, and 20s are between two"},
		{"refuse time without unit", Values{"settings": Values{"refuse-time": 60}}, "settings.refuse-time: 60 is not a time"},
		{"refuse time", Values{"settings": Values{"refuse-time": "a 5s"}}, "settings.refuse-time: a 5s is not a time"},
		{"files with the keys", Values{"files": Values{"root": "/etc"}}, "the state keys are below /etc"},
		{"files with the token", Values{"files": Values{"root": "/etc/vitrine/admin-token"}}, "the admin token is below"},
		{"files with the keys, all", Values{"files": Values{"root": "/srv/.."}}, "the state keys are below /srv/.."},
		{"files without slash", Values{"files": Values{"root": "files"}}, "/files/root"},
		{"two volumes", Values{"files": Values{"volume": Values{"emptyDir": Values{}, "nfs": Values{}}}}, "/files/volume"},
		{"rules that are none", Values{"prometheusRule": Values{"rules": "monitoring/rules.yml"}}, "no groups of rules"},
		{"issuer without TLS", Values{"oauth": Values{"issuers": []any{"http://login.example.com"}}}, "/oauth/issuers/0"},
		{"issuer without resource", Values{"oauth": Values{"issuers": []any{"https://login.example.com"}}}, "oauth.resource: name the URL"},
		{"scope with a blank", Values{"oauth": Values{"scopes": []any{"a b"}}}, "/oauth/scopes/0"},
		{"introspection without a secret", Values{"oauth": Values{
			"issuers": []any{"https://login.example.com"}, "resource": "https://mcp.example.com/mcp",
			"introspection": Values{"client": "mcp"},
		}}, "oauth.introspection.secretName"},
		{"client certificates without TLS", Values{"tls": Values{"clientCASecretName": "ca"}}, "client certificates need TLS"},
		{"rules twice", Values{"policy": Values{"rules": protectedRules, "configMapName": "rules"}}, "names the rules already"},
		{"rules that are a path", Values{"policy": Values{"rules": "policy.yaml"}}, "the text has no default"},
		{"one volume for the record of two pods", Values{"audit": Values{"enabled": true, "volume": Values{
			"persistentVolumeClaim": Values{"claimName": "audit"},
		}}}, "several pods would write one file"},
		{"setting of the audit", Values{"settings": Values{"audit-file": "/tmp/x"}}, "'audit-file' not allowed"},
		{"store without keys", Values{
			"replicaCount": 1, "stateKeys": Values{"enabled": false}, "store": Values{"secretName": "vitrine-store"},
		}, "replicas with a store need the same state keys"},
		{"store with a legacy pool", fullValuesWithStore(), "legacyPool.enabled: with store.secretName"},
		{"store in the manifest", Values{"settings": Values{"store": "redis://user:secret@redis:6379/0"}}, "'store' not allowed"},
		{"store that is a URL", Values{"store": Values{"secretName": "redis://redis:6379/0"}}, "/store/secretName"},
		{"store without a port", Values{"store": Values{"secretName": "vitrine-store", "ports": []any{}}}, "/store/ports"},
		{"spread", Values{"topologySpread": Values{"zones": "Always"}}, "/topologySpread/zones"},
		{"legacy pool without route", Values{"legacyPool": Values{"enabled": true}}, "nothing leads to it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := loaded(t).render(c.values)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// One claim for the record has one writer: the old pod ends before the new one starts, which could not open the file. All
// others are replaced without a gap.
func TestTheOnlyWriterOfAClaimEndsBeforeTheNext(t *testing.T) {
	for volume, want := range map[string]string{"persistentVolumeClaim": "type: Recreate", "ephemeral": "type: RollingUpdate"} {
		texts, err := loaded(t).render(Values{"replicaCount": 1, "audit": Values{"enabled": true, "volume": Values{volume: Values{"claimName": "audit"}}}})
		require.NoError(t, err)
		all := ""
		for _, text := range texts {
			all += text
		}
		require.Contains(t, all, want)
	}
}

// The rendered notes have the command that makes the Secret.
func TestNotesHaveTheCommandForTheSecret(t *testing.T) {
	texts, err := loaded(t).render(nil)
	require.NoError(t, err)
	require.Contains(t, texts["NOTES.txt"], "create secret generic vitrine-state-keys")
	require.Contains(t, texts["NOTES.txt"], "http://vitrine.mcp:8080/mcp")
}

// The route takes the same revisions for modern as the server.
func TestRouteHasTheModernVersions(t *testing.T) {
	var want []any
	for _, v := range mcp.Versions(mcp.Modern) {
		want = append(want, string(v))
	}
	require.Equal(t, want, loaded(t).chart.Values["httpRoute"].(map[string]any)["modernVersions"])
}

// The rules in the manifest are those of dashboards/rules.yml.
func TestPrometheusRule(t *testing.T) {
	want, err := parseManifests(string(readFile(t, rulesFile)))
	require.NoError(t, err)
	require.Len(t, want, 1)
	for _, all := range [][]Manifest{rendered(t, monitoringValues()), built(t, "overlays/production")} {
		rule, err := find(all, "PrometheusRule", "vitrine")
		require.NoError(t, err)
		require.Equal(t, map[string]any(want[0]), rule["spec"])
	}
}

// The chart takes the rules of a server of the reader from a file.
func TestOwnRules(t *testing.T) {
	const text = "# Generated.\ngroups:\n  - name: weather\n    rules:\n" +
		"      - {alert: Weather, expr: vector(1), annotations: {summary: '{{ $labels.tool }} fails'}}\n"
	want, err := parseManifests(text)
	require.NoError(t, err)
	all := rendered(t, Values{"prometheusRule": Values{"enabled": true, "rules": text}})
	rule, err := find(all, "PrometheusRule", "vitrine")
	require.NoError(t, err)
	require.NoError(t, validManifest(newSchemas(t), rule))
	require.Equal(t, map[string]any(want[0]), rule["spec"])
}

// Prometheus must not take two releases for one job.
func TestTwoReleasesHaveTwoJobs(t *testing.T) {
	for _, release := range []string{"vitrine", "weather"} {
		source := loaded(t)
		source.release = release
		all, err := source.manifests(monitoringValues())
		require.NoError(t, err)
		monitors := as[*monitoringv1.ServiceMonitor](t, all)
		require.Len(t, monitors, 1)
		var jobs []string
		for _, s := range as[*corev1.Service](t, all) {
			if s.Labels["app.kubernetes.io/component"] == "admin" {
				jobs = append(jobs, s.Labels[monitors[0].Spec.JobLabel])
			}
		}
		require.Equal(t, []string{release}, jobs)
	}
}

// Settings are rendered as variables, also numbers that YAML writes with an exponent.
func TestSettingsAreVariables(t *testing.T) {
	container := serverContainer(t, rendered(t, fullValues()))
	env := envOf(container)
	require.Equal(t, "4000000", env["VITRINE_MAX_TASK_BYTES"])
	require.Equal(t, "true", env["VITRINE_H2C"])
	require.Equal(t, "always_on", env["OTEL_TRACES_SAMPLER"])
	require.Equal(t, "http://collector.observability:4318/v1/traces", env["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
}

// Tag and digest are rendered.
func TestImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for _, c := range []struct {
		image Values
		want  string
	}{
		{Values{}, "vitrine-mcp/vitrine:0.1.0"},
		{Values{"repository": "x", "tag": "2"}, "x:2"},
		{Values{"repository": "x", "tag": "2", "digest": digest}, "x@" + digest},
	} {
		require.Equal(t, c.want, serverContainer(t, rendered(t, Values{"image": c.image})).Image)
	}
}

package check

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// The oldest Kubernetes that the chart supports. The Go types are those of the newest.
const oldest = "1.30"

func newSchemas(t *testing.T) *schemas {
	t.Helper()
	s := &schemas{
		builtins: filepath.Join(moduleDir(t, "sigs.k8s.io/kubectl-validate"), "pkg/openapiclient/builtins", oldest),
		crds:     filepath.Join(moduleDir(t, "sigs.k8s.io/gateway-api"), "config/crd/standard"),
		compiled: map[schema.GroupVersionKind]*jsonschema.Schema{},
	}
	require.DirExists(t, s.builtins)
	require.DirExists(t, s.crds)
	return s
}

// onlyTyped are kinds without a definition in a module. Only their Go types are checked.
var onlyTyped = []string{"ServiceMonitor", "PrometheusRule"}

// validManifest checks an object against the schema and the Go type of its kind.
func validManifest(s *schemas, m Manifest) error {
	types, err := knownTypes()
	if err != nil {
		return err
	}
	if _, err := typed(types, m); err != nil {
		return err
	}
	if slices.Contains(onlyTyped, m.kind()) {
		return nil
	}
	return s.validate(m)
}

// All objects fit the OpenAPI schemas of Kubernetes, without unknown fields.
func TestManifestsHaveKnownFieldsOnly(t *testing.T) {
	s := newSchemas(t)
	kinds := map[string]bool{}
	eachSet(t, func(t *testing.T, all []Manifest) {
		names := map[string]bool{}
		for _, m := range all {
			require.NoError(t, validManifest(s, m))
			require.False(t, names[m.String()], "%v is there twice", m)
			names[m.String()], kinds[m.kind()] = true, true
		}
	})
	for _, kind := range []string{
		"Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy",
		"ServiceMonitor", "PrometheusRule", "HTTPRoute", "Pod", "Namespace", "ConfigMap",
	} {
		require.True(t, kinds[kind], kind)
	}
}

// Faults are found.
func TestFaultsOfManifestsAreFound(t *testing.T) {
	s := newSchemas(t)
	all := rendered(t, fullValues())
	for _, c := range []struct {
		name, kind, object string
		spoil              func(spec map[string]any)
	}{
		{"unknown field", "Deployment", "vitrine", func(spec map[string]any) { spec["replica"] = 2 }},
		{"unknown field, deep", "Deployment", "vitrine", func(spec map[string]any) {
			pod(spec)["containers"].([]any)[0].(map[string]any)["readinesProbe"] = map[string]any{}
		}},
		{"wrong type", "Deployment", "vitrine", func(spec map[string]any) { spec["replicas"] = "two" }},
		{"missing field", "Deployment", "vitrine", func(spec map[string]any) { delete(spec, "selector") }},
		{"missing field", "HorizontalPodAutoscaler", "vitrine", func(spec map[string]any) { delete(spec, "maxReplicas") }},
		{"unknown field", "HorizontalPodAutoscaler", "vitrine", func(spec map[string]any) { spec["cpuPercent"] = 70 }},
		{"unknown field", "PodDisruptionBudget", "vitrine", func(spec map[string]any) { spec["maxunavailable"] = 1 }},
		{"wrong type", "NetworkPolicy", "vitrine", func(spec map[string]any) { spec["policyTypes"] = "Ingress" }},
		{"unknown field", "Service", "vitrine", func(spec map[string]any) { spec["affinity"] = "ClientIP" }},
		{"unknown field", "ServiceMonitor", "vitrine", func(spec map[string]any) { spec["endpoint"] = nil }},
		{"wrong type", "PrometheusRule", "vitrine", func(spec map[string]any) { spec["groups"] = "none" }},
		{"not in the enumeration", "HTTPRoute", "vitrine", func(spec map[string]any) {
			match(spec)["path"] = map[string]any{"type": "Glob", "value": "/mcp"}
		}},
		{"not as the pattern", "HTTPRoute", "vitrine", func(spec map[string]any) {
			spec["rules"].([]any)[0].(map[string]any)["timeouts"] = map[string]any{"request": "for ever"}
		}},
		{"unknown field", "HTTPRoute", "vitrine", func(spec map[string]any) { match(spec)["header"] = "Mcp-Method" }},
	} {
		t.Run(c.kind+" "+c.name, func(t *testing.T) {
			m, err := find(all, c.kind, c.object)
			require.NoError(t, err)
			m = clone(t, m)
			require.NoError(t, validManifest(s, m))
			c.spoil(m["spec"].(map[string]any))
			require.Error(t, validManifest(s, m))
			if !slices.Contains(onlyTyped, c.kind) {
				require.Error(t, s.validate(m), "the schema alone finds it, too")
			}
		})
	}
	require.ErrorIs(t, s.validate(Manifest{"apiVersion": "apps/v3", "kind": "Deployment"}), os.ErrNotExist)
	require.ErrorIs(t, s.validate(Manifest{"apiVersion": "apps/v1", "kind": "Deploiment"}), os.ErrNotExist)
}

func pod(spec map[string]any) map[string]any {
	return spec["template"].(map[string]any)["spec"].(map[string]any)
}

func match(spec map[string]any) map[string]any {
	return spec["rules"].([]any)[0].(map[string]any)["matches"].([]any)[0].(map[string]any)
}

// All pods meet the strictest of the Pod Security Standards.
func TestPodSecurity(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	faults := func(meta *corev1.PodTemplateSpec) string {
		results := evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()},
			&meta.ObjectMeta, &meta.Spec)
		found := policy.AggregateCheckResults(results)
		return found.ForbiddenDetail()
	}
	eachSet(t, func(t *testing.T, all []Manifest) {
		for _, template := range templates(t, all) {
			require.Empty(t, faults(template))
			require.False(t, *template.Spec.AutomountServiceAccountToken)
			for _, c := range template.Spec.Containers {
				require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
			}
			root := template.DeepCopy()
			root.Spec.SecurityContext.RunAsNonRoot = nil
			require.NotEmpty(t, faults(root), "it can be found")
		}
	})
}

// templates returns the pods of Deployments, and the pods of the tests.
func templates(t *testing.T, all []Manifest) (list []*corev1.PodTemplateSpec) {
	t.Helper()
	for _, d := range as[*appsv1.Deployment](t, all) {
		list = append(list, &d.Spec.Template)
	}
	require.NotEmpty(t, list)
	for _, p := range as[*corev1.Pod](t, all) {
		list = append(list, &corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec})
	}
	return list
}

package check

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/internal/redistest"
	"github.com/vitrine-mcp/vitrine/service"
)

// stores starts a Redis server and returns its URL.
func stores(t *testing.T) (url string) {
	t.Helper()
	return "redis://" + redistest.Start(t, "deploy/redis").Addr() + "/0"
}

// replicasValues are those of values-replicas.yaml.
func replicasValues(t *testing.T) (values Values) {
	t.Helper()
	require.NoError(t, yaml.UnmarshalStrict(readFile(t, chartDir+"/values-replicas.yaml"), &values))
	return values
}

// fullValuesWithStore are contradictory: a legacy pool is for replicas without a store.
func fullValuesWithStore() Values {
	all := fullValues()
	maps.Copy(all, storeValues())
	return all
}

// The URL of the store comes from its Secret only, and the pods may call the store and nothing more.
func TestStoreIsFromItsSecret(t *testing.T) {
	values := Values{"store": Values{
		"secretName": "shared", "secretKey": "redis.url", "ports": []any{26379, 6379},
		"peers": []any{Values{"namespaceSelector": Values{"matchLabels": Values{"team": "data"}}}},
	}}
	all := rendered(t, values)
	c := serverContainer(t, all)
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "VITRINE_STORE" })
	require.GreaterOrEqual(t, i, 0)
	require.Empty(t, c.Env[i].Value)
	require.Equal(t, "shared", c.Env[i].ValueFrom.SecretKeyRef.Name)
	require.Equal(t, "redis.url", c.Env[i].ValueFrom.SecretKeyRef.Key)
	require.Nil(t, c.Env[i].ValueFrom.SecretKeyRef.Optional, "the pod is not to start without it")
	require.NotContains(t, strings.Join(c.Args, " "), "store", "all users of a node can read arguments")

	rules := as[*networkingv1.NetworkPolicy](t, all)[0].Spec.Egress
	require.Len(t, rules, 2, "DNS and the store")
	var ports []int32
	for _, p := range rules[1].Ports {
		ports = append(ports, p.Port.IntVal)
	}
	require.Equal(t, []int32{26379, 6379}, ports)
	require.Equal(t, map[string]string{"team": "data"}, rules[1].To[0].NamespaceSelector.MatchLabels)
	require.Len(t, as[*networkingv1.NetworkPolicy](t, rendered(t, nil))[0].Spec.Egress, 1, "DNS")

	texts, err := loaded(t).render(values)
	require.NoError(t, err)
	require.Contains(t, texts["NOTES.txt"], "create secret generic shared \\\n    --from-literal=redis.url=redis://")
}

// What the README of an installation with a store promises: no client is bound to a pod, pods are in
// several zones, an autoscaler adds more, and one is evicted at a time.
func TestInstallationsWithAStore(t *testing.T) {
	for name, all := range map[string][]Manifest{
		"values-replicas.yaml": rendered(t, replicasValues(t)), "overlays/replicas": built(t, "overlays/replicas"),
	} {
		t.Run(name, func(t *testing.T) {
			deployments := as[*appsv1.Deployment](t, all)
			require.Len(t, deployments, 1, "no pod is for legacy clients alone")
			for _, s := range as[*corev1.Service](t, all) {
				require.NotEqual(t, corev1.ServiceAffinityClientIP, s.Spec.SessionAffinity, s.Name)
			}
			zones := deployments[0].Spec.Template.Spec.TopologySpreadConstraints[0]
			require.Equal(t, "topology.kubernetes.io/zone", zones.TopologyKey)
			require.Equal(t, corev1.DoNotSchedule, zones.WhenUnsatisfiable)
			require.Equal(t, []string{"pod-template-hash"}, zones.MatchLabelKeys, "or the pods of the last release count")
			scaled := as[*autoscalingv2.HorizontalPodAutoscaler](t, all)
			require.Len(t, scaled, 1)
			require.EqualValues(t, 3, *scaled[0].Spec.MinReplicas)
			budgets := as[*policyv1.PodDisruptionBudget](t, all)
			require.Len(t, budgets, 1)
			require.EqualValues(t, 1, budgets[0].Spec.MaxUnavailable.IntVal)
			require.NotEmpty(t, envOf(serverContainer(t, all))["VITRINE_STORE"])
		})
	}
}

// helm test passes through a Service without affinity, and the session that it has deleted at one replica
// has ended at the other one.
func TestHelmTestWithAStore(t *testing.T) {
	needs.Tool(t, "deploy/curl", "curl", "sh")
	all := rendered(t, storeValues())
	c := serverContainer(t, all)
	i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "VITRINE_STORE" })
	c.Env[i] = corev1.EnvVar{Name: "VITRINE_STORE", Value: stores(t)}
	test := as[*corev1.Pod](t, all)[0].Spec.Containers[0]
	keys := stateKeys(t, oneKey())
	log, err := serves(t, c, keys, func(a service.Endpoints) {
		log, err := serves(t, c, keys, func(b service.Endpoints) {
			script := test.Args[0] + "\necho \"deleted $session\"\n"
			cmd := exec.CommandContext(t.Context(), test.Command[0], append(test.Command[1:], script)...)
			cmd.Env = append(os.Environ(), "URL="+balance(t, false, a.MCP, b.MCP), "no_proxy=*")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			_, session, found := strings.Cut(string(out), "deleted ")
			require.True(t, found, string(out))
			for _, url := range []string{a.MCP, b.MCP} { // one of them is told by the other one
				require.Eventually(t, func() bool { return inSession(t, url, strings.TrimSpace(session)) == http.StatusNotFound },
					patience, 10*time.Millisecond, "the session has not ended at all replicas")
			}
		})
		require.NoError(t, err, log)
	})
	require.NoError(t, err, log)
}

// inSession returns the status of a request in a legacy session.
func inSession(t *testing.T, url, session string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":10,"method":"tools/list"}`))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": session,
	} {
		req.Header.Set(name, value)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

package check

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service"
)

// serverPod returns the pod of the Deployment vitrine.
func serverPod(t *testing.T, all []Manifest) corev1.PodSpec {
	t.Helper()
	for _, d := range as[*appsv1.Deployment](t, all) {
		if d.Name == releaseName {
			return d.Spec.Template.Spec
		}
	}
	require.Fail(t, "no Deployment")
	return corev1.PodSpec{}
}

func serverContainer(t *testing.T, all []Manifest) corev1.Container {
	t.Helper()
	pod := serverPod(t, all)
	require.Len(t, pod.Containers, 1)
	return pod.Containers[0]
}

// secretMark begins what stands for a value from a Secret.
const secretMark = "the-secret-"

// envOf returns the variables of a container. It resolves references as the kubelet does: only to
// earlier variables; the others stay as they are.
func envOf(c corev1.Container) map[string]string {
	env := map[string]string{}
	for _, e := range c.Env {
		value := e.Value
		switch from := e.ValueFrom; {
		case from == nil:
		case from.SecretKeyRef != nil:
			value = secretMark + from.SecretKeyRef.Name + "-" + from.SecretKeyRef.Key
		default:
			value = "the-" + strings.ReplaceAll(from.FieldRef.FieldPath, ".", "-")
		}
		env[e.Name] = envReference.ReplaceAllStringFunc(value, func(ref string) string {
			if resolved, ok := env[ref[2:len(ref)-1]]; ok {
				return resolved
			}
			return ref
		})
	}
	return env
}

var envReference = regexp.MustCompile(`\$\([A-Z_]+\)`)

// Every variable is one of the server, is given once, and refers only to variables before it.
func TestEnvironment(t *testing.T) {
	known, err := environment()
	require.NoError(t, err)
	require.Contains(t, known, "VITRINE_DRAIN_TIMEOUT")
	require.Subset(t, demonstrationEnvironment(t), known)
	known = append(known, "VITRINE_ROOT") // of the demonstration
	require.Contains(t, demonstrationEnvironment(t), "VITRINE_ROOT")
	eachSet(t, func(t *testing.T, all []Manifest) {
		for _, template := range templates(t, all) {
			for _, c := range template.Spec.Containers {
				seen := map[string]bool{}
				for _, e := range c.Env {
					require.False(t, seen[e.Name], "%s is there twice", e.Name)
					seen[e.Name] = true
					if strings.HasPrefix(e.Name, "VITRINE_") {
						require.Contains(t, known, e.Name)
					}
				}
				for name, value := range envOf(c) {
					require.NotContains(t, value, "$(", name)
				}
			}
		}
	})
}

// budget returns the longest time of a shutdown with the given environment, by the sum in
// docs/limits.md.
func budget(t *testing.T, env map[string]string) time.Duration {
	t.Helper()
	config, limits := service.DefaultConfig(), server.New("defaults", "1").Limits()
	setting := func(name string, byDefault time.Duration) time.Duration {
		if env[name] == "" {
			return byDefault
		}
		d, err := time.ParseDuration(env[name])
		require.NoError(t, err, name)
		return d
	}
	cleanup := setting("VITRINE_CLEANUP_GRACE", limits.CleanupGrace)
	return setting("VITRINE_SHUTDOWN_DELAY", config.ShutdownDelay) +
		max(setting("VITRINE_DRAIN_TIMEOUT", config.DrainTimeout), setting("VITRINE_REFUSE_TIME", config.RefuseTime)) +
		cleanup + cleanup/5 +
		setting("VITRINE_HOOK_GRACE", limits.HookGrace) + cleanup +
		setting("VITRINE_LINGER_TIMEOUT", config.LingerTimeout) +
		setting("VITRINE_FLUSH_TIMEOUT", config.FlushTimeout) + cleanup
}

// The kubelet does not kill a server that is still shutting down, and load balancers notice a
// shutdown before the server rejects requests.
func TestDrainEndsBeforeTheKubeletKills(t *testing.T) {
	check := func(t *testing.T, spec corev1.PodSpec) {
		t.Helper()
		c := spec.Containers[0]
		require.Nil(t, c.Lifecycle, "a preStop hook takes its time from the grace period, too")
		longest := budget(t, envOf(c))
		grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second
		require.Greater(t, grace, longest)
		require.Less(t, grace, longest+time.Minute, "it is not for ever either")
		delay, err := time.ParseDuration(envOf(c)["VITRINE_SHUTDOWN_DELAY"])
		require.NoError(t, err)
		ready := c.ReadinessProbe
		require.Less(t, time.Duration(ready.PeriodSeconds*ready.FailureThreshold)*time.Second, delay)
	}
	require.Equal(t, 29600*time.Millisecond, budget(t, nil), "as docs/limits.md says of the defaults")
	eachSet(t, func(t *testing.T, all []Manifest) {
		for _, d := range as[*appsv1.Deployment](t, all) {
			check(t, d.Spec.Template.Spec)
		}
	})
	for name, shutdown := range map[string]Values{
		"long drain":    {"drainSeconds": 600},
		"long cleanup":  {"cleanupSeconds": 30},
		"long hooks":    {"hookSeconds": 60},
		"long flush":    {"flushSeconds": 10.25},
		"long delay":    {"delaySeconds": 15},
		"long linger":   {"lingerSeconds": 75},
		"no linger":     {"lingerSeconds": 0},
		"little margin": {"marginSeconds": 1},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, serverPod(t, rendered(t, Values{"shutdown": shutdown})))
		})
	}
	for refuse, want := range map[any]int64{
		"0": 60, 0: 60, "10s": 60, "20s": 60, "60s": 100, "1m0.5s": 101, "1m1s500ms": 102, ".025h": 130,
	} {
		t.Run(fmt.Sprintf("refuse time %v", refuse), func(t *testing.T) {
			spec := serverPod(t, rendered(t, Values{"settings": Values{"refuse-time": refuse}}))
			check(t, spec)
			require.Equal(t, want, *spec.TerminationGracePeriodSeconds)
		})
	}
}

// The chart's times are those of the server, but for the delays that only a cluster needs.
func TestShutdownDefaults(t *testing.T) {
	env := envOf(serverContainer(t, rendered(t, nil)))
	config, limits := service.DefaultConfig(), server.New("defaults", "1").Limits()
	for name, want := range map[string]time.Duration{
		"VITRINE_DRAIN_TIMEOUT": config.DrainTimeout, "VITRINE_FLUSH_TIMEOUT": config.FlushTimeout,
		"VITRINE_CLEANUP_GRACE": limits.CleanupGrace, "VITRINE_HOOK_GRACE": limits.HookGrace,
	} {
		got, err := time.ParseDuration(env[name])
		require.NoError(t, err)
		require.Equal(t, want, got, name)
	}
	affinity, ok := loaded(t).chart.Values["service"].(map[string]any)["sessionAffinitySeconds"].(float64)
	require.True(t, ok)
	require.GreaterOrEqual(t, time.Duration(affinity)*time.Second, limits.SessionIdle)
}

// The memory of the server leaves room for the kernel in the limit of the container, and is enough
// for all limits that follow from it.
func TestMemoryLimit(t *testing.T) {
	share := func(t *testing.T, c corev1.Container) float64 {
		t.Helper()
		require.NotContains(t, envOf(c), "GOMEMLIMIT", "it follows from max_memory")
		bytes, err := strconv.Atoi(envOf(c)["VITRINE_MAX_MEMORY"])
		require.NoError(t, err)
		require.NoError(t, server.Limits{MaxMemory: bytes}.Check())
		return float64(bytes) / c.Resources.Limits.Memory().AsApproximateFloat64()
	}
	eachSet(t, func(t *testing.T, all []Manifest) {
		for _, d := range as[*appsv1.Deployment](t, all) {
			require.InDelta(t, 0.75, share(t, d.Spec.Template.Spec.Containers[0]), 0.01)
		}
	})
	for _, limit := range []any{"512Mi", "1.5Gi", "2G", "700M", 1 << 30, "1Ti", "900000k"} {
		resources := Values{"limits": Values{"memory": limit}, "requests": Values{"memory": "1Mi"}}
		require.InDelta(t, 0.75, share(t, serverContainer(t, rendered(t, Values{"resources": resources}))), 0.01, limit)
	}
	// With less than the least limits need the server takes these, if nothing else is set.
	for limit, want := range map[string]string{"128Mi": "", "200Mi": "", "228Mi": "", "229Mi": "180092928"} {
		resources := Values{"limits": Values{"memory": limit}, "requests": Values{"memory": "1Mi"}}
		c := serverContainer(t, rendered(t, Values{"resources": resources}))
		require.Equal(t, want, envOf(c)["VITRINE_MAX_MEMORY"], limit)
		bytes := int(c.Resources.Limits.Memory().AsApproximateFloat64()) * 3 / 4
		require.Equal(t, want == "", server.Limits{MaxMemory: bytes}.Check() != nil, limit)
	}
	page, err := os.ReadFile("../kubernetes/README.md")
	require.NoError(t, err)
	require.Contains(t, strings.Join(strings.Fields(string(page)), " "), "With a memory limit below 229Mi the server starts with its least limits")
	none := serverContainer(t, rendered(t, Values{"resources": Values{"limits": nil}}))
	require.NotContains(t, envOf(none), "VITRINE_MAX_MEMORY")
	own := serverContainer(t, rendered(t, Values{"settings": Values{"max-memory": 300000000}}))
	require.Equal(t, "300000000", envOf(own)["VITRINE_MAX_MEMORY"])
}

package check

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// route returns the Service to which a gateway sends a request, or "". If several rules match, the
// one with the most headers wins, as in the Gateway API for equal paths.
func route(r *gatewayv1.HTTPRoute, path string, header http.Header) (service string) {
	most := -1
	for _, rule := range r.Spec.Rules {
		for _, m := range rule.Matches {
			matches := *m.Path.Type == gatewayv1.PathMatchExact && *m.Path.Value == path
			for _, h := range m.Headers {
				matches = matches && (h.Type == nil || *h.Type == gatewayv1.HeaderMatchExact) &&
					header.Get(string(h.Name)) == h.Value
			}
			if matches && len(m.Headers) > most {
				most, service = len(m.Headers), string(rule.BackendRefs[0].Name)
			}
		}
	}
	return service
}

// Requests of both eras pass the route.
func TestRouteServesBothEras(t *testing.T) {
	values := gatewayValues()
	values["httpRoute"].(Values)["routes"] = []any{
		Values{"method": "tools/call", "name": "render", "service": "render-pool", "port": 80},
		Values{"method": "tasks/get", "service": "tasks-pool", "port": 80},
	}
	found := as[*gatewayv1.HTTPRoute](t, rendered(t, values))
	require.Len(t, found, 1)
	modern := func(method, name string) http.Header {
		h := http.Header{}
		h.Set("Mcp-Protocol-Version", "2026-07-28")
		h.Set("Mcp-Method", method)
		if name != "" {
			h.Set("Mcp-Name", name)
		}
		return h
	}
	for _, c := range []struct {
		name   string
		path   string
		header http.Header
		want   string
	}{
		{"modern list", "/mcp", modern("tools/list", ""), "vitrine-gateway"},
		{"modern call", "/mcp", modern("tools/call", "search_text"), "vitrine-gateway"},
		{"a tool with a pool of its own", "/mcp", modern("tools/call", "render"), "render-pool"},
		{"a prompt of the same name", "/mcp", modern("prompts/get", "render"), "vitrine-gateway"},
		{"a method with a pool of its own", "/mcp", modern("tasks/get", "786512e2"), "tasks-pool"},
		{"initialize", "/mcp", http.Header{}, "vitrine-legacy"},
		{"legacy session", "/mcp", http.Header{"Mcp-Session-Id": {"s"}, "Mcp-Protocol-Version": {"2025-11-25"}}, "vitrine-legacy"},
		{"first legacy revision", "/mcp", http.Header{"Mcp-Session-Id": {"s"}}, "vitrine-legacy"},
		{"legacy with a modern header", "/mcp", http.Header{"Mcp-Session-Id": {"s"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"render"}}, "vitrine-legacy"},
		{"the admin listener is not routed", "/metrics", http.Header{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, route(found[0], c.path, c.header)) })
	}
	// A gateway must not end subscriptions by a time-out.
	for _, rule := range found[0].Spec.Rules {
		require.Equal(t, gatewayv1.Duration("0s"), *rule.Timeouts.Request)
	}
}

// Requests that a gateway sends through a Service come from one address. Modern requests are
// spread nevertheless, and legacy requests stay with their sessions, also while there is an old
// and a new pod.
func TestAffinity(t *testing.T) {
	legacy := http.Header{"Mcp-Session-Id": {"s"}}
	modern := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"}}
	alone := gatewayValues()
	delete(alone, "legacyPool")
	sharing, bound := maps.Clone(alone), maps.Clone(alone)
	maps.Copy(sharing, storeValues())
	maps.Copy(bound, storeValues())
	bound["service"] = Values{"sessionAffinity": "ClientIP"}
	for _, c := range []struct {
		name      string
		values    Values
		header    http.Header // of a request along the route; nil is one to the Service itself
		component string      // of the pods that get it
		affinity  corev1.ServiceAffinity
	}{
		{"in the cluster", nil, nil, "server", corev1.ServiceAffinityClientIP},
		{"in the cluster, with a route", gatewayValues(), nil, "server", corev1.ServiceAffinityClientIP},
		{"in the cluster, modern only", Values{"service": Values{"sessionAffinity": "None"}}, nil, "server", corev1.ServiceAffinityNone},
		{"modern", gatewayValues(), modern, "server", corev1.ServiceAffinityNone},
		{"legacy", gatewayValues(), legacy, "legacy", corev1.ServiceAffinityClientIP},
		{"modern, without a legacy pod", alone, modern, "server", corev1.ServiceAffinityNone},
		{"legacy, without a legacy pod", alone, legacy, "server", corev1.ServiceAffinityClientIP},
		{"in the cluster, with a store", sharing, nil, "server", corev1.ServiceAffinityNone},
		{"modern, with a store", sharing, modern, "server", corev1.ServiceAffinityNone},
		{"legacy, with a store", sharing, legacy, "server", corev1.ServiceAffinityNone},
		{"in the cluster, with a store, bound", bound, nil, "server", corev1.ServiceAffinityClientIP},
		{"legacy, with a store, bound in the cluster", bound, legacy, "server", corev1.ServiceAffinityNone},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, name := rendered(t, c.values), "vitrine"
			if c.header != nil {
				name = route(as[*gatewayv1.HTTPRoute](t, all)[0], "/mcp", c.header)
			}
			at := slices.IndexFunc(as[*corev1.Service](t, all), func(s *corev1.Service) bool { return s.Name == name })
			require.GreaterOrEqual(t, at, 0, "there is no Service %s", name)
			found := as[*corev1.Service](t, all)[at]
			require.Equal(t, c.component, found.Spec.Selector["app.kubernetes.io/component"])
			require.Equal(t, c.affinity, found.Spec.SessionAffinity)
			if c.affinity == corev1.ServiceAffinityClientIP {
				require.EqualValues(t, 1800, *found.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds)
			}
		})
	}
}

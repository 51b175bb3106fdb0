package check

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// route returns the Service that a gateway sends a request to, or "". Of the rules that
// match, the one with the most headers wins, as the Gateway API says of equal paths.
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

// TestRoutes sends requests of both eras along the route.
func TestRoutes(t *testing.T) {
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
		{"modern list", "/mcp", modern("tools/list", ""), "vitrine"},
		{"modern call", "/mcp", modern("tools/call", "search_text"), "vitrine"},
		{"a tool with a pool of its own", "/mcp", modern("tools/call", "render"), "render-pool"},
		{"a prompt of the same name", "/mcp", modern("prompts/get", "render"), "vitrine"},
		{"a method with a pool of its own", "/mcp", modern("tasks/get", "786512e2"), "tasks-pool"},
		{"initialize", "/mcp", http.Header{}, "vitrine-legacy"},
		{"legacy session", "/mcp", http.Header{"Mcp-Session-Id": {"s"}, "Mcp-Protocol-Version": {"2025-11-25"}}, "vitrine-legacy"},
		{"first legacy revision", "/mcp", http.Header{"Mcp-Session-Id": {"s"}}, "vitrine-legacy"},
		{"legacy with a modern header", "/mcp", http.Header{"Mcp-Session-Id": {"s"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"render"}}, "vitrine-legacy"},
		{"the admin listener is not routed", "/metrics", http.Header{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, route(found[0], c.path, c.header)) })
	}
	// Nobody waits for a gateway that gives up on subscriptions.
	for _, rule := range found[0].Spec.Rules {
		require.Equal(t, gatewayv1.Duration("0s"), *rule.Timeouts.Request)
	}
}

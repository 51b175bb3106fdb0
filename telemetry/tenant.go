package telemetry

import (
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// limitTenants is the name of the limit that [WithTenants] sets.
const limitTenants = "max_tenants"

// WithTenants gives the durations of operations (mcp.server.operation.duration) the label
// tenant, of the principal that calls: "" for callers without one. The first max tenants
// (max_tenants) have their names; all others are "_OTHER", and are counted as often as they
// call in vitrine_limit_reached_total. Without the option there is no such label. Several
// values of [Telemetry] that share a registry must agree.
func WithTenants(max int) Option { return optionFunc(func(c *config) { c.maxTenants = max }) }

// labelTenant is the label that only [WithTenants] adds.
const labelTenant = "tenant"

// tenants bounds the values of the label. nil is no label.
type tenants struct {
	max     int
	metrics *instruments // count the other ones

	mu    sync.RWMutex
	known map[string]struct{}
}

func newTenants(max int, metrics *instruments) *tenants {
	if max <= 0 {
		return nil
	}
	return &tenants{max: max, metrics: metrics, known: map[string]struct{}{}}
}

// label returns the label of a tenant.
func (t *tenants) label(name string) string {
	if t == nil || name == "" {
		return ""
	}
	name = logline.Printable(name, maxName)
	t.mu.RLock()
	_, known := t.known[name]
	full := len(t.known) >= t.max
	t.mu.RUnlock()
	switch {
	case known:
		return name
	case !full && t.add(name):
		return name
	}
	t.metrics.count(MetricLimitReached, limitTenants)
	return other
}

// add makes a tenant known, if there is room.
func (t *tenants) add(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.known[name]; !known && len(t.known) >= t.max {
		return false
	}
	t.known[name] = struct{}{}
	return true
}

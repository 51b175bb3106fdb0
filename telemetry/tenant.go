package telemetry

import (
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// tenants bounds the values of the label. nil: there is no label.
type tenants struct {
	max     int
	metrics *instruments // for counting the other tenants

	mu    sync.RWMutex
	known map[string]struct{}
}

func newTenants(max int, metrics *instruments) *tenants {
	if max <= 0 {
		return nil
	}
	return &tenants{max: max, metrics: metrics, known: map[string]struct{}{}}
}

// label returns the label value of a tenant.
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

// add adds a tenant. It returns false if there are too many.
func (t *tenants) add(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.known[name]; !known && len(t.known) >= t.max {
		return false
	}
	t.known[name] = struct{}{}
	return true
}

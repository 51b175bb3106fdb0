package resume

import (
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

// The stores of a server pass the tests that others must pass.
func TestConformance(t *testing.T) {
	for name, open := range map[string]func() store.EventStore{
		"memory": func() store.EventStore { return NewMemory() },
		"shared": func() store.EventStore { return NewShared(new(store.Memory), "replica1", limits.Limits{}.WithDefaults) },
	} {
		t.Run(name, func(t *testing.T) { storetest.EventStore(t, func(*testing.T) store.EventStore { return open() }) })
	}
}

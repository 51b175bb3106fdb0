package store_test

import (
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

// The stores of the examples pass the tests that others must pass.
func TestConformanceOfExamples(t *testing.T) {
	storetest.EventStore(t, func(*testing.T) store.EventStore {
		return &recentEvents{perStream: 100, streams: map[string]map[string][]store.Event{}}
	})
	storetest.Tasks(t, func(*testing.T) store.TaskStore { return &jsonTasks{records: map[string][]byte{}} }, time.Sleep)
}

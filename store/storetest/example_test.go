package storetest_test

import (
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

// A test of an implementation looks like this.
func Example() {
	test := func(t *testing.T) {
		shared := new(store.Memory)
		storetest.Values(t, func(*testing.T) store.Values { return shared }, time.Sleep)
		storetest.Signals(t, func(*testing.T) store.Signals { return shared })
		storetest.Events(t, func(*testing.T) store.EventLog { return shared }, time.Sleep)
		storetest.Buckets(t, func(*testing.T) store.Buckets { return shared }, time.Sleep)
	}
	_ = test
	// Output:
}

package storetest_test

import (
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

func TestMemory(t *testing.T) {
	now := time.Unix(0, 0)
	m := &store.Memory{Now: func() time.Time { return now }}
	storetest.Signals(t, func(*testing.T) store.Signals { return m })
	wait := func(d time.Duration) { now = now.Add(d) }
	storetest.Values(t, func(*testing.T) store.Values { return m }, wait)
	storetest.Events(t, func(*testing.T) store.EventLog { return m }, wait)
	storetest.Buckets(t, func(*testing.T) store.Buckets { return m }, wait)
}

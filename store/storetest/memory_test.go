package storetest_test

import (
	"errors"
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

func TestMemoryKnowsWhetherAnybodyListens(t *testing.T) {
	m := &store.Memory{}
	ctx := t.Context()
	if err := m.Publish(ctx, "a", nil); !errors.Is(err, store.ErrNoReceiver) {
		t.Errorf("Publish without a listener: %v, want ErrNoReceiver", err)
	}
	if err := m.Listen(ctx, []string{"a"}, func(string, []byte) {}, func() {}); err != nil {
		t.Fatal(err)
	}
	if err := m.Publish(ctx, "a", nil); err != nil {
		t.Errorf("Publish with a listener: %v", err)
	}
}

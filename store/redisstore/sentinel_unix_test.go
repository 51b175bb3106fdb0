//go:build unix

package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

// failover runs servers that take each other's place, and returns the URL of a store there.
func failover(t *testing.T) (servers *redistest.Failover, url string) {
	t.Helper()
	servers = redistest.StartFailover(t, suite)
	return servers, servers.URL() + "&prefix=test:"
}

func TestConformanceWithSentinel(t *testing.T) {
	t.Parallel()
	_, url := failover(t)
	storetest.Values(t, func(t *testing.T) store.Values { return open(t, url) }, time.Sleep)
	storetest.Signals(t, func(t *testing.T) store.Signals { return open(t, url) })
	storetest.Events(t, func(t *testing.T) store.EventLog { return open(t, url) }, time.Sleep)
	storetest.Buckets(t, func(t *testing.T) store.Buckets { return open(t, url) }, time.Sleep)
}

// When the server dies its replica takes its place: what it had copied is there, and listeners hear messages
// again and are told that they may have missed some.
func TestSentinelReplacesTheServer(t *testing.T) {
	t.Parallel()
	servers, url := failover(t)
	s := open(t, url)
	claim := func(key string) error {
		_, err := s.Claim(t.Context(), key, []byte("value"), time.Hour)
		return err
	}
	require.NoError(t, claim("kept"))
	e := listen(t, s, "a")
	publish(t, s, "a", "before")
	require.Equal(t, "a:before", <-e.got)
	servers.AwaitCopy()

	servers.Master.Kill()
	require.Error(t, claim("lost"))
	require.Eventually(t, func() bool { return claim("after") == nil }, 2*time.Minute, 100*time.Millisecond)
	value, err := s.Get(t.Context(), "kept")
	require.NoError(t, err)
	require.Equal(t, "value", string(value))
	<-e.missed
	publish(t, s, "a", "after")
	require.Equal(t, "a:after", <-e.got)
}

//go:build unix

package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

// failover runs a server with a replica and a Sentinel, and returns the URL of a store there.
func failover(t *testing.T) (master, replica *redistest.Server, url string) {
	t.Helper()
	master = start(t)
	_, port, _ := strings.Cut(master.Addr(), ":")
	replica = start(t, "--replicaof", "127.0.0.1 "+port)
	copied := dial(t, replica.Addr())
	require.Eventually(t, func() bool {
		return strings.Contains(copied.Info(t.Context(), "replication").Val(), "master_link_status:up")
	}, time.Minute, 10*time.Millisecond)
	sentinel := redistest.StartSentinel(t, suite, "main", master, 500)
	watch := dial(t, sentinel.Addr())
	require.Eventually(t, func() bool {
		known, err := watch.Do(t.Context(), "sentinel", "replicas", "main").Slice()
		return err == nil && len(known) == 1
	}, time.Minute, 10*time.Millisecond)
	return master, replica, "redis+sentinel://" + sentinel.Addr() + "?master_name=main&prefix=test:"
}

func TestConformanceWithSentinel(t *testing.T) {
	t.Parallel()
	_, _, url := failover(t)
	storetest.Values(t, func(t *testing.T) store.Values { return open(t, url) }, time.Sleep)
	storetest.Signals(t, func(t *testing.T) store.Signals { return open(t, url) })
	storetest.Events(t, func(t *testing.T) store.EventLog { return open(t, url) }, time.Sleep)
	storetest.Buckets(t, func(t *testing.T) store.Buckets { return open(t, url) }, time.Sleep)
}

// When the server dies its replica takes its place: what it had copied is there, and listeners hear messages
// again and are told that they may have missed some.
func TestSentinelReplacesTheServer(t *testing.T) {
	t.Parallel()
	master, replica, url := failover(t)
	s := open(t, url)
	claim := func(key string) error {
		_, err := s.Claim(t.Context(), key, []byte("value"), time.Hour)
		return err
	}
	require.NoError(t, claim("kept"))
	e := listen(t, s, "a")
	publish(t, s, "a", "before")
	require.Equal(t, "a:before", <-e.got)
	copied := dial(t, replica.Addr())
	require.Eventually(t, func() bool { return copied.Exists(t.Context(), "test:kept").Val() == 1 }, time.Minute, 10*time.Millisecond)

	master.Kill()
	require.Error(t, claim("lost"))
	require.Eventually(t, func() bool { return claim("after") == nil }, 2*time.Minute, 100*time.Millisecond)
	value, err := s.Get(t.Context(), "kept")
	require.NoError(t, err)
	require.Equal(t, "value", string(value))
	<-e.missed
	publish(t, s, "a", "after")
	require.Equal(t, "a:after", <-e.got)
}

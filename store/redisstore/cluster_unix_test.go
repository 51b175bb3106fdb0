//go:build unix

package redisstore_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

func TestConformanceWithCluster(t *testing.T) {
	needs.Tool(t, suite, "redis-cli")
	var addrs []string
	for range 3 {
		addrs = append(addrs, start(t, "--cluster-enabled", "yes").Addr())
	}
	out, err := exec.Command("redis-cli", append([]string{"--cluster", "create", "--cluster-yes"}, addrs...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	for _, addr := range addrs {
		client := dial(t, addr)
		require.Eventually(t, func() bool {
			return strings.Contains(client.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
		}, time.Minute, 10*time.Millisecond)
	}
	url := "redis+cluster://" + addrs[0] + "?prefix=test:"
	require.NoError(t, useAll(t, open(t, url)))
	storetest.Values(t, func(t *testing.T) store.Values { return open(t, url) }, time.Sleep)
	storetest.Signals(t, func(t *testing.T) store.Signals { return open(t, url) })
	require.NoError(t, open(t, url).Publish(t.Context(), "nobody", nil), "others may listen at another server")
	storetest.Events(t, func(t *testing.T) store.EventLog { return open(t, url) }, time.Sleep)
	storetest.Buckets(t, func(t *testing.T) store.Buckets { return open(t, url) }, time.Sleep)
}

//go:build unix

package redisstore_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/redisstore"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

const suite = "store/redisstore with a real server"

// start runs a Redis server.
func start(t *testing.T, flags ...string) *redistest.Server {
	t.Helper()
	return redistest.Start(t, suite, flags...)
}

// dial returns a plain client of a server.
func dial(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })
	return client
}

func TestConformanceWithServer(t *testing.T) {
	server := start(t)
	url := "redis://" + server.Addr() + "/0?prefix=test:"
	// The server ends values by its own clock, and each value at the latest when it is read.
	wait := time.Sleep
	storetest.Values(t, func(t *testing.T) store.Values { return open(t, url) }, wait)
	storetest.Signals(t, func(t *testing.T) store.Signals { return open(t, url) })
	storetest.Events(t, func(t *testing.T) store.EventLog { return open(t, url) }, wait)
	storetest.Buckets(t, func(t *testing.T) store.Buckets { return open(t, url) }, wait)
	proxy := redistest.StartProxy(t, server.Addr())
	behind := "redis://" + proxy.Addr() + "/0?prefix=test:"
	storetest.Missed(t, func(t *testing.T) store.Signals { return open(t, behind) }, proxy.Cut, proxy.Heal)
	keys, err := dial(t, server.Addr()).Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	for _, key := range keys {
		require.Regexp(t, "^test:", key)
	}
}

// Stores with different prefixes have neither values nor signals in common.
func TestPrefixesAreApart(t *testing.T) {
	server := start(t)
	a := open(t, "redis://"+server.Addr()+"?prefix=a:")
	b := open(t, "redis://"+server.Addr()+"?prefix=b:")
	for _, s := range []*redisstore.Store{a, b} {
		claimed, err := s.Claim(t.Context(), "key", []byte("x"), time.Minute)
		require.NoError(t, err)
		require.True(t, claimed)
	}
	got := make(chan string, 10)
	require.NoError(t, b.Listen(t.Context(), []string{"news"}, func(channel string, message []byte) {
		got <- channel + ":" + string(message)
	}, func() {}))
	require.ErrorIs(t, a.Publish(t.Context(), "news", []byte("of a")), store.ErrNoReceiver)
	require.NoError(t, b.Publish(t.Context(), "news", []byte("of b")))
	require.Equal(t, "news:of b", <-got)
	require.Empty(t, got)
}

// Eight connections change one value at the same time, and no change is lost.
func TestUpdatesUnderContention(t *testing.T) {
	const connections, each = 8, 25
	server := start(t)
	var all sync.WaitGroup
	var tries atomic.Int64
	for range connections {
		s := open(t, "redis://"+server.Addr())
		all.Go(func() {
			for range each {
				err := s.Update(t.Context(), "count", func(old []byte) ([]byte, time.Duration, error) {
					tries.Add(1)
					n, _ := strconv.Atoi(string(old))
					return []byte(strconv.Itoa(n + 1)), time.Minute, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	value, err := open(t, "redis://"+server.Addr()).Get(t.Context(), "count")
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(connections*each), string(value))
	t.Logf("%d tries for %d updates", tries.Load(), connections*each)
}

// An update that another caller always overtakes ends with its context.
func TestOvertakenUpdateEndsWithItsContext(t *testing.T) {
	server := start(t)
	s, other := open(t, "redis://"+server.Addr()), dial(t, server.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := s.Update(ctx, "key", func([]byte) ([]byte, time.Duration, error) {
		if tries++; tries == 5 {
			cancel()
		}
		require.NoError(t, other.Set(t.Context(), redisstore.DefaultPrefix+"key", tries, time.Minute).Err())
		return []byte("mine"), time.Minute, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	value, err := s.Get(t.Context(), "key")
	require.NoError(t, err)
	require.Equal(t, "5", string(value))
}

// Redis with allkeys-lru deletes values before their end when its memory is full.
func TestCheckRefusesServerThatEvicts(t *testing.T) {
	server := start(t, "--maxmemory-policy", "allkeys-lru")
	s := open(t, "redis://"+server.Addr())
	require.ErrorIs(t, s.Check(t.Context()), redisstore.ErrEvicts)
	require.NoError(t, dial(t, server.Addr()).ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	require.NoError(t, s.Check(t.Context()))
}

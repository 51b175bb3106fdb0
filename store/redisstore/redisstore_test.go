package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/redisstore"
	"github.com/vitrine-mcp/vitrine/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a store that is closed with the test.
func open(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(url)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	server := miniredis.RunT(t)
	url := "redis://" + server.Addr() + "/0?prefix=test:"
	storetest.Values(t, func(t *testing.T) store.Values { return open(t, url) }, server.FastForward)
	signals := func(t *testing.T) store.Signals { return open(t, url) }
	storetest.Signals(t, signals)
	storetest.Missed(t, signals, server.Close, func() { require.NoError(t, server.Restart()) })
	storetest.Events(t, func(t *testing.T) store.EventLog { return open(t, url) }, server.FastForward)
	now := time.Now()
	server.SetTime(now)
	storetest.Buckets(t, func(t *testing.T) store.Buckets { return open(t, url) }, func(d time.Duration) {
		now = now.Add(d)
		server.SetTime(now)
		server.FastForward(d)
	})
	for _, key := range server.Keys() {
		require.True(t, strings.HasPrefix(key, "test:"), key)
	}
}

// A server says how many listen to a channel.
func TestPublishToNobody(t *testing.T) {
	s := open(t, "redis://"+miniredis.RunT(t).Addr())
	require.ErrorIs(t, s.Publish(t.Context(), "a", nil), store.ErrNoReceiver)
	require.NoError(t, s.Listen(t.Context(), []string{"a"}, func(string, []byte) {}, func() {}))
	require.NoError(t, s.Publish(t.Context(), "a", nil))
	require.ErrorIs(t, s.Publish(t.Context(), "b", nil), store.ErrNoReceiver)
}

// A listener hears messages again after the server has gone and come back, and is told that it may have
// missed some.
func TestListenerIsToldWhatItMayHaveMissed(t *testing.T) {
	server := miniredis.RunT(t)
	s := open(t, "redis://"+server.Addr())
	got, missed := make(chan string, 10), make(chan struct{}, 10)
	require.NoError(t, s.Listen(t.Context(), []string{"a", "b"}, func(channel string, message []byte) {
		got <- channel + ":" + string(message)
	}, func() { missed <- struct{}{} }))
	require.NoError(t, s.Publish(t.Context(), "b", []byte("1")))
	require.Equal(t, "b:1", <-got)
	require.Empty(t, missed)
	server.Close()
	require.Error(t, s.Publish(t.Context(), "b", []byte("lost")))
	require.NoError(t, server.Restart())
	<-missed
	require.NoError(t, s.Publish(t.Context(), "a", []byte("2")))
	require.Equal(t, "a:2", <-got)
	require.Empty(t, missed)
}

// A server that is away is an error, which the caller's deadline bounds.
func TestServerIsAway(t *testing.T) {
	server := miniredis.RunT(t)
	s := open(t, "redis://"+server.Addr())
	server.Close()
	_, err := s.Get(t.Context(), "key")
	require.ErrorContains(t, err, "redisstore: get: ")
	_, err = s.Claim(t.Context(), "key", nil, time.Minute)
	require.ErrorContains(t, err, "redisstore: claim: ")
	require.Error(t, s.Update(t.Context(), "key", func([]byte) ([]byte, time.Duration, error) { return nil, time.Minute, nil }))
	require.ErrorContains(t, s.Listen(t.Context(), []string{"a"}, nil, nil), "redisstore: listen: ")
	require.ErrorContains(t, s.Check(t.Context()), "redisstore: ")
}

// Logs have the address of the store and nothing that its URL keeps secret.
func TestNames(t *testing.T) {
	for url, want := range map[string]string{
		"redis://vitrine:s3cret@a.example:6380/2?prefix=p:&read_timeout=3s": "redis://a.example:6380/2",
		"unix://vitrine:s3cret@/run/redis.sock?db=1":                        "unix:///run/redis.sock",
		"redis+cluster://vitrine:s3cret@a.example:6379?addr=b.example:6379": "redis+cluster://a.example:6379",
		"rediss+sentinel://vitrine:s3cret@a.example:26379?master_name=main": "rediss+sentinel://a.example:26379",
	} {
		s, err := redisstore.Open(url)
		require.NoError(t, err, url)
		require.Equal(t, want, s.Store().Name)
		require.NoError(t, s.Close())
	}
	client := redis.NewClient(&redis.Options{Addr: "a.example:6379", Password: "s3cret", DB: 2})
	defer client.Close()
	require.Equal(t, "Redis<a.example:6379 db:2>", redisstore.New(client, "").Store().Name)
}

func TestOpenRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"redis+raft://host":                                     `the scheme "redis+raft" is not known: redis, rediss, unix, redis+cluster or redis+sentinel`,
		"http://host":                                           "invalid URL scheme: http",
		"redis://host?colour=red":                               "unexpected option: colour",
		"redis://user:secret@host:%zz":                          "the URL cannot be parsed",
		"redis+sentinel://host:1?nonsense=on":                   "unexpected option: nonsense",
		"redis+sentinel://host:1?context_timeout_enabled=false": "context_timeout_enabled must be true",
		"redis+sentinel://host:1?route_by_latency=true":         "route_by_latency and route_randomly",
		"redis+sentinel://host:1?route_randomly=true":           "route_by_latency and route_randomly",
		"redis+sentinel://host:1?replica_only=true":             "replica_only must not be true",
	} {
		_, err := redisstore.Open(url)
		require.ErrorContains(t, err, want, url)
		require.NotContains(t, err.Error(), "secret")
	}
	for _, url := range []string{"rediss://user:secret@host:1/2", "unix:///run/redis.sock", "redis+cluster://a:1?addr=b:1", "rediss+sentinel://a:1?master_name=m"} {
		s, err := redisstore.Open(url)
		require.NoError(t, err, url)
		require.NoError(t, s.Close())
	}
}

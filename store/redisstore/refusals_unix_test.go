//go:build unix

package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/store"
)

// A server that answers, and does not do what it is asked, has refused it: also in a script, and whatever the reason. What
// only reads works meanwhile. A server that wants another password has refused nothing: it counts as away.
func TestRefusals(t *testing.T) {
	server := start(t)
	s := open(t, "redis://"+server.Addr())
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	_, err := s.Claim(t.Context(), "before", []byte("1"), time.Minute)
	require.NoError(t, err)
	change := func([]byte) ([]byte, time.Duration, error) { return []byte("2"), time.Minute, nil }
	writes := map[string]func() error{
		"claim":  func() error { _, err := s.Claim(t.Context(), "key", nil, time.Minute); return err },
		"update": func() error { return s.Update(t.Context(), "before", change) },
		"append": func() error {
			_, err := s.Append(t.Context(), "session", store.Event{Stream: "a", Seq: 1}, store.EventBounds{Events: 2, Bytes: 1 << 20, Life: time.Minute})
			return err
		},
		"take": func() error {
			_, err := s.Take(t.Context(), "bucket", store.Bucket{Burst: 1, Fill: time.Minute}, 0, 1)
			return err
		},
	}
	config := func(name, value string) func() {
		return func() { require.NoError(t, client.ConfigSet(t.Context(), name, value).Err()) }
	}
	copies := func(host, port string) func() {
		return func() { require.NoError(t, client.ReplicaOf(t.Context(), host, port).Err()) }
	}
	for says, c := range map[string]struct{ begin, end func() }{
		"OOM":        {config("maxmemory", "1"), config("maxmemory", "0")},
		"NOREPLICAS": {config("min-replicas-to-write", "1"), config("min-replicas-to-write", "0")},
		"READONLY":   {copies("127.0.0.1", "1"), copies("no", "one")},
	} {
		c.begin()
		for name, write := range writes {
			err := write()
			require.ErrorIs(t, err, store.ErrRefused, "%s, %s", says, name)
			require.ErrorContains(t, err, says)
		}
		value, err := s.Get(t.Context(), "before")
		require.NoError(t, err)
		require.Equal(t, "1", string(value))
		c.end()
	}
	require.NoError(t, client.ConfigSet(t.Context(), "requirepass", "secret").Err())
	_, err = open(t, "redis://"+server.Addr()).Get(t.Context(), "before")
	require.ErrorContains(t, err, "NOAUTH")
	require.NotErrorIs(t, err, store.ErrRefused)
}

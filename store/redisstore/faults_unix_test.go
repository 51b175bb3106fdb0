//go:build unix

package redisstore_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/store/redisstore"
)

// An ear is a listener of a test.
type ear struct {
	got    chan string
	missed chan struct{}
}

func listen(t *testing.T, s *redisstore.Store, channels ...string) ear {
	t.Helper()
	e := ear{make(chan string, 1<<10), make(chan struct{}, 1<<10)}
	require.NoError(t, s.Listen(t.Context(), channels, func(channel string, message []byte) {
		e.got <- channel + ":" + string(message)
	}, func() { e.missed <- struct{}{} }))
	return e
}

func publish(t *testing.T, s *redisstore.Store, channel, message string) {
	t.Helper()
	require.NoError(t, s.Publish(t.Context(), channel, []byte(message)))
}

// A listener hears messages again after each restart of the server, and is told once that it may have
// missed some.
func TestListenerAfterRestarts(t *testing.T) {
	server := start(t)
	s := open(t, "redis://"+server.Addr())
	e := listen(t, s, "a", "b", "c")
	publish(t, s, "b", "0")
	require.Equal(t, "b:0", <-e.got)
	for i, end := range []func(){server.Stop, server.Kill} {
		end()
		require.Error(t, s.Publish(t.Context(), "a", []byte("lost")))
		require.Error(t, s.Listen(t.Context(), []string{"a"}, nil, nil))
		require.Empty(t, e.missed)
		server.Start()
		<-e.missed
		publish(t, s, "c", strconv.Itoa(i))
		require.Equal(t, "c:"+strconv.Itoa(i), <-e.got)
	}
	require.Empty(t, e.missed)
}

// A connection that hangs is noticed without an error of the network. Nothing is said to be missed until
// the listener hears again.
func TestListenerNoticesConnectionThatHangs(t *testing.T) {
	server := start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	s := open(t, "redis://"+proxy.Addr())
	e := listen(t, s, "a")
	direct := open(t, "redis://"+server.Addr())
	dialed := proxy.Dialed()
	proxy.Freeze()
	publish(t, direct, "a", "lost")
	proxy.AwaitDialed(dialed + 1) // the listener has given the first connection up
	require.Empty(t, e.missed)
	proxy.Heal()
	<-e.missed
	publish(t, direct, "a", "1")
	require.Equal(t, "a:1", <-e.got)
	require.Empty(t, e.missed)
}

// Each call returns at its deadline while the server does not answer, whatever the reason.
func TestDeadlinesHold(t *testing.T) {
	for name, hang := range map[string]func(*redistest.Server, *redistest.Proxy, *redis.Client){
		"the connection hangs": func(_ *redistest.Server, p *redistest.Proxy, _ *redis.Client) { p.Freeze() },
		"the server hangs":     func(s *redistest.Server, _ *redistest.Proxy, _ *redis.Client) { s.Freeze() },
		"the server pauses": func(_ *redistest.Server, _ *redistest.Proxy, c *redis.Client) {
			c.Do(context.Background(), "client", "pause", 60_000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			proxy := redistest.StartProxy(t, server.Addr())
			s := open(t, "redis://"+proxy.Addr()+"?read_timeout=1h&write_timeout=1h&dial_timeout=1h&pool_timeout=1h")
			require.NoError(t, s.Ping(t.Context()))
			hang(server, proxy, dial(t, server.Addr()))
			for call, do := range map[string]func(context.Context) error{
				"get":   func(ctx context.Context) error { _, err := s.Get(ctx, "key"); return err },
				"claim": func(ctx context.Context) error { _, err := s.Claim(ctx, "key", nil, time.Minute); return err },
				"take": func(ctx context.Context) error {
					_, err := s.Take(ctx, "bucket", store.Bucket{Burst: 1, Fill: time.Minute}, 0, 1)
					return err
				},
				"publish": func(ctx context.Context) error { return s.Publish(ctx, "a", nil) },
				"ping":    s.Ping,
				"check":   s.Check,
				"update": func(ctx context.Context) error {
					return s.Update(ctx, "key", func([]byte) ([]byte, time.Duration, error) { return nil, time.Minute, nil })
				},
				"listen": func(ctx context.Context) error { return s.Listen(ctx, []string{"a"}, nil, nil) },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				require.ErrorContains(t, do(ctx), "redisstore: ", call) // it would hang for an hour
				cancel()
			}
		})
	}
}

// A listener that is slow loses no message, even if the server has more than fit in a channel of go-redis.
func TestSlowListenerLosesNothingSilently(t *testing.T) {
	const messages = 1000
	server := start(t)
	s := open(t, "redis://"+server.Addr())
	got, wait := make(chan string, messages), make(chan struct{})
	require.NoError(t, s.Listen(t.Context(), []string{"a"}, func(_ string, message []byte) {
		<-wait
		got <- string(message)
	}, func() { t.Error("the connection was lost") }))
	for i := range messages {
		publish(t, s, "a", strconv.Itoa(i))
	}
	close(wait)
	for i := range messages {
		require.Equal(t, strconv.Itoa(i), <-got)
	}
}

// The server drops a listener that lets too much wait. The listener is told.
func TestListenerThatServerDropsIsTold(t *testing.T) {
	server := start(t, "--client-output-buffer-limit", "pubsub 1mb 0 0")
	s := open(t, "redis://"+server.Addr())
	wait, missed := make(chan struct{}), make(chan struct{}, 1)
	require.NoError(t, s.Listen(t.Context(), []string{"a"}, func(string, []byte) { <-wait }, func() { missed <- struct{}{} }))
	client := dial(t, server.Addr())
	channel := redisstore.DefaultPrefix + "a"
	for { // until the server has no listener any more
		n, err := client.Publish(t.Context(), channel, make([]byte, 1<<20)).Result()
		require.NoError(t, err)
		if n == 0 {
			break
		}
	}
	close(wait)
	<-missed
}

// A command whose answer is lost is not sent again: the second one would say that another caller has the
// claim.
func TestClaimWhoseAnswerIsLostIsNotRepeated(t *testing.T) {
	server := start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	s := open(t, "redis://"+proxy.Addr())
	require.NoError(t, s.Ping(t.Context()))
	proxy.FreezeAnswers()
	client := dial(t, server.Addr())
	failed := make(chan error, 1)
	go func() {
		_, err := s.Claim(t.Context(), "key", []byte("mine"), time.Minute)
		failed <- err
	}()
	for client.Exists(t.Context(), redisstore.DefaultPrefix+"key").Val() == 0 { //nolint:revive // asks again
	}
	proxy.Drop()
	proxy.Heal()
	require.Error(t, <-failed)
}

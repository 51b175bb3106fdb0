package server_test

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// limitedReplicas runs a test with two servers that share a limit of so many calls in an hour. The functions call
// a tool of one of them, and return the status.
func limitedReplicas(t *testing.T, calls int, test func(t *testing.T, shared *sharedMemory, a, b func() int), opts ...server.Option) {
	synctest.Test(t, func(t *testing.T) {
		a, b, shared := replicas(t, append(opts, hourly("calls", calls, forMethods(mcp.MethodToolsCall)))...)
		session := open(t, a)
		callAt := func(srv *server.Server) func() int {
			return func() int { return post(srv, legacy(2, "tools/call", callPeer), session).Code }
		}
		require.Equal(t, 200, post(b, legacy(2, "ping", ""), session).Code, "the session is known")
		synctest.Wait()
		shared.used()
		test(t, shared, callAt(a), callAt(b))
	})
}

// The tokens of a rate limit are those of all replicas.
func TestReplicasShareARateLimit(t *testing.T) {
	limitedReplicas(t, 4, func(t *testing.T, _ *sharedMemory, a, b func() int) {
		for _, at := range []func() int{a, b, b, a} {
			require.Equal(t, 200, at())
		}
		require.Equal(t, 429, a())
		require.Equal(t, 429, b())
		time.Sleep(15 * time.Minute)
		require.Equal(t, 200, b())
		require.Equal(t, 429, a())
	})
}

// A call under a rate limit does not wait for the store, which hears of it a moment later.
func TestCallUnderASharedRateLimitUsesNoStore(t *testing.T) {
	limitedReplicas(t, 100, func(t *testing.T, shared *sharedMemory, a, b func() int) {
		for range 4 {
			for _, at := range []func() int{a, b} {
				require.Equal(t, 200, at())
				require.Zero(t, shared.used())
				time.Sleep(time.Second)
				require.Equal(t, 1, shared.used())
			}
		}
	})
}

// While the store is away each replica has the whole limit to itself. That is counted, and each of them logs it
// once.
func TestRateLimitWhileTheStoreIsAway(t *testing.T) {
	logs, tel := &logRecorder{}, recording(t)
	limitedReplicas(t, 10, func(t *testing.T, shared *sharedMemory, a, b func() int) {
		logged := func() []int { return []int{len(logs.find("rates.local")), len(logs.find("rates.shared"))} }
		shared.fail(errors.New("down"))
		for _, at := range []func() int{a, b} {
			for range 10 {
				require.Equal(t, 200, at())
			}
			require.Equal(t, 429, at())
		}
		synctest.Wait() // the store is asked beside the calls
		require.Equal(t, []int{2, 0}, logged())
		require.Contains(t, scrape(t, tel), `vitrine_rate_limit_local_messages_total{limit="calls"} 22`)

		shared.fail(nil)
		time.Sleep(12 * time.Minute) // two tokens, which the next calls ask about
		for _, at := range []func() int{a, b} {
			require.Equal(t, 200, at())
		}
		synctest.Wait()
		require.Equal(t, []int{2, 2}, logged())
		passed := 0
		for range 20 {
			for _, at := range []func() int{a, b} {
				if at() == 200 {
					passed++
				}
			}
		}
		require.Equal(t, 10, passed, "they share what is in the store")
	}, server.WithTelemetry(tel), server.WithLogger(slog.New(logs)))
}

package server_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// A stubborn is a server with a handler that ignores its cancelled context for a time, and
// a hook that notes when it runs.
type stubborn struct {
	srv            *server.Server
	log            lockedBuffer
	begun          atomic.Pointer[time.Time]
	returned, stop atomic.Int64 // ns since the drain began to cancel
}

func newStubborn(t *testing.T, ignores time.Duration) *stubborn {
	t.Helper()
	s := &stubborn{}
	s.srv = newServer(t, server.WithLogger(slog.New(slog.NewTextHandler(&s.log, nil))), server.WithLimits(server.Limits{HookGrace: 10 * time.Second}))
	server.AddTool(s.srv, server.Tool{Name: "stubborn"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		<-ctx.Done()
		begun := time.Now()
		s.begun.Store(&begun)
		time.Sleep(ignores)
		s.returned.Store(int64(time.Since(begun)))
		return "", nil
	})
	s.srv.AddHook("database", nil, func(context.Context) error { s.stop.Store(int64(time.Since(*s.begun.Load()))); return nil })
	p := dial(t, s.srv)
	p.send(modern(1, "tools/call", call("stubborn", `{}`)))
	synctest.Wait()
	return s
}

// drain shuts down without patience.
func (s *stubborn) drain() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return s.srv.Shutdown(ctx)
}

// A stop hook waits for a late handler.
func TestStopHooksRunAfterTheLastHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStubborn(t, 3*time.Second)
		require.ErrorIs(t, s.drain(), server.ErrAbandoned)
		require.EqualValues(t, 3*time.Second, s.returned.Load())
		require.EqualValues(t, 3*time.Second, s.stop.Load())
		require.NotContains(t, s.log.String(), "hooks.unsafe")
	})
}

// The wait is bounded, and the log names the handlers that still run.
func TestRunningHandlersAreLoggedBeforeStopHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStubborn(t, time.Minute)
		require.ErrorIs(t, s.drain(), server.ErrAbandoned)
		require.EqualValues(t, s.srv.Limits().CleanupGrace+5*time.Second, s.stop.Load(), "half of the hook grace")
		require.Regexp(t, `level=WARN msg=hooks.unsafe .* left=1 handlers="tools/call stubborn \(id 1, 5.5s\)"`, s.log.String())
		time.Sleep(time.Minute)
	})
}

// Close ends that wait.
func TestStopHooksAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStubborn(t, time.Minute)
		s.srv.Close()
		require.ErrorIs(t, s.drain(), server.ErrAbandoned)
		require.Less(t, time.Duration(s.stop.Load()), time.Second)
		require.Contains(t, s.log.String(), "hooks.unsafe")
		time.Sleep(time.Minute)
	})
}

// Stop hooks also wait for handlers of notifications, and the log names them.
func TestStopHooksWaitForNotificationHandlers(t *testing.T) {
	for takes, logs := range map[time.Duration]bool{3 * time.Second: false, time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			var log lockedBuffer
			srv := newServer(t, server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), server.WithLimits(server.Limits{HookGrace: 10 * time.Second}))
			server.AddNotification(srv, "x/nudge", "", func(context.Context, *server.Notice, none) { time.Sleep(takes) })
			var stopped time.Duration
			begun := time.Now()
			srv.AddHook("database", nil, func(context.Context) error { stopped = time.Since(begun); return nil })
			p := dial(t, srv)
			p.send(`{"jsonrpc":"2.0","method":"x/nudge","params":{"_meta":{` + modernMeta + `}}}`)
			synctest.Wait()
			require.NoError(t, srv.Shutdown(t.Context()))
			require.Equal(t, min(takes, 5*time.Second), stopped)
			if logs {
				require.Contains(t, log.String(), `left=1 handlers="x/nudge (1)"`)
			} else {
				require.NotContains(t, log.String(), "hooks.unsafe")
			}
			time.Sleep(takes)
		})
	}
}

// The log names a hook that fails or is too slow.
func TestHooksAreNamedInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		srv := newServer(t, server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), server.WithLimits(server.Limits{HookGrace: time.Second}))
		srv.AddHook("cache", nil, func(context.Context) error { return errors.New("disk full") })
		srv.AddHook("queue", nil, func(context.Context) error { time.Sleep(3 * time.Second); return nil })
		require.EqualError(t, srv.Shutdown(t.Context()), `server: stop hook "cache": disk full`)
		require.Contains(t, log.String(), `level=WARN msg=hook.slow hook=queue phase=stop took=1s`)
		require.Regexp(t, `level=ERROR msg=hook.failed hook=cache phase=stop took=\S+ error="disk full"`, log.String())
	})
}

func TestInvalidHooksPanic(t *testing.T) {
	srv := newServer(t)
	nothing := func(context.Context) error { return nil }
	require.Panics(t, func() { srv.AddHook("", nothing, nil) })
	require.Panics(t, func() { srv.AddHook("empty", nil, nil) })
}

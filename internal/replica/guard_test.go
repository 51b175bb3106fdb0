package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/store"
)

// A store that fails is not asked for a while, then by one call at a time, and again by all when it
// answers.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 0
		g := newGuard(time.Second, slog.New(slog.DiscardHandler))
		g.failed = func(bool) { failures++ }
		down := errors.New("down")
		calls := 0
		do := func(err error) error {
			return g.do(t.Context(), session.StoreGet, store.ErrNoValue, func(context.Context) error {
				calls++
				return err
			})
		}
		require.ErrorIs(t, do(store.ErrNoValue), store.ErrNoValue, "that is an answer")
		for range failuresToOpen - 1 {
			require.ErrorIs(t, do(down), down)
		}
		require.NoError(t, do(nil), "failures count in a row")
		for range failuresToOpen {
			require.ErrorIs(t, do(down), down)
		}
		calls = 0
		require.ErrorIs(t, do(nil), errAway)
		require.Zero(t, calls)

		var pauses []time.Duration
		for range 8 {
			pause := time.Until(g.openTo)
			pauses = append(pauses, pause)
			time.Sleep(pause)
			require.ErrorIs(t, g.do(t.Context(), session.StoreGet, nil, func(context.Context) error {
				require.ErrorIs(t, do(nil), errAway, "one call tries")
				return down
			}), down)
		}
		require.Less(t, pauses[0], pauses[2])
		for _, pause := range pauses {
			require.GreaterOrEqual(t, pause, firstPause/2)
			require.LessOrEqual(t, pause, longestPause)
		}
		time.Sleep(longestPause)
		require.NoError(t, do(nil))
		require.NoError(t, do(nil))
		require.Equal(t, 2*failuresToOpen-1+8, failures)

		var info session.StoreInfo
		g.describe(&info)
		require.Zero(t, info.Away)
		require.Equal(t, map[string]uint64{
			session.StoreOK: 4, session.StoreFailed: 2*failuresToOpen - 1 + 8, session.StoreSkipped: 9,
		}, info.Operations[session.StoreGet])
	})
}

// Callers that give up, or panic, say nothing about the store or fail once; neither keeps others from
// trying.
func TestGuardOfCallersThatGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(time.Second, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		giveUp := func() error {
			return g.do(ctx, session.StoreGet, nil, func(ctx context.Context) error { return ctx.Err() })
		}
		for range 2 * failuresToOpen {
			require.ErrorIs(t, giveUp(), context.Canceled)
		}
		require.False(t, g.isAway())
		explode := func() {
			_ = g.do(t.Context(), session.StoreGet, nil, func(context.Context) error { panic("in the store") })
		}
		for range failuresToOpen {
			require.Panics(t, explode)
		}
		require.True(t, g.isAway())
		for _, probe := range []func(){explode, func() { _ = giveUp() }} {
			time.Sleep(longestPause)
			func() {
				defer func() { _ = recover() }()
				probe()
			}()
		}
		time.Sleep(longestPause)
		require.NoError(t, g.do(t.Context(), session.StoreGet, nil, func(context.Context) error { return nil }))
	})
}

// The log says again each minute that the store is away, for those who read its end.
func TestGuardLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := newGuard(time.Second, slog.New(slog.NewTextHandler(&log, nil)))
		down := errors.New("down")
		for began := time.Now(); time.Since(began) < 150*time.Second; time.Sleep(100 * time.Millisecond) {
			_ = g.do(t.Context(), session.StoreGet, nil, func(context.Context) error { return down })
		}
		time.Sleep(longestPause)
		require.NoError(t, g.do(t.Context(), session.StoreGet, nil, func(context.Context) error { return nil }))
		require.Equal(t, []string{
			"WARN msg=store.away operation=get error=down lasted=0s",
			"WARN msg=store.away operation=get error=down lasted=1m…",
			"WARN msg=store.away operation=get error=down lasted=2m…",
			"INFO msg=store.back lasted=2m…",
		}, linesOf(&log))
	})
}

// linesOf returns the lines of a log, without their times and seconds after minutes.
func linesOf(log *bytes.Buffer) (lines []string) {
	for line := range strings.Lines(log.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), "level=")
		lines = append(lines, regexp.MustCompile(`(1m|2m)[\d.]+s`).ReplaceAllString(line, "$1…"))
	}
	return lines
}

// A store that answers one operation and refuses another one, such as one that is full, is not away. The log says each
// minute what it refuses.
func TestGuardLogsWhatAStoreRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := newGuard(time.Second, slog.New(slog.NewTextHandler(&log, nil)))
		full := errors.New("OOM")
		do := func(op string, err error) {
			_ = g.do(t.Context(), op, nil, func(context.Context) error { return err })
		}
		for began := time.Now(); time.Since(began) < 150*time.Second; time.Sleep(5 * time.Second) {
			do(session.StoreGet, nil)
			do(session.StoreAppend, full)
			require.False(t, g.isAway())
		}
		do(session.StoreAppend, nil)
		time.Sleep(time.Minute)
		for range failuresToOpen - 1 {
			do(session.StoreAppend, full)
			do(session.StoreGet, nil)
		}
		require.Equal(t, []string{
			"WARN msg=store.failing operation=append error=OOM failures=5 lasted=20s",
			"WARN msg=store.failing operation=append error=OOM failures=17 lasted=1m…",
			"WARN msg=store.failing operation=append error=OOM failures=29 lasted=2m…",
		}, linesOf(&log), "failures of an operation count in a row")
		log.Reset()
		for range failuresToOpen {
			do(session.StoreAppend, full)
		}
		time.Sleep(longestPause)
		do(session.StoreGet, nil)
		for range failuresToOpen - 1 {
			do(session.StoreAppend, full)
			do(session.StoreGet, nil)
		}
		time.Sleep(failingAgain + time.Second)
		do(session.StoreAppend, full)
		require.Equal(t, []string{
			"WARN msg=store.away operation=append error=OOM lasted=0s",
			"INFO msg=store.back lasted=10s",
		}, linesOf(&log), "failures of an outage do not count, nor those of long ago")
	})
}

// A store that refuses all that it is asked, such as one that is full and has nothing to read, answers: it is not away. The
// log says what it refuses. An answer ends an outage, also a refusal.
func TestGuardOfAStoreThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		failures := 0
		g := newGuard(time.Second, slog.New(slog.NewTextHandler(&log, nil)))
		g.failed = func(bool) { failures++ }
		full := fmt.Errorf("%w: OOM", store.ErrRefused)
		do := func(err error) {
			_ = g.do(t.Context(), session.StoreLease, nil, func(context.Context) error { return err })
		}
		for range 10 {
			do(full)
			require.False(t, g.isAway())
			time.Sleep(time.Second)
		}
		require.Equal(t, 10, failures, "what could not be done is tried again")
		require.Equal(t, []string{
			`WARN msg=store.failing operation=lease error="store: the operation is refused: OOM" failures=5 lasted=4s`,
		}, linesOf(&log))
		log.Reset()
		for range failuresToOpen {
			do(errors.New("down"))
		}
		require.True(t, g.isAway())
		time.Sleep(longestPause)
		do(full)
		require.False(t, g.isAway())
		require.Equal(t, []string{
			"WARN msg=store.away operation=lease error=down lasted=0s",
			"INFO msg=store.back lasted=10s",
		}, linesOf(&log)[:2])
		var info session.StoreInfo
		g.describe(&info)
		require.Equal(t, map[string]uint64{session.StoreRefused: 11, session.StoreFailed: failuresToOpen}, info.Operations[session.StoreLease])
	})
}

// A call that does not return in time has timed out.
func TestGuardDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(time.Second, slog.New(slog.DiscardHandler))
		began := time.Now()
		err := g.do(t.Context(), session.StoreClaim, nil, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		var info session.StoreInfo
		g.describe(&info)
		require.Equal(t, map[string]uint64{session.StoreTimedOut: 1}, info.Operations[session.StoreClaim])
		require.Equal(t, time.Second, info.Took[session.StoreClaim])
	})
}

// What a change returns is no failure of the store.
func TestErrorsOfChangesAreNotTheStores(t *testing.T) {
	g := newGuard(time.Second, slog.New(slog.DiscardHandler))
	v := values{new(store.Memory), g, plainOperations}
	own := errors.New("own")
	for range 2 * failuresToOpen {
		err := v.Update(t.Context(), "key", func([]byte) ([]byte, time.Duration, error) { return nil, 0, own })
		require.Equal(t, own, err)
	}
	require.False(t, g.isAway())
}

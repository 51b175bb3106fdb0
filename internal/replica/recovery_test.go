package replica

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/store"
)

// A downable store fails while it is down.
type downable struct {
	store.Memory
	down atomic.Bool
}

func (d *downable) Get(ctx context.Context, key string) ([]byte, error) {
	if d.down.Load() {
		return nil, errors.New("down")
	}
	return d.Memory.Get(ctx, key)
}

// A recovery goes on until the store has answered, however long the outage, and whether something else asks the store or
// not. It takes no longer than the longest pause.
func TestRecoveryOutlastsTheOutage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 { // the pauses are random
		synctest.Test(t, func(t *testing.T) {
			shared := &downable{}
			var missed atomic.Int64
			l := New(Config{
				Store: store.Store{Values: shared, Signals: shared}, Logger: slog.New(slog.DiscardHandler), Timeout: time.Second, MaxPending: 1,
				Core: session.New(session.Config{Logger: slog.New(slog.DiscardHandler)}), Missed: func() { missed.Add(1) },
			})
			defer l.Close()
			synctest.Wait()
			require.EqualValues(t, 1, missed.Swap(0), "what was before it began to listen")
			shared.down.Store(true)
			for range failuresToOpen {
				_, err := l.State(t.Context(), "session")
				require.Error(t, err)
			}
			time.Sleep(time.Hour)
			require.Zero(t, missed.Load())
			for range random.IntN(20) { // others ask as well
				time.Sleep(time.Second)
				_, _ = l.State(t.Context(), "session")
			}
			shared.down.Store(false)
			time.Sleep(longestPause + time.Second)
			require.EqualValues(t, 1, missed.Load())
			require.False(t, l.guard.isAway())
		})
	}
}

// Replicas that have lost their store at the same moment do not all come back to it at the same moment.
func TestReplicasRecoverOneAfterAnother(t *testing.T) {
	const replicas, most, within = 100, 25, 250 * time.Millisecond // a tenth of them come back in the densest such time, in the mean
	for _, outage := range []time.Duration{10 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			shared := &downable{}
			back := make(chan time.Time, 10*replicas)
			var links []*Link
			for range replicas {
				l := New(Config{
					Store: store.Store{Values: shared, Signals: shared}, Logger: slog.New(slog.DiscardHandler), Timeout: time.Second, MaxPending: 1,
					Core: session.New(session.Config{Logger: slog.New(slog.DiscardHandler)}), Missed: func() { back <- time.Now() },
				})
				defer l.Close()
				links = append(links, l)
			}
			synctest.Wait()
			require.Len(t, back, replicas)
			for range replicas { // what was before they began to listen
				<-back
			}
			shared.down.Store(true)
			for _, l := range links {
				for range failuresToOpen {
					_, err := l.State(t.Context(), "session")
					require.Error(t, err)
				}
			}
			time.Sleep(outage)
			shared.down.Store(false)
			time.Sleep(2 * longestPause)
			require.Len(t, back, replicas)
			var times []time.Time
			for range replicas {
				times = append(times, <-back)
			}
			for i := range times[most:] {
				require.Greater(t, times[i+most].Sub(times[i]), within, "%d replicas are back within a moment after %v", most, outage)
			}
		})
	}
}

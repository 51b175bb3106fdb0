package replica

import (
	"context"
	"errors"
	"log/slog"
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

// A recovery goes on until the store has answered, however long the outage, and although nothing else asks
// the store.
func TestRecoveryOutlastsTheOutage(t *testing.T) {
	for range 30 { // the pauses are random
		synctest.Test(t, func(t *testing.T) {
			shared := &downable{}
			var missed atomic.Int64
			l := New(Config{
				Store: store.Store{Values: shared, Signals: shared}, Logger: slog.New(slog.DiscardHandler), Timeout: time.Second, MaxPending: 1,
				Core: session.New(session.Config{Logger: slog.New(slog.DiscardHandler)}), Missed: func() { missed.Add(1) },
			})
			defer l.Close()
			synctest.Wait()
			shared.down.Store(true)
			for range failuresToOpen {
				_, err := l.State(t.Context(), "session")
				require.Error(t, err)
			}
			time.Sleep(time.Hour)
			require.Zero(t, missed.Load())
			shared.down.Store(false)
			time.Sleep(2 * longestPause)
			require.EqualValues(t, 1, missed.Load())
			require.False(t, l.guard.isAway())
		})
	}
}

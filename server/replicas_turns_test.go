package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
)

// A frozen store is one whose values no call gets before its deadline.
type frozen struct {
	store.Memory
	asked atomic.Int64
}

func (f *frozen) Get(ctx context.Context, _ string) ([]byte, error) {
	f.asked.Add(1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// Sessions that a replica sees for the first time wait for the store. Meanwhile they hold no turn, so that
// calls of other sessions do not wait.
func TestSessionsThatWaitForTheStoreHoldNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &frozen{}
		opts := []server.Option{
			server.WithStore(store.Store{Values: shared, Signals: shared, Events: shared}),
			server.WithLimits(server.Limits{MaxTurns: 1, StoreTimeout: time.Second}),
		}
		a, b := newReplica(t, opts...), newReplica(t, opts...)
		defer a.Shutdown(context.Background())
		defer b.Shutdown(context.Background())
		call, here, elsewhere := legacy(2, "tools/call", callPeer), open(t, a), open(t, b)
		require.Equal(t, 200, post(a, call, here).Code)
		before := shared.asked.Load()
		answered := make(chan int, 1)
		go func() { answered <- post(a, call, elsewhere).Code }()
		synctest.Wait()
		require.Greater(t, shared.asked.Load(), before)
		began := time.Now()
		require.Equal(t, 200, post(a, call, here).Code)
		require.Zero(t, time.Since(began))
		require.Equal(t, 200, <-answered)
	})
}

package session

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// A slot that is granted to a holder which has ended meanwhile goes back, as does that of a goroutine
// whose holder has got one already.
func TestClassSlotOfAnEndedHolderGoesBack(t *testing.T) {
	for name, meanwhile := range map[string]func(s *slots) (left int){
		"ended":   func(s *slots) int { s.handler.end(s); return 0 },
		"resumed": func(s *slots) int { s.handler.state.Store(partHeld); s.holders.Add(1); return 1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				class := NewClass("slow", 1)
				table := share.NewTable()
				s := &slots{caller: table.Get(share.KeyOf(nil, share.AddrOf("192.0.2.1:1")))}
				other := table.Get(share.KeyOf(nil, share.AddrOf("192.0.2.2:1")))
				s.wantClass(class)
				require.True(t, class.pool.TryAcquire(s.caller))
				s.handler.yield(s)
				require.True(t, class.pool.TryAcquire(other))
				resumed := make(chan error, 1)
				go func() { resumed <- s.handler.resume(context.Background(), s) }()
				synctest.Wait()
				require.Equal(t, int64(1), class.resuming.Load())
				left := meanwhile(s)
				class.pool.Release(other)
				require.NoError(t, <-resumed)
				require.Equal(t, int32(left), s.holders.Load())
				require.Zero(t, class.pool.Usage().Used)
			})
		})
	}
}

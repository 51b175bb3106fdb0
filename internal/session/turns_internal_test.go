package session

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
)

// There is a turn for each processor. By default several callers leave one of them free, and with max_turns they take all.
func TestTurnsAreOneForEachProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	for maxTurns, want := range map[int]int{0: 2, 3: 3, 5: 5} {
		callers := share.NewTable()
		turns := newTurns(callers, &limits.Limits{MaxTurns: maxTurns})
		require.Equal(t, max(maxTurns, 3), turns.Usage().Size)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // nobody waits
		for i := range 10 {
			_ = turns.Take(ctx, new(share.Turn), callers.Get(share.KeyOf(nil, share.AddrOf([]string{"192.0.2.1:1", "192.0.2.2:1"}[i%2]))), 0)
		}
		require.Equal(t, want, turns.Usage().Used, maxTurns)
	}
}

//go:build !race

package session

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// heapInUse returns the bytes of the heap that are in use.
func heapInUse() int {
	runtime.GC()
	runtime.GC() // what a sync.Pool keeps survives the first one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A small answer that waits for its reader does not keep the buffer of a large answer of the same
// tool, which it was encoded into.
func TestSmallAnswersAfterLargeOnesHoldAllocationsOfTheirSize(t *testing.T) {
	for name, size := range map[string]int{"charged": 5000, "not charged": 100} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limits.Limits{}, func(w *world) {
				const n = 50
				next := 0
				w.handle("text", func(context.Context, *Request) (mcp.Result, error) {
					return &textResult{Text: strings.Repeat("x", next)}, nil
				})
				before := heapInUse()
				for range n {
					next = 1 << 20
					require.Len(w.t, w.postFrom(from(greedyAddr), nil, modernFrame("1", "text")).frames(), 1)
					next = size
					w.postUnread(greedyAddr, "text")
				}
				charged, _ := w.core.output.Held()
				held := heapInUse() - before
				require.Less(w.t, held, int(charged)+n*(32<<10), "%d bytes are charged", charged)
			})
		})
	}
}

//go:build !race

package service_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection of HTTP/2 with stalled requests takes no more memory than the limits count for it.
func TestAllocationsOfHTTP2AreWhatCounts(t *testing.T) {
	const conns, streams = 12, 32
	for _, lines := range []int{0, 90} {
		t.Run(fmt.Sprint(lines, " header lines"), func(t *testing.T) {
			srv, _ := newGated(t, false)
			r := start(t, srv, "--h2c")
			held := func(part string) (bytes float64) {
				_, page := r.get(t, "/metrics")
				_, rest, _ := strings.Cut(page, `vitrine_memory_held_bytes{part="`+part+`"} `)
				_, err := fmt.Sscan(rest, &bytes)
				require.NoError(t, err)
				return bytes
			}
			before := memoryInUse()
			for range conns {
				c := r.dialH2(t)
				for range streams {
					c.post(lines)
				}
			}
			require.Eventually(t, func() bool { return held("connections") >= conns*(streams+1)*(24<<10) }, patience, 10*time.Millisecond)
			took, counted := float64(memoryInUse()-before), held("connections")+held("requests")
			t.Logf("a connection takes %.0f bytes and counts as %.0f", took/conns, counted/conns)
			require.LessOrEqual(t, took, counted)
			require.Greater(t, took, counted/8)
		})
	}
}

// memoryInUse returns the bytes of heap and stacks.
func memoryInUse() int {
	for range 4 { // stacks shrink by half each time
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

//go:build !race

package oauth

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// MaxBytes has what addresses take whose failures are remembered.
func TestMemoryOfAddresses(t *testing.T) {
	const addresses = 10_000
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	f := failures{byAddress: map[addressKey]*bucket{}, perMinute: 20, max: addresses}
	for i := range 2 * addresses {
		f.add(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), time.Now())
	}
	took := heap() - before
	t.Logf("an address takes %d bytes", took/addresses)
	require.LessOrEqual(t, took, addresses*addressBytes)
	require.Greater(t, took, addresses*addressBytes/4)
	runtime.KeepAlive(&f)
}

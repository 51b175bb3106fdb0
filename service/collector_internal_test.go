package service

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// gcPercent returns the percentage that is in force.
func gcPercent() uint64 {
	samples := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}

func TestCollectorLeavesHeadroom(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct{ scanned, headroom uint64 }{
		{0, 32 * mib}, {mib, 32 * mib}, {4 * mib, 32 * mib}, {10 * mib, 32 * mib}, {32 * mib, 32 * mib},
		{33 * mib, 33 * mib}, {1024 * mib, 1024 * mib}, // what GOGC=100 does
	} {
		c := &collector{headroom: 32 * mib, read: func() uint64 { return tt.scanned }}
		percent := uint64(c.goal())
		require.LessOrEqual(t, leastHeap*percent/100, uint64(32*mib), "the first run comes in time")
		require.InDelta(t, tt.headroom, max(tt.scanned, leastHeap)*percent/100, mib/2, "%d bytes", tt.scanned)
	}
}

func TestCollectorFollowsTheHeap(t *testing.T) {
	var scanned atomic.Uint64
	scanned.Store(8 << 20)
	paced := make(chan int)
	c := &collector{headroom: 32 << 20, read: scanned.Load, paced: func(percent int) {
		select {
		case paced <- percent:
		case <-t.Context().Done():
		}
	}}
	c.start()
	require.EqualValues(t, 400, gcPercent())
	// after returns the percentage after a run that has left so many bytes. A run that came by itself
	// may have been paced with the figure before: the first report is not looked at.
	after := func(bytes uint64) int {
		scanned.Store(bytes)
		runtime.GC()
		<-paced
		runtime.GC()
		return <-paced
	}
	require.Equal(t, 200, after(16<<20))
	require.EqualValues(t, 200, gcPercent())
	require.Equal(t, 200, after(17<<20), "a small difference is left alone")
	require.Equal(t, 100, after(1<<30))
	require.Equal(t, 800, after(1<<20), "a heap that has become small again")

	go func() { // a run that comes now waits for its reader
		for {
			select {
			case <-paced:
			case <-t.Context().Done():
				return
			}
		}
	}()
	c.stop()
}

func TestStoppedCollectorPacesNothing(t *testing.T) {
	before := gcPercent()
	c := &collector{headroom: 32 << 20, read: func() uint64 { return 0 }}
	c.start()
	require.EqualValues(t, 800, gcPercent())
	c.stop()
	require.EqualValues(t, before, gcPercent(), "as it was")
	c.pace()
	require.EqualValues(t, before, gcPercent())
}

func TestCollectorIsTheOperators(t *testing.T) {
	before := gcPercent()
	startCollector("100", 0)()
	require.EqualValues(t, before, gcPercent())

	stop := startCollector("", 0)
	require.Greater(t, gcPercent(), uint64(100))
	large := gcPercent()
	stop()
	stop = startCollector("", 160<<20)
	require.Less(t, gcPercent(), large, "little memory leaves little headroom")
	stop()
	require.EqualValues(t, before, gcPercent())
	require.Equal(t, int(before), debug.SetGCPercent(int(before)))
}

func TestScannedBytesAreRead(t *testing.T) {
	runtime.GC()
	require.Greater(t, scannedBytes(), uint64(100<<10))
}

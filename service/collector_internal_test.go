package service

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

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
		c := &collector{headroom: 32 * mib}
		percent := uint64(c.goal(tt.scanned))
		require.LessOrEqual(t, leastHeap*percent/100, uint64(32*mib), "the first run comes in time")
		require.InDelta(t, tt.headroom, max(tt.scanned, leastHeap)*percent/100, mib/2, "%d bytes", tt.scanned)
	}
	require.Equal(t, goPercent, (&collector{}).goal(0), "an idle process")
}

func TestHeadroomFollowsTheRate(t *testing.T) {
	const mib = 1 << 20
	clock := time.Unix(0, 0)
	c := &collector{mostHeadroom: 32 * mib, now: func() time.Time { return clock }, since: clock}
	allocated := uint64(0)
	for i, step := range []struct {
		took           time.Duration
		more, headroom uint64
	}{
		{99 * time.Millisecond, 30 * mib, 0}, // too short
		{901 * time.Millisecond, 0, 30 * mib},
		{time.Second, 100 * mib, 32 * mib},
		{time.Second, mib, 32 * mib}, // a pause
		{9 * time.Second, 45 * mib, 32 * mib},
		{time.Second, 5 * mib, 5 * mib}, // it is less busy, although runs are frequent
		{time.Second, 6 * mib, 6 * mib},
		{2 * time.Minute, 120 * 1024, 1024}, // it is idle
		{100 * time.Millisecond, mib, 10 * mib},
	} {
		clock, allocated = clock.Add(step.took), allocated+step.more
		c.follow(allocated)
		require.Equal(t, step.headroom, c.headroom, "step %d", i)
	}
}

// A paced is a collector that reports the percentage after each run. A second passes between two runs, in which the process
// allocates rate bytes.
type paced struct {
	*collector
	scanned, rate   atomic.Uint64
	seconds, allocs atomic.Uint64
	reports         chan int
}

func newPaced(t *testing.T) *paced {
	t.Helper()
	p := &paced{reports: make(chan int)}
	p.collector = &collector{
		mostHeadroom: 32 << 20,
		now:          func() time.Time { return time.Unix(int64(p.seconds.Load()), 0) },
		read: func() heap {
			p.seconds.Add(1)
			return heap{p.scanned.Load(), p.allocs.Add(p.rate.Load())}
		},
		paced: func(percent int) {
			select {
			case p.reports <- percent:
			case <-t.Context().Done():
			}
		},
	}
	return p
}

// after returns the percentage after a run that has left so many bytes. A run that came by itself
// may have been paced with the figure before: the first report is not looked at.
func (p *paced) after(bytes uint64) int {
	p.scanned.Store(bytes)
	runtime.GC()
	<-p.reports
	runtime.GC()
	return <-p.reports
}

func TestCollectorFollowsTheHeap(t *testing.T) {
	c := newPaced(t)
	c.start()
	require.EqualValues(t, 100, gcPercent())
	c.rate.Store(1 << 30)
	require.Equal(t, 400, c.after(8<<20))
	require.Equal(t, 200, c.after(16<<20))
	require.EqualValues(t, 200, gcPercent())
	require.Equal(t, 200, c.after(17<<20), "a small difference is left alone")
	require.Equal(t, 100, c.after(1<<30))
	require.Equal(t, 800, c.after(1<<20), "a heap that has become small again")
	c.rate.Store(1)
	c.seconds.Add(11)
	require.Equal(t, 100, c.after(1<<20), "an idle process")

	go func() { // a run that comes now waits for its reader
		for {
			select {
			case <-c.reports:
			case <-t.Context().Done():
				return
			}
		}
	}()
	c.stop()
}

func TestStoppedCollectorPacesNothing(t *testing.T) {
	before := gcPercent()
	c := &collector{mostHeadroom: 32 << 20, headroom: 32 << 20, now: time.Now, read: func() heap { return heap{} }}
	c.start()
	c.pace()
	require.EqualValues(t, 800, gcPercent())
	c.stop()
	require.EqualValues(t, before, gcPercent(), "as it was")
	c.pace()
	require.EqualValues(t, before, gcPercent())
}

func TestCollectorIsTheOperators(t *testing.T) {
	before := debug.SetGCPercent(300)
	startCollector("", 0)()
	require.EqualValues(t, 300, gcPercent(), "the program has decided")
	debug.SetGCPercent(before)

	startCollector("100", 0)()
	startCollector("", 0)()
	startCollector("", 160<<20)()
	require.EqualValues(t, before, gcPercent())
}

func TestLittleMemoryLeavesLittleHeadroom(t *testing.T) {
	require.EqualValues(t, 32<<20, newCollector(0).mostHeadroom)
	require.EqualValues(t, 32<<20, newCollector(1<<30).mostHeadroom)
	require.EqualValues(t, 20<<20, newCollector(160<<20).mostHeadroom)
}

func TestHeapIsRead(t *testing.T) {
	runtime.GC()
	before := readHeap()
	require.Greater(t, before.scanned, uint64(100<<10))
	kept := make([]byte, 1<<20)
	require.GreaterOrEqual(t, readHeap().allocated, before.allocated+uint64(len(kept)))
	runtime.KeepAlive(kept)
}

package telemetry

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A latencySketch counts durations in buckets. The bounds grow by a quarter of an octave, so
// that the error of a quantile is an eighth at most. Counting is one atomic addition. The console
// reads sketches and not histograms of the registry: other values of [Telemetry] may share
// those, and reading them costs more.
type latencySketch struct {
	counts [latencyCells]atomic.Uint32 // a difference survives an overflow
	errors atomic.Uint64
	calls  atomic.Uint64
}

// The buckets go from about a microsecond to 18 minutes. A duration outside of them counts in the
// nearest bucket.
const (
	latencyLow   = 10 // a power of 2, in nanoseconds
	latencyHigh  = 40
	latencyCells = (latencyHigh - latencyLow) * 4
)

// observe counts one operation.
func (s *latencySketch) observe(d time.Duration, failed bool) {
	s.counts[latencyCell(d)].Add(1)
	s.calls.Add(1)
	if failed {
		s.errors.Add(1)
	}
}

func latencyCell(d time.Duration) int {
	ns := uint64(max(d, 0))
	octave := bits.Len64(ns) - 1
	if octave < latencyLow {
		return 0
	}
	if octave >= latencyHigh {
		return latencyCells - 1
	}
	return (octave-latencyLow)*4 + int(ns>>(octave-2)&3)
}

// latencyOf returns the middle of a bucket in seconds.
func latencyOf(cell int) float64 {
	unit := uint64(1) << (latencyLow + cell/4 - 2) // a quarter of the octave
	return (float64(unit)*float64(4+cell%4) + float64(unit)/2) / 1e9
}

// A latencyCounts is a reading of a sketch, or the difference of two.
type latencyCounts [latencyCells]uint32

func (s *latencySketch) read() (c latencyCounts) {
	for i := range c {
		c[i] = s.counts[i].Load()
	}
	return c
}

// since returns the counts since an earlier reading.
func (c *latencyCounts) since(earlier *latencyCounts) (d latencyCounts) {
	for i := range d {
		d[i] = c[i] - earlier[i]
	}
	return d
}

func (c *latencyCounts) total() (n uint64) {
	for _, k := range c {
		n += uint64(k)
	}
	return n
}

// quantile returns a quantile of the durations in seconds, and 0 if there are none.
func (c *latencyCounts) quantile(q float64) float64 {
	n := c.total()
	if n == 0 {
		return 0
	}
	rank := uint64(q * float64(n))
	for i, k := range c {
		if uint64(k) > rank {
			return latencyOf(i)
		}
		rank -= uint64(k)
	}
	return latencyOf(latencyCells - 1)
}

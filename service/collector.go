package service

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// The garbage collector of Go runs when the heap has doubled, so that a server that holds 4 MB
// collects after every 4 MB of garbage: hundreds of times a second under load. A collector lets a
// small heap grow by collectorHeadroom before the next run, and leaves a larger heap as it is. The
// plain version is GOGC=100, with which a call takes 1.1 to 1.25 times the CPU time ("Where it goes"
// in docs/performance.md).
type collector struct {
	headroom uint64                // in bytes
	paced    func(percent int)     // for tests; may be nil
	read     func() (bytes uint64) // what a run looks through: live heap, stacks, globals

	mu      sync.Mutex
	percent int // in force
	before  int // what Stop restores
	stopped bool
}

const (
	// collectorHeadroom is the garbage that a heap may gather, however small it is, in bytes.
	collectorHeadroom = 32 << 20
	// With GOGC=100 no run begins below this size of the heap. The runtime multiplies it by
	// GOGC/100.
	leastHeap = 4 << 20
	// goPercent is the percentage of a program that sets none.
	goPercent = 100
)

// startCollector paces the garbage collector of the process until stop is called, unless GOGC is set.
func startCollector(gogc string, most int) (stop func()) {
	if gogc != "" {
		return func() {}
	}
	headroom := uint64(collectorHeadroom)
	if most != 0 {
		headroom = min(headroom, uint64(most)/8) // half of what the limits leave to garbage
	}
	c := &collector{headroom: headroom, read: scannedBytes}
	c.start()
	return c.stop
}

func (c *collector) start() {
	c.percent = c.goal()
	c.before = debug.SetGCPercent(c.percent)
	if c.before != goPercent { // the program has decided
		c.stop()
		return
	}
	c.await()
}

// stop restores the percentage that was in force before.
func (c *collector) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	debug.SetGCPercent(c.before)
}

// await has pace called after the next run of the collector, which frees the object that it makes.
func (c *collector) await() {
	runtime.AddCleanup(&struct{ _ *byte }{}, (*collector).pace, c)
}

// pace adjusts the percentage to what the last run has left. To set it stops the program for a
// moment, so that small differences are left alone.
func (c *collector) pace() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	if goal := c.goal(); goal*10 > c.percent*11 || goal*11 < c.percent*10 {
		c.percent = goal
		debug.SetGCPercent(goal)
	}
	c.await()
	if c.paced != nil {
		c.paced(c.percent)
	}
}

// goal returns the percentage with which the heap grows by the headroom, or doubles if that is more.
func (c *collector) goal() int {
	return int(max(goPercent, c.headroom*100/max(c.read(), leastHeap)))
}

// scannedBytes returns what the percentage refers to.
func scannedBytes() (sum uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 { // a runtime of the future may not have it
			sum += s.Value.Uint64()
		}
	}
	return sum
}

package service

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// The garbage collector of Go runs when the heap has doubled, so that a server that holds 4 MB
// collects after every 4 MB of garbage: hundreds of times a second under load. A collector lets the small
// heap of a busy process grow by what it allocates in a second, or by collectorHeadroom if that is less, before
// the next run. A larger heap, and that of an idle process, grow as Go lets them. The plain version is GOGC=100, with which a
// call takes 1.1 to 1.25 times the CPU time ("Where it goes" in docs/performance.md).
type collector struct {
	mostHeadroom uint64            // in bytes
	paced        func(percent int) // for tests; may be nil
	read         func() heap       // reads what the collector of Go has left
	now          func() time.Time

	mu       sync.Mutex
	headroom uint64    // in bytes
	busy     time.Time // when the process last allocated the headroom within a second
	since    time.Time // when the present measurement began
	before   uint64    // bytes that had been allocated then
	percent  int       // in force
	restored int       // what stop restores
	stopped  bool
}

// A heap is what a run of the collector of Go has left, in bytes.
type heap struct {
	scanned   uint64 // what a run looks through: live heap, stacks, globals
	allocated uint64 // since the process started
}

const (
	// collectorHeadroom is the garbage that the heap of a busy process may gather, however small it is, in bytes.
	collectorHeadroom = 32 << 20
	// leastMeasured is the least time that shows how much a process allocates.
	leastMeasured = 100 * time.Millisecond
	// idleAfter is the time after which the headroom shrinks, so that a short pause changes nothing.
	idleAfter = 10 * time.Second
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
	c := newCollector(most)
	c.start()
	return c.stop
}

// newCollector returns a collector for a process that may take most bytes; 0 for no bound.
func newCollector(most int) *collector {
	c := &collector{mostHeadroom: collectorHeadroom, read: readHeap, now: time.Now}
	if most != 0 {
		c.mostHeadroom = min(c.mostHeadroom, uint64(most)/8) // half of what the limits leave to garbage
	}
	return c
}

func (c *collector) start() {
	c.percent = goPercent
	c.restored = debug.SetGCPercent(c.percent)
	if c.restored != goPercent { // the program has decided
		c.stop()
		return
	}
	c.since, c.before = c.now(), c.read().allocated
	c.await()
}

// stop restores the percentage that was in force before.
func (c *collector) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	debug.SetGCPercent(c.restored)
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
	now := c.read()
	c.follow(now.allocated)
	if goal := c.goal(now.scanned); goal*10 > c.percent*11 || goal*11 < c.percent*10 {
		c.percent = goal
		debug.SetGCPercent(goal)
	}
	c.await()
	if c.paced != nil {
		c.paced(c.percent)
	}
}

// follow sets the headroom to what the process has allocated in a second. It shrinks late (see idleAfter). Go runs its collector every
// two minutes at least, so that an idle process is noticed.
func (c *collector) follow(allocated uint64) {
	now := c.now()
	took := now.Sub(c.since)
	if took < leastMeasured {
		return
	}
	headroom := min(uint64(float64(allocated-c.before)/took.Seconds()), c.mostHeadroom)
	if headroom >= c.headroom || now.Sub(c.busy) > idleAfter {
		c.headroom, c.busy = headroom, now
	}
	c.since, c.before = now, allocated
}

// goal returns the percentage with which the heap grows by the headroom, or doubles if that is more.
func (c *collector) goal(scanned uint64) int {
	return int(max(goPercent, c.headroom*100/max(scanned, leastHeap)))
}

func readHeap() (h heap) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(samples)
	for i, s := range samples {
		switch {
		case s.Value.Kind() != metrics.KindUint64: // a runtime of the future may not have it
		case i == 0:
			h.allocated = s.Value.Uint64()
		default: // what the percentage refers to
			h.scanned += s.Value.Uint64()
		}
	}
	return h
}

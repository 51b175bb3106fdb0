package telemetry

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A ring keeps the latest requests of one class.
type ring struct {
	size    int
	evicted prometheus.Counter

	mu      sync.Mutex // guards the rest
	entries []*keptTrace
	next    int   // the oldest one, once the ring is full
	second  int64 // of the clock
	taken   int   // in that second
}

func newRing(size int, evicted prometheus.Counter) *ring {
	return &ring{size: size, evicted: evicted}
}

// admit says whether a request is to be kept that ends in the given second of the
// clock. A ring takes no more in a second than it holds: what came later would evict
// what the same flood has brought, and a flood is no time to copy each request.
func (g *ring) admit(second int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.second != second {
		g.second, g.taken = second, 0
	}
	if g.taken++; g.taken > g.size {
		g.evicted.Inc()
		return false
	}
	return true
}

// put keeps k and returns what it has displaced, or nil.
func (g *ring) put(k *keptTrace) (displaced *keptTrace) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.entries) < g.size {
		g.entries = append(g.entries, k)
		return nil
	}
	displaced, g.entries[g.next] = g.entries[g.next], k
	g.next = (g.next + 1) % g.size
	g.evicted.Inc()
	return displaced
}

func (g *ring) appendTo(list []*keptTrace) []*keptTrace {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append(list, g.entries...)
}

const (
	slowPerSeries = 4
	slowShare     = 4         // the limit of all series together, in rings
	slowLife      = time.Hour // of one that is not displaced: yesterday's slowest would hide today's
)

// slowest keeps the slowest requests of each series. Whether a request is one of them
// says the floor of its [recentSeries].
type slowest struct {
	size    int // of all series together
	evicted prometheus.Counter

	mu    sync.Mutex // guards the rest
	kept  map[*recentSeries][]*keptTrace
	total int
}

func newSlowest(size int, evicted prometheus.Counter) *slowest {
	return &slowest{size: size, evicted: evicted, kept: map[*recentSeries][]*keptTrace{}}
}

// put keeps k and returns what it has displaced: the fastest one of its series, the
// oldest one of all if there are too many, k itself if the floor has risen meanwhile,
// or nil.
func (s *slowest) put(of *recentSeries, k *keptTrace) (displaced *keptTrace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.kept[of]
	if len(list) == slowPerSeries {
		i := fastest(list)
		if list[i].took >= k.took {
			s.evicted.Inc()
			return k
		}
		displaced, list[i] = list[i], k
		of.floor.Store(int64(list[fastest(list)].took))
		s.evicted.Inc()
		return displaced
	}
	list = append(list, k)
	s.kept[of] = list
	s.total++
	if len(list) == slowPerSeries {
		of.floor.Store(int64(list[fastest(list)].took))
	}
	if s.total > s.size {
		displaced = s.dropOldest()
	}
	return displaced
}

// dropOldest makes room. The floor of the series does not fall, or its next request
// would take the place of another one, and so on without end.
func (s *slowest) dropOldest() *keptTrace {
	var series *recentSeries
	at, seq := 0, uint64(math.MaxUint64)
	for of, list := range s.kept {
		for i, k := range list {
			if k.seq < seq {
				series, at, seq = of, i, k.seq
			}
		}
	}
	k := s.remove(series, at)
	series.floor.Store(max(series.floor.Load(), int64(k.took)))
	s.evicted.Inc()
	return k
}

func (s *slowest) remove(of *recentSeries, i int) *keptTrace {
	list := s.kept[of]
	k := list[i]
	if s.kept[of] = append(list[:i:i], list[i+1:]...); len(list) == 1 {
		delete(s.kept, of)
	}
	s.total--
	return k
}

// expire lets go of what has been among the slowest of a series for too long, and lets the
// floor fall. If none is left, the next ones have none to be compared with.
func (s *slowest) expire(of *recentSeries, now time.Time) (expired []*keptTrace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept[of]) == 0 && now.Sub(of.fell) > slowLife {
		of.floor.Store(noFloor)
		of.fell = now
	}
	for i := len(s.kept[of]) - 1; i >= 0; i-- {
		if now.Sub(s.kept[of][i].ended) > slowLife {
			expired = append(expired, s.remove(of, i))
			of.floor.Store(noFloor)
			of.fell = now
			s.evicted.Inc()
		}
	}
	if len(expired) > 0 && len(s.kept[of]) == 0 {
		of.seen.Store(0)
	}
	return expired
}

func fastest(list []*keptTrace) (at int) {
	for i, k := range list {
		if k.took < list[at].took {
			at = i
		}
	}
	return at
}

func (s *slowest) appendTo(list []*keptTrace) []*keptTrace {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, kept := range s.kept {
		if of.seen.Load() >= enoughToCompare {
			list = append(list, kept...)
			continue
		}
		for _, k := range kept {
			early := *k
			early.row.Class = classRecent
			list = append(list, &early)
		}
	}
	return list
}

// A recentSeries decides about the ordinary requests of one method and target.
type recentSeries struct {
	second atomic.Int64 // in which the latest one arrived that was kept
	floor  atomic.Int64 // ns; what took longer is among the slowest
	seen   atomic.Int32 // ordinary requests so far, up to enoughToCompare
	fell   time.Time    // when the floor fell to the ground. Guarded by slowest.mu
}

// enoughToCompare is how many ordinary requests of a series there must have been before the
// slowest of them are called slow: the first ones of a fresh server are among the slowest
// because there are no others. Until then they are recent.
const enoughToCompare = 20

// noFloor makes every request one of the slowest.
const noFloor = -1

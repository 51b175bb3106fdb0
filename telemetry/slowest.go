package telemetry

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	slowPerSeries = 4
	slowShare     = 4         // the limit of all series together, as a multiple of a ring
	slowLife      = time.Hour // the oldest requests must not hide those of today
)

// slowest has the slowest requests of each series. A request is one of them if it took longer
// than the floor of its [recentSeries].
type slowest struct {
	size    int // of all series together
	evicted prometheus.Counter

	mu     sync.Mutex // guards the rest
	traces map[*recentSeries][]*record
	total  int
}

func newSlowest(size int, evicted prometheus.Counter) *slowest {
	return &slowest{size: size, evicted: evicted, traces: map[*recentSeries][]*record{}}
}

// put adds k and returns the trace that it replaces: the fastest one of its series, the oldest
// one of all if there are too many, k itself if the floor has risen meanwhile, or nil.
func (s *slowest) put(of *recentSeries, k *record) (displaced *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := append([]*record{k}, s.traces[of]...)
	slices.SortStableFunc(list, func(a, b *record) int { return cmp.Compare(a.took, b.took) })
	if len(list) > slowPerSeries {
		displaced = list[0]
		list = slices.Delete(list, 0, 1)
		s.evicted.Inc()
	} else {
		s.total++
	}
	s.traces[of] = list
	if len(list) == slowPerSeries {
		of.floor.Store(int64(list[0].took))
	}
	if s.total > s.size {
		displaced = s.removeOldest()
	}
	return displaced
}

// removeOldest removes the oldest trace. The floor of its series does not fall. Otherwise the
// next request of that series would replace a trace of another series, and so on.
func (s *slowest) removeOldest() *record {
	var series *recentSeries
	at, seq := 0, uint64(math.MaxUint64)
	for of, list := range s.traces {
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

func (s *slowest) remove(of *recentSeries, i int) *record {
	list := s.traces[of]
	k := list[i]
	if s.traces[of] = append(list[:i:i], list[i+1:]...); len(list) == 1 {
		delete(s.traces, of)
	}
	s.total--
	return k
}

// expire removes the traces of a series that are older than slowLife, and resets its floor. If
// none is left, the next requests have none to compare with.
func (s *slowest) expire(of *recentSeries, now time.Time) (expired []*record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.traces[of]) == 0 && now.Sub(of.fell) > slowLife {
		of.floor.Store(noFloor)
		of.fell = now
	}
	for i := len(s.traces[of]) - 1; i >= 0; i-- {
		if now.Sub(s.traces[of][i].ended) > slowLife {
			expired = append(expired, s.remove(of, i))
			of.floor.Store(noFloor)
			of.fell = now
			s.evicted.Inc()
		}
	}
	if len(expired) > 0 && len(s.traces[of]) == 0 {
		of.seen.Store(0)
	}
	return expired
}

func (s *slowest) appendTo(list []*record) []*record {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, traces := range s.traces {
		if of.seen.Load() >= enoughToCompare {
			list = append(list, traces...)
			continue
		}
		for _, k := range traces {
			early := *k
			early.class = classRecent
			list = append(list, &early)
		}
	}
	return list
}

// A recentSeries decides about the ordinary requests of one method and target.
type recentSeries struct {
	second atomic.Int64 // of the arrival of the latest recent trace
	floor  atomic.Int64 // in ns; slower requests are among the slowest
	seen   atomic.Int32 // ordinary requests so far, up to enoughToCompare
	fell   time.Time    // when the floor was reset. Guarded by slowest.mu
}

// enoughToCompare is the number of ordinary requests of a series from which on the slowest are in
// the class slow. Until then they are in the class recent, because there are too few to compare.
const enoughToCompare = 20

// noFloor is the floor below all requests.
const noFloor = -1

package telemetry

import "github.com/vitrine-mcp/vitrine/mcp"

// A point is one series of one metric: its name and its label values.
type point struct {
	metric string
	labels [3]string
	n      int
}

func at(metric string, labels ...string) point { return point{metric: metric}.with(labels...) }

// with returns the point with more label values.
func (p point) with(labels ...string) point {
	p.n += copy(p.labels[p.n:], labels)
	return p
}

// sums adds up the values of points.
type sums map[point]float64

// A reading takes the values of one metric from a snapshot.
type reading struct {
	sums sums
	at   point
}

// with returns a reading of the series with these values of the first labels.
func (r reading) with(labels ...string) reading { return reading{r.sums, r.at.with(labels...)} }

func (r reading) add(n uint64) { r.sums[r.at] += float64(n) }

func (r reading) max(v float64) { r.sums[r.at] = max(r.sums[r.at], v) }

// each adds counts by the value of the next label.
func each[K ~string, N int | uint64](r reading, counts map[K]N) {
	for value, n := range counts {
		r.with(string(value)).add(uint64(n))
	}
}

// eachPair adds counts by the values of the next two labels.
func eachPair[K, L ~string](r reading, counts map[K]map[L]uint64) {
	for value, more := range counts {
		each(r.with(string(value)), more)
	}
}

// The series of a method exist from its registration, with an empty target and all values of the
// other labels.

func readPanics(c *SeriesCounters, r reading) {
	if c.Panics > 0 || c.Target == "" {
		r.with(c.Method, c.Target).add(c.Panics)
	}
}

func readDropped(c *SeriesCounters, r reading) {
	for _, reason := range mcp.ResponseDropReasons() {
		r.with(c.Method, "", string(reason)).add(0)
	}
	each(r.with(c.Method, c.Target), c.Dropped)
}

func readCancelled(c *SeriesCounters, r reading) {
	for _, cause := range mcp.Causes() {
		r.with(c.Method, "", string(cause)).add(0)
	}
	// Requests that a shutdown cancels are counted right before the process ends. A rate needs an
	// earlier value, so the series exists from the first request on.
	if c.Admitted > 0 {
		r.with(c.Method, c.Target, string(mcp.CauseServerShutdown)).add(0)
	}
	each(r.with(c.Method, c.Target), c.Cancelled)
}

func readInFlight(s *Snapshot, r reading) {
	for _, list := range [][]RequestState{s.Requests, s.Subscriptions} {
		for i := range list {
			r.with(list[i].State).add(1)
		}
	}
}

func readAbandoned(s *Snapshot, r reading) {
	for _, list := range [][]RequestState{s.Requests, s.Subscriptions} {
		for i := range list {
			if list[i].Abandoned {
				r.add(1)
			}
		}
	}
	for i := range s.Tasks {
		if s.Tasks[i].Abandoned {
			r.add(1)
		}
	}
}

func readSessions(s *Snapshot, r reading) {
	for i := range s.Sessions {
		r.with(transportLabel(s.Sessions[i].Transport)).add(1)
	}
}

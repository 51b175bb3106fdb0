package session

import "github.com/vitrine-mcp/vitrine/mcp"

// Counters are the totals since the core was made.
type Counters struct {
	Tally
	Series        []SeriesCounters
	Received      map[string]uint64 // by kind
	Refused       []RefusedCounter
	Decisions     []DecisionCounter
	EventFailures map[string]uint64 // of the event store, by operation
}

// SeriesCounters are the totals of one method or tool.
type SeriesCounters struct {
	Series                         *Series
	Admitted, Sent, Stored, Panics uint64
	Dropped                        map[mcp.DropReason]uint64 // without zeros
	Cancelled                      map[CancelledIn]uint64    // without zeros
	Abandoned                      map[mcp.Cause]uint64      // without zeros
	// TasksCancelled are of what goes on after its request was answered. They have no part
	// in the conservation law.
	TasksCancelled map[mcp.Cause]uint64 // without zeros
}

// Totals adds up the counters of the conservation law.
func (c *Counters) Totals() (admitted, sent, stored, dropped uint64) {
	for i := range c.Series {
		s := &c.Series[i]
		admitted += s.Admitted
		sent += s.Sent
		stored += s.Stored
		for _, n := range s.Dropped {
			dropped += n
		}
	}
	return admitted, sent, stored, dropped
}

func (c *seriesCounts) add(o *seriesCounts) {
	c.admitted += o.admitted
	c.sent += o.sent
	c.stored += o.stored
	c.panics += o.panics
	for i := range o.dropped {
		c.dropped[i] += o.dropped[i]
	}
	for i := range o.abandoned {
		c.abandoned[i] += o.abandoned[i]
		for life := range o.cancelled {
			for phase := range o.cancelled[life][i] {
				c.cancelled[life][i][phase] += o.cancelled[life][i][phase]
			}
		}
	}
}

func (c *seriesCounts) public(s *Series) SeriesCounters {
	return SeriesCounters{
		Series: s, Admitted: c.admitted, Sent: c.sent, Stored: c.stored, Panics: c.panics,
		Dropped: named(dropReasons, c.dropped[:]), Abandoned: named(causes, c.abandoned[:]),
		Cancelled: cancelledIn(&c.cancelled[requestLife]), TasksCancelled: CancelledBy(cancelledIn(&c.cancelled[taskLife])),
	}
}

// cancelledIn returns the counts that are not zero.
func cancelledIn(counts *[numCauses][numCancelPhases]uint64) map[CancelledIn]uint64 {
	m := map[CancelledIn]uint64{}
	for i := range counts {
		for phase, n := range counts[i] {
			if n > 0 {
				m[CancelledIn{causes[i], cancelPhases[phase]}] = n
			}
		}
	}
	return m
}

// CancelledBy adds up cancellations by their cause.
func CancelledBy(counts map[CancelledIn]uint64) map[mcp.Cause]uint64 {
	m := map[mcp.Cause]uint64{}
	for in, n := range counts {
		m[in.Cause] += n
	}
	return m
}

// named returns the counts that are not zero, by the value at their position.
func named[K comparable](values []K, counts []uint64) map[K]uint64 {
	m := map[K]uint64{}
	for i, n := range counts {
		if n > 0 {
			m[values[i]] = n
		}
	}
	return m
}

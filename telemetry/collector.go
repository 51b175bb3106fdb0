package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A snapshotCollector exposes the counters and gauges of the sources. It reads one snapshot of
// each source for a scrape, so that the numbers of a scrape agree with each other: admitted -
// sent - stored - dropped is the number of requests whose fate is not known yet.
type snapshotCollector struct {
	rows      []*row
	families  map[string]family // by name
	exemplars exemplars

	mu      sync.Mutex // guards the rest
	sources sources
	// base has the counts that come from no source, the last counters of removed sources (a
	// counter must not go down), and zeros for the series that exist from the start.
	base totals
}

// A family describes a metric to client_golang.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newSnapshotCollector(rows []*row) *snapshotCollector {
	c := &snapshotCollector{rows: rows, families: map[string]family{}, base: newTotals(), exemplars: exemplars{last: map[point]prometheus.Exemplar{}}}
	for _, m := range rows {
		f := family{prometheus.NewDesc(m.Name, m.Help, m.labelNames(), nil), prometheus.GaugeValue}
		if m.Kind == Counter {
			f.kind = prometheus.CounterValue
		}
		c.families[m.Name] = f
		for _, labels := range m.first() {
			if m.Kind == Histogram {
				c.base.latencies[at(m.Name, labels...)] = auth.Latency{}
			} else {
				c.base.sums[at(m.Name, labels...)] = 0
			}
		}
	}
	return c
}

// read adds the values of one source, for the wanted kinds of metrics.
func (c *snapshotCollector) read(to totals, snap *Snapshot, wanted func(Kind) bool) {
	for _, m := range c.rows {
		if wanted(m.Kind) {
			m.read(snap, reading{to, at(m.Name)})
		}
	}
}

// addSource adds a source. remove adds the source's last counters to base.
func (c *snapshotCollector) addSource(src Source) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	removeSource := c.sources.add(src)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		removeSource()
		c.read(c.base, src.Snapshot(), func(k Kind) bool { return k != Gauge })
	}
}

// count adds one to a counter. The count comes from no source.
func (c *snapshotCollector) count(metric string, labels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base.sums[at(metric, labels...)]++
}

// sums returns the values of a metric in snapshots and in the base, by their first label.
func (c *snapshotCollector) sums(metric string, snaps []*Snapshot) map[string]uint64 {
	total := newTotals()
	for _, m := range c.rows {
		for i := range snaps {
			if m.Name == metric {
				m.read(snaps[i], reading{total, at(metric)})
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	sums := map[string]uint64{}
	for _, part := range []map[point]float64{total.sums, c.base.sums} {
		for p, n := range part {
			if p.metric == metric {
				sums[p.labels[0]] += uint64(n)
			}
		}
	}
	return sums
}

// Describe implements [prometheus.Collector].
func (c *snapshotCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.families {
		ch <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *snapshotCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	total := c.base.clone()
	list := c.sources.list()
	c.mu.Unlock()
	for _, src := range list {
		c.read(total, src.Snapshot(), func(Kind) bool { return true })
	}
	for p, value := range total.sums {
		f := c.families[p.metric]
		m := prometheus.MustNewConstMetric(f.desc, f.kind, value, p.labels[:p.n]...)
		if e, ok := c.exemplars.of(p); ok {
			m = attach(m, e)
		}
		ch <- m
	}
	for p, l := range total.latencies {
		ch <- latencyMetric(c.families[p.metric].desc, l, p.labels[:p.n])
	}
}

// latencyMetric makes a histogram of a latency.
func latencyMetric(desc *prometheus.Desc, l auth.Latency, labels []string) prometheus.Metric {
	buckets := map[float64]uint64{}
	var count uint64
	for i, n := range l.Counts {
		if count += n; i < len(auth.LatencyBounds) {
			buckets[auth.LatencyBounds[i].Seconds()] = count
		}
	}
	return prometheus.MustNewConstHistogram(desc, count, l.Sum.Seconds(), buckets, labels...)
}

package telemetry

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// A snapshotCollector exposes what the sources count and do. It reads one snapshot of each for
// a scrape, so that the numbers of a scrape agree with each other: admitted - sent - stored -
// dropped is the number of requests whose fate is not known yet.
type snapshotCollector struct {
	rows      []row
	families  map[string]family // by name
	exemplars exemplars

	mu      sync.Mutex // guards the rest
	sources sources
	// base has what no source counts, and the counters of the sources that were removed: a
	// counter must not go down. The series that exist from the start are in it.
	base sums
}

// A family is what client_golang has to know of a metric.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newSnapshotCollector(rows []row) *snapshotCollector {
	c := &snapshotCollector{rows: rows, families: map[string]family{}, base: sums{}, exemplars: exemplars{last: map[point]prometheus.Exemplar{}}}
	for _, m := range rows {
		f := family{prometheus.NewDesc(m.Name, m.Help, m.labelNames(), nil), prometheus.GaugeValue}
		if m.Kind == Counter {
			f.kind = prometheus.CounterValue
		}
		c.families[m.Name] = f
		for _, labels := range m.first() {
			c.base[at(m.Name, labels...)] = 0
		}
	}
	return c
}

// read adds what one source has.
func (c *snapshotCollector) read(to sums, snap *Snapshot, wanted func(Kind) bool) {
	for _, m := range c.rows {
		if wanted(m.Kind) {
			m.read(snap, reading{to, at(m.Name)})
		}
	}
}

// addSource adds a source; remove keeps its last counters.
func (c *snapshotCollector) addSource(src Source) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	forget := c.sources.add(src)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		forget()
		c.read(c.base, src.Snapshot(), func(k Kind) bool { return k == Counter })
	}
}

// count counts something that no source does.
func (c *snapshotCollector) count(metric string, labels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base[at(metric, labels...)]++
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
	total := maps.Clone(c.base)
	list := c.sources.list()
	c.mu.Unlock()
	for _, src := range list {
		c.read(total, src.Snapshot(), func(Kind) bool { return true })
	}
	for p, value := range total {
		f := c.families[p.metric]
		m := prometheus.MustNewConstMetric(f.desc, f.kind, value, p.labels[:p.n]...)
		if e, ok := c.exemplars.of(p); ok {
			m = attach(m, e)
		}
		ch <- m
	}
}

package telemetry

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A counterCollector exposes what the cores of the servers count. It reads one
// snapshot of each for a scrape, so that the numbers of a scrape agree with each
// other: admitted - sent - stored - dropped is the number of requests whose fate
// is not known yet.
type counterCollector struct {
	descs     map[string]*prometheus.Desc
	kinds     map[string]prometheus.ValueType
	exemplars exemplars

	mu      sync.Mutex // guards the rest
	sources sources
	// retired holds the counters of the sources that were removed: a counter must
	// not go down. What every scrape has is there from the start, as zero.
	retired sums
}

// A point is one series of one metric: its name and its label values.
type point struct {
	metric string
	labels [3]string
	n      int
}

// sums adds up the values of points.
type sums map[point]float64

func at(metric string, labels ...string) point {
	p := point{metric: metric, n: len(labels)}
	copy(p.labels[:], labels)
	return p
}

func (s sums) add(n uint64, metric string, labels ...string) { s[at(metric, labels...)] += float64(n) }

func newCounterCollector(metrics []Metric) *counterCollector {
	c := &counterCollector{
		descs: map[string]*prometheus.Desc{}, kinds: map[string]prometheus.ValueType{}, retired: sums{},
	}
	for _, m := range metrics {
		c.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, labelNames(m.Labels), nil)
		c.kinds[m.Name] = prometheus.GaugeValue
		if m.Kind == Counter {
			c.kinds[m.Name] = prometheus.CounterValue
		}
		for _, p := range zeros(m) {
			c.retired[p] = 0
		}
	}
	return c
}

// zeros returns the points that a metric has from the start: one for each
// combination of closed label values, with an empty target, and with the methods
// that every server has.
func zeros(m Metric) []point {
	points := []point{at(m.Name)}
	for _, l := range m.Labels {
		values := l.Values
		switch {
		case l.Name == "method" && m.Name == MetricNotificationsDropped:
			values = []string{mcp.NotificationProgress}
		case l.Name == "method":
			values = []string{mcp.MethodToolsCall}
		case l.Name == "tool", m.Name == MetricRefusals:
			values = []string{""}
		case l.Name == "reason" && m.Name == MetricFramesIgnored:
			points = ignoredZeros()
			continue
		}
		var next []point
		for _, p := range points {
			for _, v := range values {
				q := p
				q.labels[q.n] = v
				q.n++
				next = append(next, q)
			}
		}
		points = next
	}
	return points
}

// ignoredZeros pairs each kind with its own reasons only.
func ignoredZeros() (points []point) {
	for _, kind := range ignoredKinds() {
		for _, reason := range mcp.IgnoreReasons(kind) {
			points = append(points, at(MetricFramesIgnored, string(kind), string(reason)))
		}
	}
	return points
}

// addSource adds a source; remove keeps its last counters.
func (c *counterCollector) addSource(src Source) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.sources.add(src)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sources.remove(id)
		c.retired.addCounters(&src.Snapshot().Counters)
	}
}

// count counts something that no source does.
func (c *counterCollector) count(metric string, labels ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired.add(1, metric, labels...)
}

// Describe implements [prometheus.Collector].
func (c *counterCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *counterCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	total := maps.Clone(c.retired)
	list := c.sources.list()
	c.mu.Unlock()
	for _, src := range list {
		snap := src.Snapshot()
		total.addCounters(&snap.Counters)
		total.addGauges(snap)
	}
	for p, value := range total {
		m := prometheus.MustNewConstMetric(c.descs[p.metric], c.kinds[p.metric], value, p.labels[:p.n]...)
		if e, ok := c.exemplars.of(p); ok {
			m = e.attach(m)
		}
		ch <- m
	}
}

// addCounters adds the counters of one source.
func (s sums) addCounters(c *Counters) {
	for i := range c.Series {
		s.addSeries(&c.Series[i])
	}
	for reason, n := range c.Rejected {
		s.add(n, MetricRequestsRejected, string(reason))
	}
	for kind, n := range c.Received {
		s.add(n, MetricMessagesReceived, kind)
	}
	for method, reasons := range c.NotificationsDropped {
		for reason, n := range reasons {
			s.add(n, MetricNotificationsDropped, method, string(reason))
		}
	}
	for kind, reasons := range c.Ignored {
		for reason, n := range reasons {
			s.add(n, MetricFramesIgnored, string(kind), string(reason))
		}
	}
	for limit, n := range c.LimitsReached {
		s.add(n, MetricLimitReached, limit)
	}
	for reason, refusers := range c.Refused {
		for by, n := range refusers {
			s.add(n, MetricRefusals, reason, by)
		}
	}
	for reason, n := range c.HTTPRefused {
		s.add(n, MetricHTTPRefused, string(reason))
	}
	for cause, n := range c.SessionsClosed {
		s.add(n, MetricSessionsClosed, string(cause))
	}
	for op, n := range c.EventFailures {
		s.add(n, MetricEventStoreFailures, op)
	}
	s.add(c.StreamsResumed, MetricStreamsResumed)
	s.add(c.ResponsesExpired, MetricResponsesExpired)
	s.add(c.ObserverPanics, MetricPanics)
}

// addSeries adds the counters of one series. A method's closed label values are
// there from its registration, with an empty target.
func (s sums) addSeries(c *SeriesCounters) {
	method, target := c.Method, c.Target
	s.add(c.Admitted, MetricRequestsAdmitted, method)
	s.add(c.Sent, MetricResponsesSent, method)
	s.add(c.Stored, MetricResponsesStored, method)
	if c.Panics > 0 || target == "" {
		s.add(c.Panics, MetricHandlerPanics, method, target)
	}
	for _, reason := range mcp.ResponseDropReasons() {
		s.add(0, MetricResponsesDropped, method, "", string(reason))
	}
	for _, cause := range mcp.Causes() {
		s.add(0, MetricRequestsCancelled, method, "", string(cause))
	}
	// What a shutdown cuts is counted right before the process ends. A counter that is only
	// seen at its end has no increase: this one is there as soon as it has something to cut.
	if c.Admitted > 0 {
		s.add(0, MetricRequestsCancelled, method, target, string(mcp.CauseServerShutdown))
	}
	for reason, n := range c.Dropped {
		s.add(n, MetricResponsesDropped, method, target, string(reason))
	}
	for cause, n := range c.Cancelled {
		s.add(n, MetricRequestsCancelled, method, target, string(cause))
	}
	for cause, n := range c.TasksCancelled {
		s.add(n, MetricTasksCancelled, target, string(cause))
	}
	for cause, n := range c.Abandoned {
		s.add(n, MetricHandlersAbandoned, target, string(cause))
	}
}

// addGauges adds what is live in one source.
func (s sums) addGauges(snap *Snapshot) {
	for _, list := range [][]RequestState{snap.Requests, snap.Subscriptions} {
		for i := range list {
			s.add(1, MetricRequestsInFlight, list[i].State)
			if list[i].Abandoned {
				s.add(1, MetricAbandonedNow)
			}
		}
	}
	s.add(uint64(len(snap.Subscriptions)), MetricSubscriptionsActive)
	for status, n := range snap.TaskStatus {
		s.add(uint64(n), MetricTasks, string(status))
	}
	for i := range snap.Tasks {
		if snap.Tasks[i].Abandoned {
			s.add(1, MetricAbandonedNow)
		}
	}
	oldest := at(MetricOldestRequestAge)
	s[oldest] = max(s[oldest], snap.oldestAge().Seconds())
	s.add(uint64(len(snap.Outbound)), MetricPendingOutbound)
	for i := range snap.Sessions {
		s.add(1, MetricSessionsActive, transportLabel(snap.Sessions[i].Transport))
	}
}

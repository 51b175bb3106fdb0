package telemetry

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// instruments are all metrics of one registry. They are one collector. Several values of
// [Telemetry] with one registry share them.
type instruments struct {
	tenants bool            // the durations of operations have the label tenant
	rows    map[string]*row // by name
	// The metrics that are recorded, by name.
	histograms map[string]*prometheus.HistogramVec
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	snapshots  *snapshotCollector // the metrics that are read from snapshots
	collectors []prometheus.Collector

	queueWaits prometheus.Observer // of requests without a class
	classes    boundedNames
	writes     map[string]prometheus.Observer // by transport
	exemplars  sync.Map                       // of prometheus.Metric: *exemplarSlots; for durations of operations

	// pushed tells that a [Telemetry] pushes the registry over OTLP.
	pushed atomic.Bool
}

// newInstruments makes the collectors of the catalogue.
func newInstruments(tenants bool) *instruments {
	in := &instruments{
		tenants: tenants, rows: map[string]*row{}, histograms: map[string]*prometheus.HistogramVec{},
		counters: map[string]*prometheus.CounterVec{}, gauges: map[string]*prometheus.GaugeVec{},
		writes: map[string]prometheus.Observer{},
	}
	var read []*row
	for _, m := range catalogue() {
		in.rows[m.Name] = m
		if m.read != nil {
			read = append(read, m)
			continue
		}
		in.collectors = append(in.collectors, in.record(m))
	}
	in.snapshots = newSnapshotCollector(read)
	in.collectors = append(in.collectors, in.snapshots)
	in.queueWaits = in.queueWaitsOf("")
	for _, t := range ownTransports() {
		in.writes[t] = in.histogram(MetricWrite, t)
	}
	b := readBuild()
	in.gauge(MetricBuildInfo, b.version, b.revision, b.goVersion).Set(1)
	return in
}

// record makes the collector of a metric that is recorded, with the series that exist from the
// start. A rate over a missing series has no value.
func (in *instruments) record(m *row) prometheus.Collector {
	names, opts := m.labelNames(), prometheus.Opts{Name: m.Name, Help: m.Help}
	switch m.Kind {
	case Counter:
		v := prometheus.NewCounterVec(prometheus.CounterOpts(opts), names)
		in.counters[m.Name] = v
		for _, labels := range m.first() {
			v.WithLabelValues(labels...)
		}
		return v
	case Gauge:
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts(opts), names)
		in.gauges[m.Name] = v
		for _, labels := range m.first() {
			v.WithLabelValues(labels...)
		}
		return v
	}
	if in.tenants && m.Name == MetricOperationDuration {
		names = append(names, labelTenant)
	}
	v := prometheus.NewHistogramVec(m.histogramOpts(), names)
	in.histograms[m.Name] = v
	for _, labels := range m.first() {
		v.WithLabelValues(labels...)
	}
	return v
}

func (m *row) histogramOpts() prometheus.HistogramOpts {
	opts := prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}
	if m.Native {
		opts.NativeHistogramBucketFactor = 1.1
		opts.NativeHistogramMaxBucketNumber = 160
		opts.NativeHistogramMinResetDuration = time.Hour
	}
	return opts
}

// histogram returns a series of a histogram that is recorded.
func (in *instruments) histogram(metric string, labels ...string) prometheus.Observer {
	return in.histograms[metric].WithLabelValues(labels...)
}

// queueWaitsOf returns the histogram of the waits of a class.
func (in *instruments) queueWaitsOf(class string) prometheus.Observer {
	return in.histogram(MetricQueueWait, in.classes.label(class))
}

// counter returns a series of a counter that is recorded.
func (in *instruments) counter(metric string, labels ...string) prometheus.Counter {
	return in.counters[metric].WithLabelValues(labels...)
}

// gauge returns a series of a gauge that is recorded.
func (in *instruments) gauge(metric string, labels ...string) prometheus.Gauge {
	return in.gauges[metric].WithLabelValues(labels...)
}

// count adds one to a counter, whether it is recorded or read from snapshots.
func (in *instruments) count(metric string, labels ...string) {
	if in.rows[metric].read != nil {
		in.snapshots.count(metric, labels...)
	} else {
		in.counter(metric, labels...).Inc()
	}
}

// registerInstruments registers new instruments. If the registry has instruments already, it
// returns those.
func registerInstruments(reg *prometheus.Registry, tenants bool) (*instruments, error) {
	in := newInstruments(tenants)
	err := reg.Register(in)
	if err == nil {
		return in, nil
	}
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(*instruments); ok && existing.tenants == tenants {
			return existing, nil
		}
	}
	return nil, fmt.Errorf("telemetry: the registry has other metrics under our names: %w", err)
}

// Describe implements [prometheus.Collector].
func (in *instruments) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range in.collectors {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector]. A vector holds a lock while it is collected, and a
// request that needs a new series waits for that lock. The reader of ch may wait for a slow
// collector of the program. So Collect takes all metrics of a vector first and sends them
// afterwards.
func (in *instruments) Collect(ch chan<- prometheus.Metric) {
	for _, c := range in.collectors {
		for _, m := range collected(c) {
			if e, ok := in.exemplars.Load(m); ok {
				m = e.(*exemplarSlots).attach(m)
			}
			ch <- m
		}
	}
}

// collected returns the metrics of a collector.
func collected(c prometheus.Collector) (all []prometheus.Metric) {
	ch, done := make(chan prometheus.Metric, 64), make(chan struct{})
	go func() {
		defer close(done)
		for m := range ch {
			all = append(all, m)
		}
	}()
	func() {
		defer close(ch)
		c.Collect(ch)
	}()
	<-done
	return all
}

// exemplarsOf returns the exemplars of a duration of operations.
func (in *instruments) exemplarsOf(o prometheus.Observer) *exemplarSlots {
	kept, _ := in.exemplars.LoadOrStore(o, &exemplarSlots{})
	return kept.(*exemplarSlots)
}

// build describes the binary.
type build struct{ version, revision, goVersion string }

// readBuild returns the version of Vitrine in this binary, and the revision of
// the main module.
func readBuild() build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return build{version: "unknown", revision: "unknown", goVersion: "unknown"}
	}
	b := build{version: info.Main.Version, revision: "unknown", goVersion: info.GoVersion}
	for _, dep := range info.Deps {
		if dep.Path == scopeName {
			b.version = dep.Version
		}
	}
	if b.version == "" {
		b.version = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.revision = s.Value
		}
	}
	return b
}

// tenants bounds the values of the label. nil: there is no label.
type tenants struct {
	max     int
	metrics *instruments // for counting the other tenants

	mu    sync.RWMutex
	known map[string]struct{}
}

func newTenants(max int, metrics *instruments) *tenants {
	if max <= 0 {
		return nil
	}
	return &tenants{max: max, metrics: metrics, known: map[string]struct{}{}}
}

// label returns the label value of a tenant.
func (t *tenants) label(name string) string {
	if t == nil || name == "" {
		return ""
	}
	name = logline.Printable(name, maxName)
	t.mu.RLock()
	_, known := t.known[name]
	full := len(t.known) >= t.max
	t.mu.RUnlock()
	switch {
	case known:
		return name
	case !full && t.add(name):
		return name
	}
	t.metrics.count(MetricLimitReached, limitTenants)
	return other
}

// add adds a tenant. It returns false if there are too many.
func (t *tenants) add(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.known[name]; !known && len(t.known) >= t.max {
		return false
	}
	t.known[name] = struct{}{}
	return true
}

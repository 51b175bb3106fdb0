package telemetry

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// instruments are all metrics of one registry, as one collector: a value that registers
// it second finds the first one and feeds that.
type instruments struct {
	tenants                               bool // operation has the label tenant
	operation, session, queueWait, unwind *prometheus.HistogramVec
	validation, write                     *prometheus.HistogramVec
	requestBytes, responseBytes           *prometheus.HistogramVec
	subscription, task, client            *prometheus.HistogramVec
	rejected                              *prometheus.CounterVec

	queueWaits prometheus.Observer
	writes     map[string]prometheus.Observer // by transport

	counters  *counterCollector
	health    *health
	catalogue map[string]Metric // by name

	collectors []prometheus.Collector

	exemplars sync.Map // prometheus.Metric to *exemplarSlots: those of operation

	mu     sync.Mutex                                 // guards the writing of series
	series atomic.Pointer[map[seriesKey]*seriesMeter] // copied on write
	// pushed is set by the value that exports the registry over OTLP: once is enough.
	pushed atomic.Bool
}

// A seriesKey is a method and a registered target.
type seriesKey struct{ method, target string }

// newInstruments builds the collectors from the catalogue.
func newInstruments(tenants bool) *instruments {
	byName := map[string]Metric{}
	for _, m := range Catalogue() {
		byName[m.Name] = m
	}
	in := &instruments{tenants: tenants, catalogue: byName, writes: map[string]prometheus.Observer{}}
	histogram := func(name string) *prometheus.HistogramVec {
		m := byName[name]
		opts := prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}
		if m.Native {
			opts.NativeHistogramBucketFactor = 1.1
			opts.NativeHistogramMaxBucketNumber = 160
			opts.NativeHistogramMinResetDuration = time.Hour
		}
		names := labelNames(m.Labels)
		if tenants && name == MetricOperationDuration {
			names = append(names, labelTenant)
		}
		v := prometheus.NewHistogramVec(opts, names)
		in.collectors = append(in.collectors, v)
		return v
	}
	in.operation = histogram(MetricOperationDuration)
	in.session = histogram(MetricSessionDuration)
	in.client = histogram(MetricClientDuration)
	in.queueWait = histogram(MetricQueueWait)
	in.unwind = histogram(MetricCancelUnwind)
	in.validation = histogram(MetricValidation)
	in.write = histogram(MetricWrite)
	in.requestBytes = histogram(MetricRequestBytes)
	in.responseBytes = histogram(MetricResponseBytes)
	in.subscription = histogram(MetricSubscriptionDuration)
	in.task = histogram(MetricTaskDuration)
	rejected := byName[MetricArgumentsRejected]
	in.rejected = prometheus.NewCounterVec(prometheus.CounterOpts{Name: rejected.Name, Help: rejected.Help}, labelNames(rejected.Labels))
	in.rejected.WithLabelValues("")
	in.collectors = append(in.collectors, in.rejected)
	in.queueWaits = in.queueWait.WithLabelValues()
	for _, t := range ownTransports() {
		in.writes[t] = in.write.WithLabelValues(t)
	}
	for _, cause := range mcp.Causes() {
		in.unwind.WithLabelValues("", string(cause)) // so that a rate never meets a missing series
	}
	for _, method := range askMethods() {
		in.client.WithLabelValues(method, "", "", "", "", "", "")
	}
	for _, status := range mcp.TaskStatuses() {
		if status.Terminal() {
			in.task.WithLabelValues("", string(status))
		}
	}
	for _, end := range mcp.SubscriptionEnds() {
		in.subscription.WithLabelValues(string(end))
	}
	in.health = newHealth(byName)
	in.counters = newCounterCollector(append(counters(), gauges()...))
	in.collectors = append(in.collectors, in.health, in.counters)
	in.series.Store(&map[seriesKey]*seriesMeter{})
	return in
}

// registerInstruments registers the instruments, or adopts those that are
// registered already.
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

// Collect implements [prometheus.Collector]. A vector holds a lock while it is collected,
// and whoever needs a new series waits for that; so what it has is taken first, and handed
// on afterwards: the reader may be waiting for another collector, for as long as that likes.
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

// of returns the meter of a series, making it on first use.
func (in *instruments) of(method, target string) *seriesMeter {
	key := seriesKey{method, target}
	if m := (*in.series.Load())[key]; m != nil {
		return m
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	old := *in.series.Load()
	if m := old[key]; m != nil {
		return m
	}
	m := newSeriesMeter(in, key)
	in.series.Store(with(old, key, m))
	return m
}

// exemplarsOf returns where the exemplars of a histogram of operations are kept.
func (in *instruments) exemplarsOf(o prometheus.Observer) *exemplarSlots {
	kept, _ := in.exemplars.LoadOrStore(o, &exemplarSlots{})
	return kept.(*exemplarSlots)
}

// notificationLabel bounds the method of a notification, which may be anything on the
// wire.
func notificationLabel(method string) string {
	switch method {
	case mcp.NotificationCancelled, mcp.NotificationInitialized, mcp.NotificationProgress, mcp.NotificationRootsListChanged:
		return method
	}
	return other
}

// A seriesMeter holds what is resolved once for each method and target.
type seriesMeter struct {
	in         *instruments
	key        seriesKey
	spanName   string
	attributes []attribute.KeyValue

	requestBytes, responseBytes prometheus.Observer
	validation                  atomic.Pointer[validationMeter] // see validations

	mu         sync.Mutex                                       // guards the writing of the maps
	operations atomic.Pointer[map[operationKey]*operationChild] // copied on write
	// latest is the child that was wanted last: nearly always the one that is wanted next,
	// and comparing the labels costs less than hashing them.
	latest atomic.Pointer[operationChild]
}

type operationChild struct {
	key operationKey
	prometheus.Observer
	exemplars *exemplarSlots
}

// An operationKey holds the other labels of the duration of operations, all from
// closed sets.
type operationKey struct {
	errorType, code, version, tenant string
	network                          networkKey
}

type networkKey struct{ transport, protocol, version string }

func newSeriesMeter(in *instruments, key seriesKey) *seriesMeter {
	m := &seriesMeter{
		in: in, key: key, spanName: key.method, attributes: seriesAttributes(key.method, key.target),
		requestBytes:  in.requestBytes.WithLabelValues(key.method, key.target),
		responseBytes: in.responseBytes.WithLabelValues(key.method, key.target),
	}
	if key.target != "" {
		m.spanName = key.method + " " + key.target
	}
	m.operations.Store(&map[operationKey]*operationChild{})
	return m
}

// A validationMeter measures the validation of a tool's arguments.
type validationMeter struct {
	took     prometheus.Observer
	rejected prometheus.Counter
}

// validations returns the children for validation, making them on first use: a target
// that validates nothing has no series, and one that does has both from then on.
func (m *seriesMeter) validations() *validationMeter {
	if v := m.validation.Load(); v != nil {
		return v
	}
	v := &validationMeter{m.in.validation.WithLabelValues(m.key.target), m.in.rejected.WithLabelValues(m.key.target)}
	m.validation.Store(v)
	return v
}

// operation returns the child for a combination of labels.
func (m *seriesMeter) operation(key operationKey) *operationChild {
	child := m.latest.Load()
	if child == nil || child.key != key {
		child = m.operationOf(key)
		m.latest.Store(child)
	}
	return child
}

// operationOf finds or makes the child for a combination of labels.
func (m *seriesMeter) operationOf(key operationKey) *operationChild {
	if child := (*m.operations.Load())[key]; child != nil {
		return child
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *m.operations.Load()
	if child := old[key]; child != nil {
		return child
	}
	tool, prompt, operation := "", "", ""
	switch m.key.method {
	case mcp.MethodToolsCall:
		tool, operation = m.key.target, operationExecuteTool
	case mcp.MethodPromptsGet:
		prompt = m.key.target
	}
	n := key.network
	values := []string{m.key.method, key.errorType, tool, prompt, operation, key.code, key.version, n.transport, n.protocol, n.version}
	if m.in.tenants {
		values = append(values, key.tenant)
	}
	child := &operationChild{key: key, Observer: m.in.operation.WithLabelValues(values...)}
	child.exemplars = m.in.exemplarsOf(child.Observer)
	m.operations.Store(with(old, key, child))
	return child
}

// with returns a copy of a map that has one more entry.
func with[K comparable, V any](old map[K]V, key K, value V) *map[K]V {
	m := make(map[K]V, len(old)+1)
	for k, v := range old {
		m[k] = v
	}
	m[key] = value
	return &m
}

// versionLabel bounds a protocol revision, which may be anything on the wire.
func versionLabel(v mcp.Version) string {
	if v == "" {
		return ""
	}
	if _, supported := v.Era(); supported {
		return string(v)
	}
	return other
}

func labelNames(labels []Label) []string {
	names := make([]string, len(labels))
	for i, l := range labels {
		names[i] = l.Name
	}
	return names
}

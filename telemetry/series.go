package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A seriesKey is a method and a registered target.
type seriesKey struct{ method, target string }

// A Series has the labels and metrics of one method and target; see [Telemetry.Series]. It is safe
// for concurrent use.
type Series struct {
	tel        *Telemetry
	key        seriesKey
	spanName   string
	attributes []attribute.KeyValue

	requestBytes, responseBytes prometheus.Observer
	validation                  atomic.Pointer[validationMeter] // see validations
	operations                  growingMap[operationKey, *operationChild]
	// latest is the child of the latest operation. It is nearly always the next one too, and
	// comparing labels costs less than hashing them, which is the plain version.
	latest atomic.Pointer[operationChild]

	// class is the concurrency class of the latest request with its metric; nil: none had one.
	class atomic.Pointer[classMeter]

	latency latencySketch
	recent  recentSeries
}

// Series returns the series of a method and a target. It makes the series on first use. Both
// become labels and must come from closed sets. It costs a lookup in a map, so a server may keep
// the value. Disabled telemetry returns nil.
func (t *Telemetry) Series(method, target string) *Series {
	if !t.Enabled() {
		return nil
	}
	key := seriesKey{method, target}
	return t.series.get(key, func() *Series { return t.newSeries(key) })
}

func (t *Telemetry) newSeries(key seriesKey) *Series {
	s := &Series{
		tel: t, key: key, spanName: key.method, attributes: seriesAttributes(key.method, key.target),
		requestBytes:  t.metrics.histogram(MetricRequestBytes, key.method, key.target),
		responseBytes: t.metrics.histogram(MetricResponseBytes, key.method, key.target),
	}
	if key.target != "" {
		s.spanName = key.method + " " + key.target
	}
	s.recent.floor.Store(noFloor)
	return s
}

type operationChild struct {
	key operationKey
	prometheus.Observer
	exemplars *exemplarSlots
}

// An operationKey has the other labels of the duration of operations. All are from closed sets.
type operationKey struct {
	errorType, code, version, tenant string
	network                          networkKey
}

// A validationMeter measures the validation of a tool's arguments.
type validationMeter struct {
	took     prometheus.Observer
	rejected prometheus.Counter
}

// validations returns the metrics of validation. It makes them on first use: a target without
// validation has no such series.
func (s *Series) validations() *validationMeter {
	if v := s.validation.Load(); v != nil {
		return v
	}
	v := &validationMeter{s.tel.metrics.histogram(MetricValidation, s.key.target), s.tel.metrics.counter(MetricArgumentsRejected, s.key.target)}
	s.validation.Store(v)
	return v
}

// A classMeter measures the waits of requests of a concurrency class.
type classMeter struct {
	name string
	wait prometheus.Observer
}

// enter notes the concurrency class of a request. The registrations of a series rarely change it.
func (s *Series) enter(class string) {
	if known := s.class.Load(); known == nil && class == "" || known != nil && known.name == class {
		return
	}
	s.class.Store(&classMeter{class, s.tel.metrics.queueWaitsOf(class)})
}

// queueWait returns the histogram of the waits of the series' class.
func (s *Series) queueWait() prometheus.Observer {
	if c := s.class.Load(); c != nil {
		return c.wait
	}
	return s.tel.metrics.queueWaits
}

// operation returns the child for a combination of labels.
func (s *Series) operation(key operationKey) *operationChild {
	child := s.latest.Load()
	if child == nil || child.key != key {
		child = s.operations.get(key, func() *operationChild { return s.newOperation(key) })
		s.latest.Store(child)
	}
	return child
}

// newOperation makes the child for a combination of labels.
func (s *Series) newOperation(key operationKey) *operationChild {
	tool, prompt, operation := "", "", ""
	switch s.key.method {
	case mcp.MethodToolsCall:
		tool, operation = s.key.target, operationExecuteTool
	case mcp.MethodPromptsGet:
		prompt = s.key.target
	}
	n := key.network
	values := []string{s.key.method, key.errorType, tool, prompt, operation, key.code, key.version, n.transport, n.protocol, n.version}
	if s.tel.metrics.tenants {
		values = append(values, key.tenant)
	}
	child := &operationChild{key: key, Observer: s.tel.metrics.histogram(MetricOperationDuration, values...)}
	child.exemplars = s.tel.metrics.exemplarsOf(child.Observer)
	return child
}

// A growingMap is a map whose entries are never removed. Reads take no lock, because each write
// makes a new map. The zero value is an empty map. It is safe for concurrent use.
type growingMap[K comparable, V any] struct {
	mu  sync.Mutex // guards the writing
	all atomic.Pointer[map[K]V]
}

// load returns all entries. The caller must not change them.
func (g *growingMap[K, V]) load() map[K]V {
	if all := g.all.Load(); all != nil {
		return *all
	}
	return nil
}

// get returns the value of a key, making it on first use.
func (g *growingMap[K, V]) get(key K, create func() V) V {
	if v, known := g.load()[key]; known {
		return v
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.load()
	if v, known := old[key]; known {
		return v
	}
	v := create()
	grown := map[K]V{key: v}
	maps.Copy(grown, old)
	g.all.Store(&grown)
	return v
}

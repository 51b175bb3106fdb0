package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A seriesKey is a method and a registered target.
type seriesKey struct{ method, target string }

// of returns the meter of a series, making it on first use.
func (in *instruments) of(method, target string) *seriesMeter {
	key := seriesKey{method, target}
	return in.series.get(key, func() *seriesMeter { return newSeriesMeter(in, key) })
}

// A seriesMeter holds what is resolved once for each method and target.
type seriesMeter struct {
	in         *instruments
	key        seriesKey
	spanName   string
	attributes []attribute.KeyValue

	requestBytes, responseBytes prometheus.Observer
	validation                  atomic.Pointer[validationMeter] // see validations

	operations growingMap[operationKey, *operationChild]
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
		requestBytes:  in.histogram(MetricRequestBytes, key.method, key.target),
		responseBytes: in.histogram(MetricResponseBytes, key.method, key.target),
	}
	if key.target != "" {
		m.spanName = key.method + " " + key.target
	}
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
	v := &validationMeter{m.in.histogram(MetricValidation, m.key.target), m.in.counter(MetricArgumentsRejected, m.key.target)}
	m.validation.Store(v)
	return v
}

// operation returns the child for a combination of labels.
func (m *seriesMeter) operation(key operationKey) *operationChild {
	child := m.latest.Load()
	if child == nil || child.key != key {
		child = m.operations.get(key, func() *operationChild { return m.newOperation(key) })
		m.latest.Store(child)
	}
	return child
}

// newOperation makes the child for a combination of labels.
func (m *seriesMeter) newOperation(key operationKey) *operationChild {
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
	child := &operationChild{key: key, Observer: m.in.histogram(MetricOperationDuration, values...)}
	child.exemplars = m.in.exemplarsOf(child.Observer)
	return child
}

package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// maxExemplars bounds how many points keep an exemplar. Points come from closed
// sets and registrations, so that it is a matter of prudence only.
const maxExemplars = 4096

// exemplars keeps the latest sampled trace of each point of the counters that
// carry one.
type exemplars struct {
	mu   sync.Mutex
	last map[point]exemplar
}

type exemplar struct {
	labels prometheus.Labels
	at     time.Time
}

// put remembers the trace of a point.
func (e *exemplars) put(p point, sc trace.SpanContext, now time.Time) {
	labels := exemplarLabels(sc)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last == nil {
		e.last = map[point]exemplar{}
	}
	if _, known := e.last[p]; !known && len(e.last) >= maxExemplars {
		return
	}
	e.last[p] = exemplar{labels, now}
}

func (e *exemplars) of(p point) (exemplar, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ex, ok := e.last[p]
	return ex, ok
}

// attach returns m with the exemplar.
func (e exemplar) attach(m prometheus.Metric) prometheus.Metric {
	withExemplar, err := prometheus.NewMetricWithExemplars(m,
		prometheus.Exemplar{Value: 1, Labels: e.labels, Timestamp: e.at})
	if err != nil {
		return m // a counter without its exemplar is still the counter
	}
	return withExemplar
}

// exemplarLabels name a span as Prometheus and Grafana expect it.
func exemplarLabels(sc trace.SpanContext) prometheus.Labels {
	return spanLabels(sc.TraceID(), sc.SpanID())
}

func spanLabels(id trace.TraceID, span trace.SpanID) prometheus.Labels {
	return prometheus.Labels{"trace_id": id.String(), "span_id": span.String()}
}

// exemplarOf returns the labels that name a span; nil unless it is sampled.
func exemplarOf(sc trace.SpanContext) prometheus.Labels {
	if !sc.IsSampled() {
		return nil
	}
	return exemplarLabels(sc)
}

// increment counts one, with an exemplar if there are labels for one.
func increment(c prometheus.Counter, labels prometheus.Labels) {
	if labels != nil {
		if e, ok := c.(prometheus.ExemplarAdder); ok {
			e.AddWithExemplar(1, labels)
			return
		}
	}
	c.Inc()
}

// observe records a value, with an exemplar if there are labels for one.
func observe(o prometheus.Observer, value float64, labels prometheus.Labels) {
	if labels != nil {
		if e, ok := o.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(value, labels)
			return
		}
	}
	o.Observe(value)
}

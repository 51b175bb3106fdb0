package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// maxExemplars bounds how many points have an exemplar. Points come from closed sets and
// registrations, so the bound is a precaution.
const maxExemplars = 4096

// exemplars has the latest sampled trace of each point, for counters with exemplars.
type exemplars struct {
	mu   sync.Mutex
	last map[point]prometheus.Exemplar
}

// put sets the trace of a point.
func (e *exemplars) put(p point, sc trace.SpanContext, now time.Time) {
	labels := spanLabels(sc.TraceID(), sc.SpanID())
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.last[p]; !known && len(e.last) >= maxExemplars {
		return
	}
	e.last[p] = prometheus.Exemplar{Value: 1, Labels: labels, Timestamp: now}
}

func (e *exemplars) of(p point) (prometheus.Exemplar, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ex, ok := e.last[p]
	return ex, ok
}

// attach returns the metric with exemplars, and m itself if there are none.
func attach(m prometheus.Metric, exemplars ...prometheus.Exemplar) prometheus.Metric {
	with, err := prometheus.NewMetricWithExemplars(m, exemplars...)
	if err != nil {
		return m
	}
	return with
}

// spanLabels returns the labels of an exemplar, as Prometheus and Grafana expect them.
func spanLabels(id trace.TraceID, span trace.SpanID) prometheus.Labels {
	return prometheus.Labels{"trace_id": id.String(), "span_id": span.String()}
}

// spanIDs returns the ids of a span in hexadecimal, or "" if there is none.
func spanIDs(sc trace.SpanContext) (traceID, spanID string) {
	if !sc.IsValid() {
		return "", ""
	}
	return sc.TraceID().String(), sc.SpanID().String()
}

// observe records a value, with an exemplar if the span is sampled.
func observe(o prometheus.Observer, value float64, sc trace.SpanContext) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && sc.IsSampled() {
		e.ObserveWithExemplar(value, spanLabels(sc.TraceID(), sc.SpanID()))
		return
	}
	o.Observe(value)
}

package telemetry

import (
	"cmp"
	"slices"
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

// exemplarBounds are the upper bounds of the slots for durations of operations, in seconds.
// Each slot has the latest exemplar. They are the bounds of the histogram's buckets, and some
// smaller ones for the native histogram.
var exemplarBounds = append([]float64{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005}, operationBuckets()...)

// exemplarSlots has the latest sampled spans of a histogram. They become exemplars when the
// histogram is collected. client_golang would make an exemplar of each observation, which costs
// 1.4 µs and eight allocations.
type exemplarSlots struct {
	mu    sync.Mutex
	slots []slottedSpan // by bucket of exemplarBounds; nil before the first
}

type slottedSpan struct {
	seconds float64
	at      time.Time // zero: none
	trace   trace.TraceID
	span    trace.SpanID
}

// put sets the span of the slot for a duration. at is the end of the span.
func (s *exemplarSlots) put(seconds float64, sc trace.SpanContext, at time.Time) {
	slot, _ := slices.BinarySearch(exemplarBounds, seconds)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == nil {
		s.slots = make([]slottedSpan, len(exemplarBounds)+1)
	}
	s.slots[slot] = slottedSpan{seconds, at, sc.TraceID(), sc.SpanID()}
}

// all returns the spans in the order of their ends.
func (s *exemplarSlots) all() []slottedSpan {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(s.slots), func(e slottedSpan) bool { return e.at.IsZero() })
	slices.SortStableFunc(all, func(a, b slottedSpan) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	return all
}

// attach returns the histogram with its exemplars.
func (s *exemplarSlots) attach(m prometheus.Metric) prometheus.Metric {
	all := s.all()
	exemplars := make([]prometheus.Exemplar, len(all))
	for i, e := range all {
		exemplars[i] = prometheus.Exemplar{Value: e.seconds, Labels: spanLabels(e.trace, e.span), Timestamp: e.at}
	}
	return attach(m, exemplars...)
}

package telemetry

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/order"
)

// exemplarBounds are the upper bounds of the slots for durations of operations, in seconds.
// Each slot has the latest exemplar. They are the bounds of the histogram's buckets, and some
// smaller ones for the native histogram.
var exemplarBounds = append([]float64{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005}, operationBuckets()...)

// exemplarSlots has the latest sampled spans of a histogram. They become exemplars when the
// histogram is collected. The plain version is ObserveWithExemplar for each operation: client_golang
// makes an exemplar of each observation, with 15 allocations.
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
	order.By(all, func(a, b *slottedSpan) bool { return a.at.Before(b.at) })
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

package telemetry

import (
	"container/list"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/report"
)

// A spanKeeper keeps the spans of the traces whose request is kept, or is in flight and
// has started spans of its own. It is a span processor.
type spanKeeper struct {
	perTrace, inAll int
	metrics         *instruments

	mu     sync.Mutex // guards the rest, and all traceSpans
	traces map[trace.TraceID]*traceSpans
	oldest list.List // of *traceSpans, those that have spans
	total  int       // spans that are kept
}

// traceSpans are the spans of one trace. Guarded by spanKeeper.mu.
type traceSpans struct {
	id      trace.TraceID
	holders int // requests in flight, and kept ones
	spans   []keptSpan
	leftOut int
	place   *list.Element // in spanKeeper.oldest, or nil
}

// A keptSpan is a copy of a span, cut to what is worth keeping. The times in the row are
// missing as long as nobody has said since when they are counted.
type keptSpan struct {
	row    report.Span
	start  time.Time
	events []time.Time // when they happened
}

// since returns the row with times that are counted from the arrival of a request.
func (s *keptSpan) since(arrived time.Time) report.Span {
	row := s.row
	row.AfterSeconds = s.start.Sub(arrived).Seconds()
	row.Events = slices.Clone(row.Events)
	for i := range row.Events {
		row.Events[i].AfterSeconds = s.events[i].Sub(arrived).Seconds()
	}
	return row
}

// Bounds of one span. What it has more is left out.
const (
	maxSpanAttributes = 32
	maxSpanEvents     = 8
)

func newSpanKeeper(bounds Recent, metrics *instruments) *spanKeeper {
	return &spanKeeper{
		perTrace: bounds.Spans, inAll: bounds.TotalSpans, metrics: metrics, traces: map[trace.TraceID]*traceSpans{},
	}
}

// hold returns the spans of a trace and keeps them until release.
func (k *spanKeeper) hold(id trace.TraceID) *traceSpans {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.holdLocked(id)
}

func (k *spanKeeper) holdLocked(id trace.TraceID) *traceSpans {
	t := k.traces[id]
	if t == nil {
		t = &traceSpans{id: id}
		k.traces[id] = t
	}
	t.holders++
	return t
}

// release gives up a hold. Nil is none.
func (k *spanKeeper) release(t *traceSpans) {
	if t == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.releaseLocked(t)
}

func (k *spanKeeper) releaseLocked(t *traceSpans) {
	if t.holders--; t.holders == 0 {
		k.clear(t)
		delete(k.traces, t.id)
	}
}

// clear lets go of the spans of a trace.
func (k *spanKeeper) clear(t *traceSpans) {
	if t.place != nil {
		k.oldest.Remove(t.place)
	}
	k.total -= len(t.spans)
	t.spans, t.place = nil, nil
}

// finish ends the hold of a request that is not in flight any more.
func (k *spanKeeper) finish(op *Operation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	op.finished = true
	if op.spans != nil {
		k.releaseLocked(op.spans)
		op.spans = nil
	}
}

// OnStart implements [sdktrace.SpanProcessor]: the first span that a handler starts
// makes its request hold the spans of its trace.
func (k *spanKeeper) OnStart(parent context.Context, s sdktrace.ReadWriteSpan) {
	op, _ := parent.Value(operationContextKey{}).(*Operation)
	if op == nil || op.series.tel.recent.spans != k {
		return
	}
	id := op.span.SpanContext().TraceID()
	if s.SpanContext().TraceID() != id {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !op.finished && op.spans == nil {
		op.spans = k.holdLocked(id)
	}
}

// OnEnd implements [sdktrace.SpanProcessor].
func (k *spanKeeper) OnEnd(s sdktrace.ReadOnlySpan) {
	id := s.SpanContext().TraceID()
	if !k.wants(id) {
		return
	}
	span := newKeptSpan(s) // not under the lock
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.traces[id]
	if t == nil || k.full(t) {
		return
	}
	if k.total >= k.inAll && !k.clearOldest(t) {
		t.leftOut++
		k.metrics.counter(MetricTraceSpansLeftOut, limitRecentTotalSpans).Inc()
		return
	}
	if t.place == nil {
		t.place = k.oldest.PushBack(t)
	}
	t.spans = append(t.spans, span)
	k.total++
}

// wants says whether a span of a trace has a place.
func (k *spanKeeper) wants(id trace.TraceID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.traces[id]
	return t != nil && !k.full(t)
}

// full says whether a trace has no place for one more span, and counts that.
func (k *spanKeeper) full(t *traceSpans) bool {
	if len(t.spans) < k.perTrace {
		return false
	}
	t.leftOut++
	k.metrics.counter(MetricTraceSpansLeftOut, limitRecentSpans).Inc()
	return true
}

// clearOldest makes room for a span of t; false if it is t that has all of it.
func (k *spanKeeper) clearOldest(t *traceSpans) bool {
	front := k.oldest.Front()
	if front == nil || front.Value == t {
		return false
	}
	old := front.Value.(*traceSpans)
	old.leftOut += len(old.spans)
	k.metrics.counter(MetricTraceSpansLeftOut, limitRecentTotalSpans).Add(float64(len(old.spans)))
	k.clear(old)
	return true
}

// of returns a copy of the spans of a trace; t may be nil.
func (k *spanKeeper) of(t *traceSpans) (spans []keptSpan, leftOut int) {
	if t == nil {
		return nil, 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return append(spans, t.spans...), t.leftOut
}

// Shutdown implements [sdktrace.SpanProcessor].
func (*spanKeeper) Shutdown(context.Context) error { return nil }

// ForceFlush implements [sdktrace.SpanProcessor].
func (*spanKeeper) ForceFlush(context.Context) error { return nil }

// newKeptSpan copies a span. The text of users' spans is bounded and made fit to print
// as that of peers is.
func newKeptSpan(s sdktrace.ReadOnlySpan) keptSpan {
	status := s.Status()
	span := keptSpan{start: s.StartTime(), row: report.Span{
		SpanID: s.SpanContext().SpanID().String(), Name: kept(s.Name(), maxText), Kind: s.SpanKind().String(),
		Seconds: s.EndTime().Sub(s.StartTime()).Seconds(), Status: status.Code.String(), StatusText: kept(status.Description, maxText),
	}}
	if parent := s.Parent().SpanID(); parent.IsValid() {
		span.row.Parent = parent.String()
	}
	attrs, events := s.Attributes(), s.Events()
	for _, kv := range attrs[:min(len(attrs), maxSpanAttributes)] {
		value := kept(kv.Value.String(), maxText)
		if kv.Key == keySessionID {
			value = value[:min(len(value), 8)] // whoever has all of it can use the session
		}
		span.row.Attributes = append(span.row.Attributes, report.Attribute{Key: kept(string(kv.Key), maxName), Value: value})
	}
	for _, e := range events[:min(len(events), maxSpanEvents)] {
		span.row.Events = append(span.row.Events, report.SpanEvent{Name: kept(e.Name, maxName), Text: eventText(e.Attributes)})
		span.events = append(span.events, e.Time)
	}
	return span
}

// eventText writes the attributes of an event in a line.
func eventText(attrs []attribute.KeyValue) string {
	var b strings.Builder
	for _, kv := range attrs {
		if b.Len() > maxText || kv.Key == keyExceptionStacktrace {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(string(kv.Key) + "=" + logline.Printable(kv.Value.String(), maxText))
	}
	return kept(b.String(), maxText)
}

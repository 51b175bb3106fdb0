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

// A spanBuffer has copies of the spans of recent traces, and of requests in flight whose handlers
// have started spans. It is a span processor.
type spanBuffer struct {
	perTrace, inAll int
	metrics         *instruments

	mu     sync.Mutex // guards the rest, and all traceSpans
	traces map[trace.TraceID]*traceSpans
	oldest list.List // of *traceSpans with spans
	total  int       // spans of all traces
}

// traceSpans are the spans of one trace. Guarded by spanBuffer.mu.
type traceSpans struct {
	id      trace.TraceID
	holders int // requests in flight, and recent traces
	spans   []heldSpan
	leftOut int
	place   *list.Element // in spanBuffer.oldest, or nil
}

// A heldSpan is a span of a page. It is immutable.
type heldSpan interface {
	// since returns the row of the span, with times since the arrival of a request.
	since(arrived time.Time) report.Span
}

// A bufferedSpan is a copy of a span with bounds. Its row has no times yet; see since.
type bufferedSpan struct {
	row    report.Span
	start  time.Time
	events []time.Time // when they happened
}

// since implements [heldSpan].
func (s *bufferedSpan) since(arrived time.Time) report.Span {
	row := s.row
	row.AfterSeconds = s.start.Sub(arrived).Seconds()
	row.Events = slices.Clone(row.Events)
	for i := range row.Events {
		row.Events[i].AfterSeconds = s.events[i].Sub(arrived).Seconds()
	}
	return row
}

// Bounds of one span. Other attributes and events are left out.
const (
	maxSpanAttributes = 32
	maxSpanEvents     = 8
)

func newSpanBuffer(bounds Recent, metrics *instruments) *spanBuffer {
	return &spanBuffer{
		perTrace: bounds.Spans, inAll: bounds.TotalSpans, metrics: metrics, traces: map[trace.TraceID]*traceSpans{},
	}
}

// hold returns the spans of a trace and holds them until release.
func (k *spanBuffer) hold(id trace.TraceID) *traceSpans {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.holdLocked(id)
}

func (k *spanBuffer) holdLocked(id trace.TraceID) *traceSpans {
	t := k.traces[id]
	if t == nil {
		t = &traceSpans{id: id}
		k.traces[id] = t
	}
	t.holders++
	return t
}

// release ends a hold. t may be nil.
func (k *spanBuffer) release(t *traceSpans) {
	if t == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.releaseLocked(t)
}

func (k *spanBuffer) releaseLocked(t *traceSpans) {
	if t.holders--; t.holders == 0 {
		k.clear(t)
		delete(k.traces, t.id)
	}
}

// clear removes the spans of a trace.
func (k *spanBuffer) clear(t *traceSpans) {
	if t.place != nil {
		k.oldest.Remove(t.place)
	}
	k.total -= len(t.spans)
	t.spans, t.place = nil, nil
}

// finish ends the hold of a request that has ended.
func (k *spanBuffer) finish(op *Operation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.finishLocked(op)
}

func (k *spanBuffer) finishLocked(op *Operation) {
	op.finished = true
	if op.spans != nil {
		k.releaseLocked(op.spans)
		op.spans = nil
	}
}

// finishUnlessWanted returns true if there is room for the request's own span in a trace that others hold.
// Otherwise it ends the hold of the request.
func (k *spanBuffer) finishUnlessWanted(op *Operation) (wanted bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.traces[op.span.SpanContext().TraceID()]
	if t != nil && !k.full(t) && (t != op.spans || t.holders > 1) {
		return true
	}
	k.finishLocked(op)
	return false
}

// OnStart implements [sdktrace.SpanProcessor].
func (k *spanBuffer) OnStart(parent context.Context, s sdktrace.ReadWriteSpan) {
	k.started(parent, s.SpanContext())
}

// started makes the request of a context hold the spans of its trace when its first inner span starts.
func (k *spanBuffer) started(parent context.Context, span trace.SpanContext) {
	op, _ := parent.Value(operationContextKey{}).(*Operation)
	if op == nil || op.series.tel.recent.spans != k {
		return
	}
	id := op.span.SpanContext().TraceID()
	if span.TraceID() != id {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !op.finished && op.spans == nil {
		op.spans = k.holdLocked(id)
	}
}

// OnEnd implements [sdktrace.SpanProcessor].
func (k *spanBuffer) OnEnd(s sdktrace.ReadOnlySpan) {
	id := s.SpanContext().TraceID()
	if !k.wants(id) {
		return
	}
	k.add(id, newBufferedSpan(s)) // not under the lock
}

// add adds a span to its trace, unless nobody holds the trace or there is no room.
func (k *spanBuffer) add(id trace.TraceID, span heldSpan) {
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

// wants reports whether there is room for a span of a trace.
func (k *spanBuffer) wants(id trace.TraceID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.traces[id]
	return t != nil && !k.full(t)
}

// full reports whether a trace has no room for another span. It counts the span as left out then.
func (k *spanBuffer) full(t *traceSpans) bool {
	if len(t.spans) < k.perTrace {
		return false
	}
	t.leftOut++
	k.metrics.counter(MetricTraceSpansLeftOut, limitRecentSpans).Inc()
	return true
}

// clearOldest clears the oldest trace to make room for a span of t. It returns false if the oldest
// trace is t.
func (k *spanBuffer) clearOldest(t *traceSpans) bool {
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

// of returns a copy of the spans of a trace. t may be nil.
func (k *spanBuffer) of(t *traceSpans) (spans []heldSpan, leftOut int) {
	if t == nil {
		return nil, 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return append(spans, t.spans...), t.leftOut
}

// Shutdown implements [sdktrace.SpanProcessor].
func (*spanBuffer) Shutdown(context.Context) error { return nil }

// ForceFlush implements [sdktrace.SpanProcessor].
func (*spanBuffer) ForceFlush(context.Context) error { return nil }

// newBufferedSpan copies a span. Its texts are cut and made printable, like those of peers.
func newBufferedSpan(s sdktrace.ReadOnlySpan) *bufferedSpan {
	status := s.Status()
	span := &bufferedSpan{start: s.StartTime(), row: report.Span{
		SpanID: s.SpanContext().SpanID().String(), Name: clip(s.Name(), maxText), Kind: s.SpanKind().String(),
		Seconds: s.EndTime().Sub(s.StartTime()).Seconds(), Status: status.Code.String(), StatusText: clip(status.Description, maxText),
	}}
	if parent := s.Parent().SpanID(); parent.IsValid() {
		span.row.Parent = parent.String()
	}
	attrs, events := s.Attributes(), s.Events()
	for _, kv := range attrs[:min(len(attrs), maxSpanAttributes)] {
		span.row.Attributes = append(span.row.Attributes, shownAttribute(kv))
	}
	for _, e := range events[:min(len(events), maxSpanEvents)] {
		span.row.Events = append(span.row.Events, report.SpanEvent{Name: clip(e.Name, maxName), Text: eventText(e.Attributes)})
		span.events = append(span.events, e.Time)
	}
	return span
}

// eventText returns the attributes of an event in one line.
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
	return clip(b.String(), maxText)
}

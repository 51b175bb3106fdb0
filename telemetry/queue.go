package telemetry

import (
	"context"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A queue knows what a batch processor of the SDK loses. When the queue of such a
// processor is full it drops spans, or the oldest log records, and tells nobody, so this
// one stands before it and lets in no more than fit.
type queue struct {
	exported, overflown, failed prometheus.Counter
	queued                      prometheus.Gauge

	watch   *watch
	size    int64
	waiting atomic.Int64 // also what is being exported
}

// queueMetrics names the metrics of a queue.
type queueMetrics struct{ exported, dropped, queued string }

// initialize sets the queue up; variable is that of the environment which has its size.
func (q *queue) initialize(w *watch, names queueMetrics, variable string, size int) {
	in := w.t.metrics
	q.exported, q.queued = in.counter(names.exported), in.gauge(names.queued)
	q.overflown, q.failed = in.counter(names.dropped, lostQueueFull), in.counter(names.dropped, lostExportFailed)
	q.watch, q.size = w, int64(size)
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		q.size = int64(n)
	}
}

// enter reports whether there is room for one more, and counts it.
func (q *queue) enter() bool {
	if q.waiting.Add(1) > q.size {
		q.waiting.Add(-1)
		q.overflown.Inc()
		return false
	}
	q.queued.Inc()
	return true
}

// leave counts n that were exported, or if err is not nil were lost.
func (q *queue) leave(n int, err error) {
	q.waiting.Add(int64(-n))
	q.queued.Sub(float64(n))
	if err == nil {
		q.exported.Add(float64(n))
	} else {
		q.failed.Add(float64(n))
	}
	q.watch.saw(err)
}

// A queueExporter is what the batch processor of a queue exports to.
type queueExporter[T any] struct {
	*queue
	export func(context.Context, []T) error
	next   interface{ Shutdown(context.Context) error }
}

// Export implements [sdklog.Exporter].
func (e queueExporter[T]) Export(ctx context.Context, items []T) error {
	err := e.watch.try(func() error { return e.export(ctx, items) })
	e.leave(len(items), err)
	return nil // seen; the SDK would only print it
}

// ForceFlush implements [sdklog.Exporter].
func (e queueExporter[T]) ForceFlush(ctx context.Context) error {
	return e.watch.try(func() error { return e.next.(sdklog.Exporter).ForceFlush(ctx) })
}

// Shutdown implements [sdklog.Exporter].
func (e queueExporter[T]) Shutdown(ctx context.Context) error {
	return e.watch.try(func() error { return e.next.Shutdown(ctx) })
}

// A spanQueue is a batch processor of spans that knows what it loses.
type spanQueue struct {
	sdktrace.SpanProcessor
	queue
}

func newSpanQueue(w *watch, exporter sdktrace.SpanExporter) *spanQueue {
	q := &spanQueue{}
	q.initialize(w, queueMetrics{MetricSpansExported, MetricSpansDropped, MetricSpansQueued},
		"OTEL_BSP_MAX_QUEUE_SIZE", sdktrace.DefaultMaxQueueSize)
	next := spanExporter{queueExporter[sdktrace.ReadOnlySpan]{&q.queue, exporter.ExportSpans, exporter}}
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(next, sdktrace.WithMaxQueueSize(int(q.size)))
	return q
}

// OnEnd implements [sdktrace.SpanProcessor].
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() && q.enter() {
		q.SpanProcessor.OnEnd(s)
	}
}

// A spanExporter exports spans.
type spanExporter struct {
	queueExporter[sdktrace.ReadOnlySpan]
}

// ExportSpans implements [sdktrace.SpanExporter].
func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	return e.Export(ctx, spans)
}

// A logQueue is a batch processor of log records that knows what it loses. When it is full
// it drops the latest records, not the oldest: only of those it can know.
type logQueue struct {
	sdklog.Processor
	queue
}

// defaultLogQueueSize is the SDK's, which has no name for it.
const defaultLogQueueSize = 2048

func newLogQueue(w *watch, exporter sdklog.Exporter) *logQueue {
	q := &logQueue{}
	q.initialize(w, queueMetrics{MetricLogRecordsExported, MetricLogRecordsDropped, MetricLogRecordsQueued},
		"OTEL_BLRP_MAX_QUEUE_SIZE", defaultLogQueueSize)
	next := queueExporter[sdklog.Record]{&q.queue, exporter.Export, exporter}
	q.Processor = sdklog.NewBatchProcessor(next, sdklog.WithMaxQueueSize(int(q.size)))
	return q
}

// OnEmit implements [sdklog.Processor].
func (q *logQueue) OnEmit(ctx context.Context, record *sdklog.Record) error {
	if !q.enter() {
		return nil
	}
	return q.Processor.OnEmit(ctx, record)
}

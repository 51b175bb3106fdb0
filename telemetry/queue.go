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

// A queue counts the losses of a batch processor of the SDK. When the queue of such a processor is
// full, it silently drops spans or the oldest log records. So this queue is in front of it and
// lets in only as many as fit.
type queue struct {
	exported, overflown, failed prometheus.Counter
	queued                      prometheus.Gauge

	watch   *watch
	size    int64
	waiting atomic.Int64 // including those that are being exported
}

// queueMetrics names the metrics of a queue.
type queueMetrics struct{ exported, dropped, queued string }

// initialize sets the queue up. variable is the environment variable with its size.
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

// leave counts n items as exported, or as lost if err is not nil.
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

// A queueExporter is between the batch processor of a queue and the exporter.
type queueExporter[T any] struct {
	*queue
	export func(context.Context, []T) error
	next   interface{ Shutdown(context.Context) error }
}

// Export implements [sdklog.Exporter].
func (e queueExporter[T]) Export(ctx context.Context, items []T) error {
	err := e.watch.try(func() error { return e.export(ctx, items) })
	e.leave(len(items), err)
	return nil // it is counted and logged; the SDK would only print it
}

// ForceFlush implements [sdklog.Exporter].
func (e queueExporter[T]) ForceFlush(ctx context.Context) error {
	return e.watch.try(func() error { return e.next.(sdklog.Exporter).ForceFlush(ctx) })
}

// Shutdown implements [sdklog.Exporter].
func (e queueExporter[T]) Shutdown(ctx context.Context) error {
	return e.watch.try(func() error { return e.next.Shutdown(ctx) })
}

// A spanQueue is a batch processor of spans that counts its losses.
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

// A logQueue is a batch processor of log records that counts its losses. When it is full, it
// drops the latest records, not the oldest, because it can count only those.
type logQueue struct {
	sdklog.Processor
	queue
}

// defaultLogQueueSize is the default of the SDK, which has no constant for it.
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

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
	queueHealth
	watch   *watch
	size    int64
	waiting atomic.Int64 // also what is being exported
}

// queueHealth holds the metrics of a queue.
type queueHealth struct {
	exported prometheus.Counter
	dropped  *prometheus.CounterVec
	queued   prometheus.Gauge
}

// initialize sets the queue up; variable is that of the environment which has its size.
func (q *queue) initialize(w *watch, h queueHealth, variable string, size int) {
	q.watch, q.queueHealth, q.size = w, h, int64(size)
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		q.size = int64(n)
	}
}

// enter reports whether there is room for one more, and counts it.
func (q *queue) enter() bool {
	if q.waiting.Add(1) > q.size {
		q.waiting.Add(-1)
		q.dropped.WithLabelValues(lostQueueFull).Inc()
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
		q.dropped.WithLabelValues(lostExportFailed).Add(float64(n))
	}
	q.watch.saw(err)
}

// A spanQueue is a batch processor of spans that knows what it loses.
type spanQueue struct {
	sdktrace.SpanProcessor
	queue
	exporter sdktrace.SpanExporter
}

func newSpanQueue(w *watch, exporter sdktrace.SpanExporter) *spanQueue {
	q := &spanQueue{exporter: exporter}
	q.initialize(w, w.t.metrics.health.spans, "OTEL_BSP_MAX_QUEUE_SIZE", sdktrace.DefaultMaxQueueSize)
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(spanQueueExporter{q}, sdktrace.WithMaxQueueSize(int(q.size)))
	return q
}

// OnEnd implements [sdktrace.SpanProcessor].
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() && q.enter() {
		q.SpanProcessor.OnEnd(s)
	}
}

// spanQueueExporter is what the batch processor of a spanQueue exports to.
type spanQueueExporter struct{ q *spanQueue }

// ExportSpans implements [sdktrace.SpanExporter].
func (e spanQueueExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.q.watch.try(func() error { return e.q.exporter.ExportSpans(ctx, spans) })
	e.q.leave(len(spans), err)
	return nil // seen; the SDK would only print it
}

// Shutdown implements [sdktrace.SpanExporter].
func (e spanQueueExporter) Shutdown(ctx context.Context) error {
	return e.q.watch.try(func() error { return e.q.exporter.Shutdown(ctx) })
}

// A logQueue is a batch processor of log records that knows what it loses. When it is full
// it drops the latest records, not the oldest: only of those it can know.
type logQueue struct {
	sdklog.Processor
	queue
	exporter sdklog.Exporter
}

// defaultLogQueueSize is the SDK's, which has no name for it.
const defaultLogQueueSize = 2048

func newLogQueue(w *watch, exporter sdklog.Exporter) *logQueue {
	q := &logQueue{exporter: exporter}
	q.initialize(w, w.t.metrics.health.logRecords, "OTEL_BLRP_MAX_QUEUE_SIZE", defaultLogQueueSize)
	q.Processor = sdklog.NewBatchProcessor(logQueueExporter{q}, sdklog.WithMaxQueueSize(int(q.size)))
	return q
}

// OnEmit implements [sdklog.Processor].
func (q *logQueue) OnEmit(ctx context.Context, record *sdklog.Record) error {
	if !q.enter() {
		return nil
	}
	return q.Processor.OnEmit(ctx, record)
}

// logQueueExporter is what the batch processor of a logQueue exports to.
type logQueueExporter struct{ q *logQueue }

// Export implements [sdklog.Exporter].
func (e logQueueExporter) Export(ctx context.Context, records []sdklog.Record) error {
	err := e.q.watch.try(func() error { return e.q.exporter.Export(ctx, records) })
	e.q.leave(len(records), err)
	return nil // seen; the SDK would only print it
}

// ForceFlush implements [sdklog.Exporter].
func (e logQueueExporter) ForceFlush(ctx context.Context) error {
	return e.q.watch.try(func() error { return e.q.exporter.ForceFlush(ctx) })
}

// Shutdown implements [sdklog.Exporter].
func (e logQueueExporter) Shutdown(ctx context.Context) error {
	return e.q.watch.try(func() error { return e.q.exporter.Shutdown(ctx) })
}

package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// ExportSpans exports the spans of requests that begin from now on, and all others, in batches until
// [Telemetry.Shutdown], which also shuts the exporter down. Exported and dropped spans are counted, and failures are logged
// ([MetricSpansExported] and others). Panics of the exporter are contained.
//
// It reports whether it took the exporter. It takes none if spans are exported already, with a
// provider of [WithTracerProvider], after the shutdown, and for disabled telemetry. Package
// telemetry/otlp starts the exporters of the OTEL_* variables.
func (t *Telemetry) ExportSpans(exporter sdktrace.SpanExporter) (taken bool) {
	return t.export(environment.Traces, func() bool { return t.owned != nil }, func() {
		t.process(newSpanQueue(t.newWatch(environment.Traces), exporter))
	})
}

// ExportLogs exports the log records that are enabled in a handler of [Telemetry.LogHandler].
// Otherwise it works like ExportSpans.
func (t *Telemetry) ExportLogs(exporter sdklog.Exporter) (taken bool) {
	return t.export(environment.Logs, func() bool { return true }, func() {
		provider := sdklog.NewLoggerProvider(sdklog.WithResource(t.resource),
			sdklog.WithProcessor(newLogQueue(t.newWatch(environment.Logs), exporter)))
		t.stops = append(t.stops, provider.Shutdown)
		var root slog.Handler = otelslog.NewHandler(scopeName, otelslog.WithLoggerProvider(provider))
		t.logs.Store(&root)
	})
}

// export begins the export of a signal and reports true, unless something refuses it. It asks possible last, and
// only if nothing else refuses the export, so that possible may claim something itself. begin runs with t.mu held:
// a shutdown stops what it begins, or has happened before, and then nothing begins.
func (t *Telemetry) export(s environment.Signal, possible func() bool, begin func()) (taken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.Enabled() || t.stopped || t.exported[s] || !possible() {
		return false
	}
	if t.exported == nil {
		t.exported = map[environment.Signal]bool{}
	}
	t.exported[s] = true
	begin()
	return true
}

// Shutdown flushes and stops the exports. It returns when ctx ends at the latest. Later spans,
// log records and metrics are not exported. A second call does nothing.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	t.mu.Lock()
	stops := t.stops
	if !t.stopped && t.owned != nil {
		stops = append(stops, t.owned.Shutdown)
	}
	t.stops, t.stopped = nil, true
	unregister := t.unregister
	t.unregister = nil
	t.mu.Unlock()
	t.live.shutdown()
	if unregister != nil {
		unregister()
	}
	t.logs.Store(nil)
	errs := make([]error, len(stops))
	var all sync.WaitGroup
	for i, stop := range stops { // at the same time: one endpoint that hangs must not use up the time of the others
		all.Go(func() {
			if err := stop(ctx); err != nil {
				errs[i] = fmt.Errorf("telemetry: shutdown: %w", err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// A watch counts the failures of one signal's exporter. It logs the first failure in a row and the
// recovery.
type watch struct {
	t        *Telemetry
	signal   environment.Signal
	counter  prometheus.Counter
	failures atomic.Int64 // in a row
}

func (t *Telemetry) newWatch(s environment.Signal) *watch {
	return &watch{t: t, signal: s, counter: t.metrics.counter(MetricExportFailures, string(s))}
}

func (w *watch) saw(err error) {
	switch {
	case err == nil:
		if n := w.failures.Swap(0); n > 0 {
			w.t.complain("telemetry.export_recovered", "signal", w.signal, "failures", n)
		}
	default:
		w.counter.Inc()
		if w.failures.Add(1) == 1 {
			w.t.complain("telemetry.export_failed", "signal", w.signal, "error", err)
		}
	}
}

// try calls an exporter and returns its panic as an error. The exporter may be the program's
// (OTEL_*_EXPORTER may name it), and runs on a goroutine without another guard.
func (w *watch) try(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			w.t.panicked("exporter of "+string(w.signal), v, true)
			err = fmt.Errorf("the exporter has panicked: %v", v)
		}
	}()
	return f()
}

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

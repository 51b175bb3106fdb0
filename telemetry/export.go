package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// ExportSpans exports the spans in batches until [Telemetry.Shutdown], which also shuts the
// exporter down. Exported and dropped spans are counted, and failures are logged
// ([MetricSpansExported] and others). Panics of the exporter are contained.
//
// It reports whether it took the exporter. It takes none if spans are exported already, with a
// provider of [WithTracerProvider], after the shutdown, and for disabled telemetry. Package
// telemetry/otlp starts the exporters of the OTEL_* variables.
func (t *Telemetry) ExportSpans(exporter sdktrace.SpanExporter) (taken bool) {
	if !t.claim(environment.Traces, t.owned != nil) {
		return false
	}
	t.owned.RegisterSpanProcessor(newSpanQueue(t.newWatch(environment.Traces), exporter))
	return true
}

// ExportLogs exports the log records that are enabled in a handler of [Telemetry.LogHandler].
// Otherwise it works like ExportSpans.
func (t *Telemetry) ExportLogs(exporter sdklog.Exporter) (taken bool) {
	if !t.claim(environment.Logs, true) {
		return false
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(t.resource),
		sdklog.WithProcessor(newLogQueue(t.newWatch(environment.Logs), exporter)))
	t.stopWith(provider.Shutdown)
	var root slog.Handler = otelslog.NewHandler(scopeName, otelslog.WithLoggerProvider(provider))
	t.logs.Store(&root)
	return true
}

// claim reports whether the export of a signal may begin, and marks it as begun.
func (t *Telemetry) claim(s environment.Signal, possible bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.Enabled() || t.stopped || !possible || t.exported[s] {
		return false
	}
	if t.exported == nil {
		t.exported = map[environment.Signal]bool{}
	}
	t.exported[s] = true
	return true
}

// stopWith makes the shutdown call stop.
func (t *Telemetry) stopWith(stop func(context.Context) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stops = append(t.stops, stop)
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

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
// exporter down. What becomes of them is counted and logged ([MetricSpansExported] and
// others); panics of the exporter are contained. It reports whether the
// exporter was taken: it is not if spans are exported already, if they belong to the owner of
// a provider that was given ([WithTracerProvider]), after the shutdown, and by disabled
// telemetry. Package telemetry/otlp starts the exporters that OTEL_* variables ask for.
func (t *Telemetry) ExportSpans(exporter sdktrace.SpanExporter) (taken bool) {
	if !t.claim(environment.Traces, t.owned != nil) {
		return false
	}
	t.owned.RegisterSpanProcessor(newSpanQueue(t.newWatch(environment.Traces), exporter))
	return true
}

// ExportLogs exports the log records that a handler of [Telemetry.LogHandler] lets pass, as
// ExportSpans does spans.
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

// claim reports whether the export of a signal may begin, and remembers that it has.
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

// stopWith has the shutdown call stop.
func (t *Telemetry) stopWith(stop func(context.Context) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stops = append(t.stops, stop)
}

// Shutdown flushes and stops what is exported, within ctx. Later spans, log
// records and metrics are not exported. A second call does nothing.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	t.mu.Lock()
	stops := t.stops
	if !t.stopped && t.owned != nil {
		stops = append(stops, t.owned.Shutdown)
	}
	t.stops, t.stopped = nil, true
	forget := t.forget
	t.forget = nil
	t.mu.Unlock()
	t.live.shutdown()
	if forget != nil {
		forget()
	}
	t.logs.Store(nil)
	errs := make([]error, len(stops))
	var all sync.WaitGroup
	for i, stop := range stops { // at the same time, so that one endpoint that hangs takes no other's
		all.Go(func() {
			if err := stop(ctx); err != nil {
				errs[i] = fmt.Errorf("telemetry: shutdown: %w", err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

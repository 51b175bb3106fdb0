package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

// Start attaches the exporters that the standard environment asks for. A signal is
// exported if OTEL_<SIGNAL>_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_<SIGNAL>_ENDPOINT is set; with none of them, and with
// OTEL_SDK_DISABLED=true, nothing is exported. The metrics exporter "prometheus"
// needs nothing to be started: see [Telemetry.MetricsHandler]. A signal that
// cannot be exported is in the error; the others are exported all the same.
//
// Of several values that share a registry, the first one to be started pushes its
// metrics. Exporters live until [Telemetry.Shutdown], not until ctx is done.
func (t *Telemetry) Start(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.started || t.stopped || t.metrics == nil || sdkDisabled() {
		return nil
	}
	t.started = true
	var errs []error
	for _, s := range []struct {
		signal signal
		start  func(context.Context) error
	}{
		{signalTraces, t.startTraces}, {signalMetrics, t.startMetrics}, {signalLogs, t.startLogs},
	} {
		if s.signal.exporter() == exporterNone {
			continue
		}
		if err := s.start(ctx); err != nil {
			errs = append(errs, fmt.Errorf("telemetry: export of %s: %w", s.signal, err))
		}
	}
	return errors.Join(errs...)
}

// Shutdown flushes and stops what Start has started, within ctx. Later spans, log
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

func (t *Telemetry) startTraces(ctx context.Context) error {
	if t.owned == nil {
		return nil // the provider's owner exports
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return err
	}
	t.owned.RegisterSpanProcessor(newSpanQueue(t.newWatch(signalTraces), exporter))
	return nil
}

func (t *Telemetry) startLogs(ctx context.Context) error {
	exporter, err := autoexport.NewLogExporter(ctx)
	if err != nil {
		return err
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(t.resource),
		sdklog.WithProcessor(newLogQueue(t.newWatch(signalLogs), exporter)))
	t.stops = append(t.stops, provider.Shutdown)
	t.logs.Store(otelslog.NewHandler(scopeName, otelslog.WithLoggerProvider(provider)))
	return nil
}

// A watch counts the failures of one signal's exporter, and logs when they begin
// and when they end, but not each of them.
type watch struct {
	t        *Telemetry
	signal   signal
	counter  prometheus.Counter
	failures atomic.Int64 // in a row
}

func (t *Telemetry) newWatch(s signal) *watch {
	return &watch{t: t, signal: s, counter: t.metrics.health.failures.WithLabelValues(string(s))}
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

// try calls an exporter, which may be a user's (OTEL_*_EXPORTER names what the program has
// registered), on a goroutine that nobody else guards. Its panic is an error.
func (w *watch) try(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			w.t.panicked("exporter of "+string(w.signal), v, true)
			err = fmt.Errorf("the exporter has panicked: %v", v)
		}
	}()
	return f()
}

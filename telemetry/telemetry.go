package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// Telemetry records what happens to requests. Make one with [New] (or
// [Disabled]), give it to our servers (server.WithTelemetry), or call [Telemetry.Begin] from
// any other one, and call [Telemetry.Shutdown] when the process ends. All methods may be
// called from any goroutine.
type Telemetry struct {
	config                            // what New was given, or its defaults
	metrics  *instruments             // nil: disabled
	silent   bool                     // the provider makes nothing: telemetry or the SDK is disabled
	owned    *sdktrace.TracerProvider // the provider, if New has made it
	resource *resource.Resource
	live     *live
	recent   *recents
	forget   func() // takes the span keeper off a provider that is not ours

	// Of operations.
	tracer   trace.Tracer
	sampling *sampling                    // nil: the tracer decides
	spanKey  any                          // under which a context has its span
	copies   bool                         // the provider is the SDK's, whose spans copy attributes
	clients  *clientNames                 // nil: disabled
	tenants  *tenants                     // nil: metrics have no such label
	watch    atomic.Pointer[handlerWatch] // nil: nobody watches
	wire     atomic.Pointer[wireLabels]   // those that were wanted last
	tracked  *tracker
	series   growingMap[seriesKey, *Series]

	// logs is where log records also go once their export has started.
	logs atomic.Pointer[slog.Handler]

	mu       sync.Mutex // guards the rest
	sources  sources
	exported map[environment.Signal]bool // those whose export has begun
	stopped  bool
	stops    []func(context.Context) error
}

// contain is deferred where what users have plugged in may panic on a goroutine that
// nobody else guards: the panic is counted and logged, and costs what was to be recorded.
func (t *Telemetry) contain(what string) {
	if v := recover(); v != nil {
		t.panicked(what, v, true)
	}
}

// panicked counts a panic that was contained and, if that is wanted, complains of it.
func (t *Telemetry) panicked(what string, value any, complain bool) {
	t.count(MetricPanics)
	if complain {
		t.complain("telemetry.panic", "where", what, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	}
}

// Enabled reports whether anything is recorded: false for [Disabled] telemetry.
func (t *Telemetry) Enabled() bool { return t.metrics != nil }

// Count counts one in a counter of [Catalogue] for which there is no other way in, such as
// [MetricLimitReached] or [MetricFlightSnapshots]. It ignores every other
// name, and label values that are not in the closed set of their label.
func (t *Telemetry) Count(metric string, labels ...string) {
	if t.metrics == nil {
		return
	}
	m := t.metrics.rows[metric]
	if !m.public || len(m.Labels) != len(labels) {
		return
	}
	for i, l := range m.Labels {
		if l.Values != nil && !slices.Contains(l.Values, labels[i]) {
			return
		}
	}
	t.metrics.count(metric, labels...)
}

// count counts one in any counter, unless telemetry is disabled.
func (t *Telemetry) count(metric string, labels ...string) {
	if t.metrics != nil {
		t.metrics.count(metric, labels...)
	}
}

// Registry returns the registry that the metrics are recorded into.
func (t *Telemetry) Registry() *prometheus.Registry { return t.registry }

// snapshots asks every source for one.
func (t *Telemetry) snapshots() []*Snapshot {
	t.mu.Lock()
	list := t.sources.list()
	t.mu.Unlock()
	snaps := make([]*Snapshot, len(list))
	for i, src := range list {
		snaps[i] = src.Snapshot()
	}
	return snaps
}

// SetGlobal makes the tracer provider and the propagator those of the process, so
// that spans which users start in their handlers join ours. It touches no other global of
// OpenTelemetry. Telemetry that makes no spans, because it is [Disabled] or because of
// OTEL_SDK_DISABLED, leaves the process the providers that it has.
func (t *Telemetry) SetGlobal() {
	if t.silent {
		return
	}
	otel.SetTracerProvider(t.provider)
	otel.SetTextMapPropagator(t.propagator)
}

// complain logs a trouble of telemetry itself. That the logger panics is only counted.
func (t *Telemetry) complain(msg string, args ...any) {
	defer func() {
		if v := recover(); v != nil {
			t.panicked("log handler", v, false)
		}
	}()
	logger := t.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.WarnContext(context.WithValue(context.Background(), ownComplaint{}, true), msg, args...)
}

// ownComplaint marks the context of log records about telemetry itself. They are
// not exported: a collector that does not answer would get the news of it.
type ownComplaint struct{}

// AddSource adds a server to those whose counters are collected and whose requests are
// shown. After remove its requests are shown no more, and its counters stay as they
// were then.
func (t *Telemetry) AddSource(src Source) (remove func()) {
	t.mu.Lock()
	hide := t.sources.add(src)
	t.mu.Unlock()
	uncollect := func() {}
	if t.metrics != nil {
		uncollect = t.metrics.snapshots.addSource(src)
	}
	return sync.OnceFunc(func() {
		t.mu.Lock()
		hide()
		t.mu.Unlock()
		uncollect()
	})
}

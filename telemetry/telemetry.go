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

	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// Telemetry records requests. Make one with [New] or [Disabled]. Give it to our servers with
// server.WithTelemetry, or call [Telemetry.Begin] from any other server. Call
// [Telemetry.Shutdown] when the process ends. It is safe for concurrent use.
type Telemetry struct {
	config                              // the options of New, or their defaults
	metrics    *instruments             // nil: disabled
	silent     bool                     // the provider makes no spans: telemetry or the SDK is disabled
	owned      *sdktrace.TracerProvider // the provider if New made it
	resource   *resource.Resource
	live       *live
	recent     *recentTraces
	changes    *changes.Store
	search     changesPage
	unregister func() // removes the buffer of spans from the provider; nil if it was not added

	// Of operations.
	tracer    trace.Tracer
	sampling  *sampling                    // nil: the tracer decides
	spanKey   any                          // the key of the span in a context
	copies    bool                         // the provider is the SDK's, whose spans copy attributes
	clients   *clientNames                 // nil: disabled
	tenants   *tenants                     // nil: metrics have no such label
	watch     atomic.Pointer[handlerWatch] // nil: no watcher
	wire      atomic.Pointer[wireLabels]   // the latest ones
	tracked   *tracker
	questions questions
	exchanges exchangeEnds
	series    growingMap[seriesKey, *Series]

	// logs is the handler that exports log records; nil before their export.
	logs atomic.Pointer[slog.Handler]

	mu       sync.Mutex // guards the rest
	sources  sources
	exported map[environment.Signal]bool // the signals whose export has begun
	stopped  bool
	stops    []func(context.Context) error
}

// contain is deferred around the user's extensions on goroutines without another guard. It counts
// and logs their panics.
func (t *Telemetry) contain(what string) {
	if v := recover(); v != nil {
		t.panicked(what, v, true)
	}
}

// panicked counts a contained panic, and logs it if complain is true.
func (t *Telemetry) panicked(what string, value any, complain bool) {
	t.count(MetricPanics)
	if complain {
		t.complain("telemetry.panic", "where", what, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	}
}

// Enabled reports whether anything is recorded: false for [Disabled] telemetry.
func (t *Telemetry) Enabled() bool { return t.metrics != nil }

// Count adds one to a counter of [Catalogue] that no other method counts, such as
// [MetricLimitReached] or [MetricFlightSnapshots]. It ignores all other names, and label values
// outside of the closed set of their label.
func (t *Telemetry) Count(metric string, labels ...string) {
	if t.metrics == nil {
		return
	}
	m := t.metrics.rows[metric]
	if m == nil || !m.public || len(m.Labels) != len(labels) {
		return
	}
	for i, l := range m.Labels {
		if l.Values != nil && !slices.Contains(l.Values, labels[i]) {
			return
		}
	}
	t.metrics.count(metric, labels...)
}

// count adds one to any counter, unless telemetry is disabled.
func (t *Telemetry) count(metric string, labels ...string) {
	if t.metrics != nil {
		t.metrics.count(metric, labels...)
	}
}

// Registry returns the registry of the metrics.
func (t *Telemetry) Registry() *prometheus.Registry { return t.registry }

// snapshots returns a snapshot of every source.
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

// SetGlobal makes the tracer provider and the propagator the global ones of OpenTelemetry, so that
// spans of handlers join ours. It changes no other global value. It does nothing if telemetry is
// [Disabled] or OTEL_SDK_DISABLED is set.
func (t *Telemetry) SetGlobal() {
	if t.silent {
		return
	}
	otel.SetTracerProvider(t.provider)
	otel.SetTextMapPropagator(t.propagator)
}

// complain logs a problem of telemetry itself. A panic of the logger is counted and not logged.
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

// ownComplaint marks the context of log records about telemetry itself. They are not exported,
// because they may be about the export.
type ownComplaint struct{}

// AddSource adds a server. Its requests are shown and its counters are collected. After remove its
// requests are not shown any more, and its counters keep their last values.
func (t *Telemetry) AddSource(src Source) (remove func()) {
	t.mu.Lock()
	removeShown := t.sources.add(src)
	t.mu.Unlock()
	removeCollected := func() {}
	if t.metrics != nil {
		removeCollected = t.metrics.snapshots.addSource(src)
	}
	return sync.OnceFunc(func() {
		t.mu.Lock()
		removeShown()
		t.mu.Unlock()
		removeCollected()
	})
}

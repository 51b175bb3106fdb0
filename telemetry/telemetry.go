package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// scopeName is the instrumentation scope of what Vitrine records.
const scopeName = "github.com/vitrine-mcp/vitrine"

// Telemetry records what happens to requests. Make one with [New] (or
// [Disabled]), give its observer to the servers, and call [Telemetry.Start] when
// the process starts and [Telemetry.Shutdown] when it ends. All methods may be
// called from any goroutine.
type Telemetry struct {
	logger     *slog.Logger // nil: slog.Default at use
	registry   *prometheus.Registry
	metrics    *instruments // nil: disabled
	propagator propagation.TextMapPropagator
	provider   trace.TracerProvider
	silent     bool                     // the provider makes nothing: telemetry or the SDK is disabled
	owned      *sdktrace.TracerProvider // the provider, if New has made it
	resource   *resource.Resource
	observer   session.Observer
	now        func() time.Time
	observed   *observer // the same; nil: disabled
	live       *live
	forget     func() // takes the span keeper off a provider that is not ours

	// logs is where log records also go once their export has started.
	logs atomic.Pointer[otelslog.Handler]

	mu      sync.Mutex // guards the rest
	sources sources
	started bool
	stopped bool
	stops   []func(context.Context) error
}

// A Source can say what is in flight: the core of a server.
type Source interface {
	// Snapshot returns one consistent moment of the source.
	Snapshot() *session.Snapshot
}

// New sets telemetry up. It reads the standard environment (sampler, span limits,
// resource, propagators), but exports nothing before [Telemetry.Start]. It fails
// if the registry already holds other metrics under our names.
//
// With OTEL_SDK_DISABLED=true there are no spans and no exports; requests are counted and
// shown all the same. A provider of [WithTracerProvider] is used even then: the variable
// is for the SDK that New would set up, and to the spans of others in that provider those
// of requests would be missing.
func New(opts ...Option) (*Telemetry, error) {
	var cfg config
	for _, o := range opts {
		o.apply(&cfg)
	}
	t := &Telemetry{
		logger: cfg.logger, registry: cfg.registry, propagator: cfg.propagator, provider: cfg.provider, now: cfg.now,
	}
	if t.now == nil {
		t.now = time.Now
	}
	if t.registry == nil {
		t.registry = prometheus.NewRegistry()
		t.registry.MustRegister(
			collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	var err error
	if t.metrics, err = registerInstruments(t.registry); err != nil {
		return nil, err
	}
	if t.propagator == nil {
		if t.propagator, err = propagatorFromEnv(); err != nil {
			t.complain("telemetry.propagators", "error", err)
		}
	}
	if t.resource, err = newResource(&cfg); err != nil {
		t.complain("telemetry.resource", "error", err)
	}
	var sampling *sampling
	switch {
	case t.provider != nil: // its owner's, who heeds OTEL_SDK_DISABLED or not
	case sdkDisabled():
		t.provider, t.silent = noop.NewTracerProvider(), true
	default:
		t.owned, sampling = t.newOwnProvider()
		t.provider = t.owned
	}
	t.observed = newObserver()
	_, t.observed.copies = t.provider.(*sdktrace.TracerProvider)
	if key, ok := learnSpanKey(trace.SpanFromContext); ok {
		t.observed.spanKey, t.observed.sampling = key, sampling
	}
	t.observed.metrics, t.observed.propagator, t.observed.untrusted = t.metrics, t.propagator, cfg.untrusted
	t.observed.payloads, t.observed.now = cfg.payloads.orEnvironment(), t.now
	t.observed.complain, t.observed.panicked = t.complain, t.panicked
	t.observed.recent = newRecents(cfg.recent, t.metrics.health, t.now)
	t.observed.tracer = t.tracer()
	t.observer = t.observed
	t.live = newLive(t, cfg.liveListeners)
	t.keepSpans()
	return t, nil
}

// keepSpans attaches the keeper of spans to the provider, if that is possible.
func (t *Telemetry) keepSpans() {
	provider, ok := t.provider.(interface {
		RegisterSpanProcessor(sdktrace.SpanProcessor)
		UnregisterSpanProcessor(sdktrace.SpanProcessor)
	})
	if !ok || t.observed.recent.bounds.Traces < 0 {
		return
	}
	keeper := t.observed.recent.spans
	provider.RegisterSpanProcessor(keeper)
	t.forget = func() { provider.UnregisterSpanProcessor(keeper) }
}

// Disabled returns telemetry that records and exports nothing. Its requests
// handler still shows what is in flight.
func Disabled() *Telemetry {
	t := &Telemetry{
		registry: prometheus.NewRegistry(), observer: session.NopObserver{}, now: time.Now,
		provider: noop.NewTracerProvider(), silent: true, propagator: propagation.NewCompositeTextMapPropagator(),
	}
	t.live = newLive(t, 0)
	return t
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
	if t.metrics != nil {
		t.metrics.counters.count(MetricPanics)
	}
	if complain {
		t.complain("telemetry.panic", "where", what, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	}
}

// ContainPanic is deferred around what a request's middleware has been given by users
// only to record something. Its panic is counted and logged, and the request goes on.
func ContainPanic(r *session.Request, what string) {
	v := recover()
	if v == nil {
		return
	}
	if ob := observationOf(r); ob != nil {
		ob.observer.panicked(what, v, true)
	}
}

// tracer returns the tracer of all that Vitrine records.
func (t *Telemetry) tracer() trace.Tracer {
	return t.provider.Tracer(scopeName, trace.WithInstrumentationVersion(buildVersion()))
}

// KnowNotification names a notification, a constant of the program, in spans and
// metrics. All but those of the protocol and those that are known are "_OTHER".
func (t *Telemetry) KnowNotification(method string) {
	if t.metrics != nil {
		t.metrics.knowNotification(method)
	}
}

// LimitReached counts that a limit took effect which no core watches
// ([MetricLimitReached]); a name that is not one of its values counts as nothing.
func (t *Telemetry) LimitReached(name string) {
	if t.metrics != nil && slices.Contains(session.LimitNames(), name) {
		t.metrics.counters.count(MetricLimitReached, name)
	}
}

// Observer returns what a server's core reports to.
func (t *Telemetry) Observer() session.Observer { return t.observer }

// Registry returns the registry that the metrics are recorded into.
func (t *Telemetry) Registry() *prometheus.Registry { return t.registry }

// AddSource adds a server's core to those whose counters are collected and whose
// requests are shown. After remove its requests are shown no more, and its
// counters stay as they were then.
func (t *Telemetry) AddSource(src Source) (remove func()) {
	t.mu.Lock()
	id := t.sources.add(src)
	t.mu.Unlock()
	forget := func() {}
	if t.metrics != nil {
		forget = t.metrics.counters.addSource(src)
	}
	return sync.OnceFunc(func() {
		t.mu.Lock()
		t.sources.remove(id)
		t.mu.Unlock()
		forget()
	})
}

// snapshots asks every source for one.
func (t *Telemetry) snapshots() []*session.Snapshot {
	t.mu.Lock()
	list := t.sources.list()
	t.mu.Unlock()
	snaps := make([]*session.Snapshot, len(list))
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

// sources is a set of sources in the order of their addition.
type sources struct {
	next int
	all  []numberedSource
}

type numberedSource struct {
	id  int
	src Source
}

func (s *sources) add(src Source) (id int) {
	s.next++
	s.all = append(s.all, numberedSource{s.next, src})
	return s.next
}

func (s *sources) remove(id int) {
	for i, n := range s.all {
		if n.id == id {
			s.all = append(s.all[:i:i], s.all[i+1:]...)
			return
		}
	}
}

func (s *sources) list() []Source {
	list := make([]Source, len(s.all))
	for i, n := range s.all {
		list[i] = n.src
	}
	return list
}

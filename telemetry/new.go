package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// New sets telemetry up. It reads the standard environment (sampler, span limits,
// resource, propagators), but exports nothing by itself: see package telemetry/otlp. It fails
// if the registry already holds other metrics under our names.
//
// With OTEL_SDK_DISABLED=true there are no spans and no exports; requests are counted and
// shown all the same. A provider of [WithTracerProvider] is used even then: the variable
// is for the SDK that New would set up, and to the spans of others in that provider those
// of requests would be missing.
func New(opts ...Option) (*Telemetry, error) {
	t := &Telemetry{}
	for _, o := range opts {
		o.apply(&t.config)
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
	if t.metrics, err = registerInstruments(t.registry, t.maxTenants > 0); err != nil {
		return nil, err
	}
	if t.propagator == nil {
		if t.propagator, err = propagatorFromEnv(); err != nil {
			t.complain("telemetry.propagators", "error", err)
		}
	}
	if t.resource, err = newResource(&t.config); err != nil {
		t.complain("telemetry.resource", "error", err)
	}
	switch {
	case t.provider != nil: // its owner's, who heeds OTEL_SDK_DISABLED or not
	case environment.SDKDisabled():
		t.provider, t.silent = noop.NewTracerProvider(), true
	default:
		t.owned, t.sampling = t.newOwnProvider()
		t.provider = t.owned
	}
	t.tracer = t.provider.Tracer(scopeName, trace.WithInstrumentationVersion(readBuild().version))
	_, t.copies = t.provider.(*sdktrace.TracerProvider)
	var known bool
	if t.spanKey, known = learnSpanKey(trace.SpanFromContext); !known {
		t.sampling = nil
	}
	t.payloads, t.clients = t.payloads.orEnvironment(), newClientNames()
	t.tenants, t.recent = newTenants(t.maxTenants, t.metrics), newRecents(t.keep, t.metrics, t.now)
	t.tracked = newTracker(func(src Source) { t.AddSource(src) })
	t.wire.Store(&wireLabels{})
	t.live = newLive(t, t.liveListeners)
	t.keepSpans()
	return t, nil
}

// keepSpans attaches the keeper of spans to the provider, if that is possible.
func (t *Telemetry) keepSpans() {
	provider, ok := t.provider.(interface {
		RegisterSpanProcessor(sdktrace.SpanProcessor)
		UnregisterSpanProcessor(sdktrace.SpanProcessor)
	})
	if !ok || t.recent.bounds.Traces < 0 {
		return
	}
	keeper := t.recent.spans
	provider.RegisterSpanProcessor(keeper)
	t.forget = func() { provider.UnregisterSpanProcessor(keeper) }
}

// Disabled returns telemetry that records and exports nothing. Its requests
// handler still shows what is in flight.
func Disabled() *Telemetry {
	t := &Telemetry{silent: true, config: config{
		registry: prometheus.NewRegistry(), now: time.Now,
		provider: noop.NewTracerProvider(), propagator: propagation.NewCompositeTextMapPropagator(),
	}}
	t.live = newLive(t, 0)
	return t
}

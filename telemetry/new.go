package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// New makes a Telemetry. It reads the standard environment (sampler, span limits, resource,
// propagators) and starts no exports; see package telemetry/otlp. It fails if the registry has
// other metrics with our names, and for a key of [WithPseudonyms] that can be guessed.
//
// With OTEL_SDK_DISABLED=true there are no spans and no exports. Requests are still counted and
// shown. A provider of [WithTracerProvider] is used even then, because the variable is for the
// SDK that New sets up.
func New(opts ...Option) (*Telemetry, error) {
	t := &Telemetry{}
	for _, o := range opts {
		o.apply(&t.config)
	}
	if err := t.checkPseudonymKey(); err != nil {
		return nil, err
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
	case t.provider != nil: // its owner decides about OTEL_SDK_DISABLED
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
	t.tenants, t.recent = newTenants(t.maxTenants, t.metrics), newRecentTraces(t.bounds, t.metrics, t.now)
	t.changes = changes.New(t.recent.bounds.ChangeBytes)
	t.metrics.snapshots.addSource(changesSource{t})
	t.tracked = newTracker(func(src Source) { t.AddSource(src) })
	t.wire.Store(&wireLabels{})
	t.live = newLive(t, t.liveListeners)
	t.bufferSpans()
	return t, nil
}

// bufferSpans adds the buffer of spans to the provider, if the provider takes span processors.
func (t *Telemetry) bufferSpans() {
	provider, ok := t.provider.(interface {
		RegisterSpanProcessor(sdktrace.SpanProcessor)
		UnregisterSpanProcessor(sdktrace.SpanProcessor)
	})
	if !ok || t.recent.bounds.Traces < 0 {
		return
	}
	buffer := t.recent.spans
	provider.RegisterSpanProcessor(buffer)
	t.unregister = func() { provider.UnregisterSpanProcessor(buffer) }
}

// Disabled returns a Telemetry that records and exports nothing. Its RequestsHandler still shows
// the requests in flight.
func Disabled() *Telemetry {
	t := &Telemetry{silent: true, config: config{
		registry: prometheus.NewRegistry(), now: time.Now,
		provider: noop.NewTracerProvider(), propagator: propagation.NewCompositeTextMapPropagator(),
	}}
	t.live = newLive(t, 0)
	return t
}

package telemetry

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// An Option changes how [New] sets telemetry up.
type Option interface{ apply(*config) }

type config struct {
	service, version string
	registry         *prometheus.Registry
	provider         trace.TracerProvider
	propagator       propagation.TextMapPropagator
	untrusted        bool
	payloads         payloads
	now              func() time.Time
	logger           *slog.Logger
	keep             Recent
	liveListeners    int
	// pseudonymKey is under which spans name principals; nil: by their subjects.
	pseudonymKey []byte
	maxTenants   int
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// WithService names the service in what is exported (service.name and
// service.version), unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES do.
func WithService(name, version string) Option {
	return optionFunc(func(c *config) { c.service, c.version = name, version })
}

// WithRegistry records the metrics into an existing registry. The default is a
// registry of its own, with the collectors for the Go runtime and the process.
// Several values of [Telemetry] may share one registry: they then feed the same
// metrics.
func WithRegistry(r *prometheus.Registry) Option {
	return optionFunc(func(c *config) { c.registry = r })
}

// WithTracerProvider makes spans with an existing provider. Then
// [Telemetry.ExportSpans] takes no exporter: the owner of the provider decides what it
// exports, and what OTEL_SDK_DISABLED means to it.
func WithTracerProvider(p trace.TracerProvider) Option {
	return optionFunc(func(c *config) { c.provider = p })
}

// WithPropagator reads the caller's trace context from params._meta with p. The
// default is what OTEL_PROPAGATORS says: of its names, "tracecontext", "baggage"
// and "none" are known, because _meta has keys for no others.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return optionFunc(func(c *config) { c.propagator = p })
}

// WithUntrustedParents makes every request that comes with a trace context begin
// a trace of its own, linked to the caller's. Baggage is not taken over. Use it
// where strangers call: otherwise they choose trace ids and sampling.
func WithUntrustedParents() Option {
	return optionFunc(func(c *config) { c.untrusted = true })
}

// WithClock sets the clock by which telemetry itself tells the time: when exemplars were
// taken, how long notifications and sessions took, when a snapshot was rendered, and how long
// the slowest requests are kept. The default is [time.Now]. Requests are timed by the server.
func WithClock(now func() time.Time) Option {
	return optionFunc(func(c *config) { c.now = now })
}

// WithLogger sets where telemetry reports its own troubles, such as a collector
// that does not answer. The default is [slog.Default] at the time of the report.
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(c *config) { c.logger = l })
}

// WithRecent bounds what is kept of requests that have ended; see
// [Telemetry.TracesHandler].
func WithRecent(r Recent) Option { return optionFunc(func(c *config) { c.keep = r }) }

// WithLiveListeners bounds how many streams of live frames may be open at once
// (live_listeners); see [Telemetry.LiveHandler]. The default is 16, and holds for 0.
func WithLiveListeners(n int) Option { return optionFunc(func(c *config) { c.liveListeners = n }) }

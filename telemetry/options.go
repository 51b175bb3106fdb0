package telemetry

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
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

// A Redactor takes out of a tool's arguments, or of its result, what must not be
// recorded, and returns the rest, which need not be JSON; nothing at all leaves the
// attribute out. It must not change value. It is called on many goroutines, and only
// for spans that are recorded; if it panics, nothing is recorded and the panic is
// counted ([MetricPanics]).
type Redactor func(tool string, value jsontext.Value) jsontext.Value

// WithArguments puts the arguments of tool calls on their spans
// (gen_ai.tool.call.arguments) as far as redact leaves them; nil leaves them as they
// are. They are cut to 16 KiB. They may hold secrets, so that by default they are
// recorded only if OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is true.
func WithArguments(redact Redactor) Option {
	return optionFunc(func(c *config) { c.payloads.arguments, c.payloads.chosen = orWhole(redact), true })
}

// WithResults is [WithArguments] for the results of tools (gen_ai.tool.call.result).
func WithResults(redact Redactor) Option {
	return optionFunc(func(c *config) { c.payloads.results, c.payloads.chosen = orWhole(redact), true })
}

// captureContent is the variable by which the conventions for generative AI turn
// recording of contents on.
const captureContent = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

// payloads says what of the calls of tools is recorded; nil is nothing.
type payloads struct {
	arguments, results Redactor
	chosen             bool // by an option
}

// orEnvironment returns what the environment says where no option does.
func (p payloads) orEnvironment() payloads {
	if !p.chosen && environment.IsTrue(captureContent) {
		return payloads{arguments: whole, results: whole}
	}
	return p
}

func orWhole(redact Redactor) Redactor {
	if redact == nil {
		return whole
	}
	return redact
}

func whole(_ string, value jsontext.Value) jsontext.Value { return value }

// WithTenants gives the durations of operations (mcp.server.operation.duration) the label
// tenant, of the principal that calls: "" for callers without one. The first max tenants
// (max_tenants) have their names; all others are "_OTHER", and are counted as often as they
// call in vitrine_limit_reached_total. Without the option there is no such label. Several
// values of [Telemetry] that share a registry must agree.
func WithTenants(max int) Option { return optionFunc(func(c *config) { c.maxTenants = max }) }

// WithPseudonyms puts a pseudonym on spans (enduser.id) in place of the subject of a
// principal: the beginning of its HMAC-SHA-256 under the key, which is the same for the
// same issuer and subject, and tells them to nobody without the key. It should have 32
// random bytes. Logs and the pages for operators name the principal all the same.
func WithPseudonyms(key []byte) Option {
	return optionFunc(func(c *config) { c.pseudonymKey = key })
}

// Recent bounds what is kept in memory of requests that have ended. For a field that
// is zero the default holds; a negative Traces keeps nothing.
type Recent struct {
	// Traces is how many requests are kept of each class (recent_traces, 64), and four
	// times as many of the slowest.
	Traces int
	// Spans is how many spans are kept of one trace (recent_spans, 64).
	Spans int
	// TotalSpans is how many spans are kept in all (recent_total_spans, 2048). The ones
	// of the oldest traces go first.
	TotalSpans int
}

func (r Recent) withDefaults() Recent {
	return Recent{cmp.Or(r.Traces, 64), cmp.Or(r.Spans, 64), cmp.Or(r.TotalSpans, 2048)}
}

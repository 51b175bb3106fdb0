package telemetry

import (
	"bytes"
	"cmp"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/changes"
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
	bounds           Recent
	liveListeners    int
	// pseudonymKey is the key of pseudonyms on spans. Without pseudonyms spans have subjects.
	pseudonymKey []byte
	pseudonyms   bool
	maxTenants   int
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// WithService sets the name and version of the service in exports (service.name and
// service.version). OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have precedence.
func WithService(name, version string) Option {
	return optionFunc(func(c *config) { c.service, c.version = name, version })
}

// WithRegistry records the metrics into an existing registry. The default is a new registry with
// the collectors for the Go runtime and the process. Several values of [Telemetry] may share a
// registry. Then they share the metrics.
func WithRegistry(r *prometheus.Registry) Option {
	return optionFunc(func(c *config) { c.registry = r })
}

// WithTracerProvider makes spans with an existing provider. Its owner decides about exports and
// OTEL_SDK_DISABLED. [Telemetry.ExportSpans] takes no exporter then.
func WithTracerProvider(p trace.TracerProvider) Option {
	return optionFunc(func(c *config) { c.provider = p })
}

// WithPropagator reads the caller's trace context from params._meta with p. The default is
// OTEL_PROPAGATORS, with the names "tracecontext", "baggage" and "none". There are no other names
// because _meta has no other keys.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return optionFunc(func(c *config) { c.propagator = p })
}

// WithUntrustedParents begins a new trace for every request with a trace context, and links it to
// the caller's trace. It ignores baggage. Use it for callers that you do not trust. Otherwise
// they choose trace ids and sampling.
func WithUntrustedParents() Option {
	return optionFunc(func(c *config) { c.untrusted = true })
}

// WithClock sets the clock for the times of exemplars and pages, the durations of notifications
// and sessions, and the age of the slowest requests. The default is [time.Now]. The server
// measures the times of requests.
func WithClock(now func() time.Time) Option {
	return optionFunc(func(c *config) { c.now = now })
}

// WithLogger sets the logger for problems of telemetry itself, such as a collector that does not
// answer. The default is [slog.Default] at the time of the record.
func WithLogger(l *slog.Logger) Option {
	return optionFunc(func(c *config) { c.logger = l })
}

// WithRecent bounds the recent traces in memory; see [Telemetry.TracesHandler].
func WithRecent(r Recent) Option { return optionFunc(func(c *config) { c.bounds = r }) }

// WithLiveListeners bounds how many streams of live frames may be open at the same time
// (live_listeners); see [Telemetry.LiveHandler]. 0 stands for the default of 16.
func WithLiveListeners(n int) Option { return optionFunc(func(c *config) { c.liveListeners = n }) }

// A Redactor removes secrets from a tool's arguments or result and returns the rest, which need
// not be JSON. If it returns nothing, the span has no such attribute. It must not change value,
// and must be safe for concurrent use. It is called for recorded spans only. If it panics,
// nothing is recorded and the panic is counted ([MetricPanics]).
type Redactor func(tool string, value jsontext.Value) jsontext.Value

// WithArguments puts the arguments of tool calls on their spans (gen_ai.tool.call.arguments),
// after redact. A nil redact changes nothing. They are cut to 16 KiB. Arguments may have secrets:
// without this option they are recorded only if
// OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is true.
func WithArguments(redact Redactor) Option {
	return optionFunc(func(c *config) { c.payloads.arguments, c.payloads.chosen = orWhole(redact), true })
}

// WithResults is [WithArguments] for the results of tools (gen_ai.tool.call.result).
func WithResults(redact Redactor) Option {
	return optionFunc(func(c *config) { c.payloads.results, c.payloads.chosen = orWhole(redact), true })
}

// captureContent is the variable of the conventions for generative AI that turns the recording of
// contents on.
const captureContent = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"

// payloads has the redactors for the calls of tools. With nil nothing is recorded.
type payloads struct {
	arguments, results Redactor
	chosen             bool // by an option
}

// orEnvironment returns the setting of the environment if there is no option.
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

// WithTenants adds the label tenant to the durations of operations
// (mcp.server.operation.duration). It is the tenant of the caller's principal, and "" without
// one. The first max tenants (max_tenants) have their names. All others are "_OTHER", and their
// calls are counted in vitrine_limit_reached_total. Several values of [Telemetry] with one
// registry must all have this option or none.
func WithTenants(max int) Option { return optionFunc(func(c *config) { c.maxTenants = max }) }

// WithPseudonyms puts pseudonyms on spans (enduser.id) in place of the subjects of principals. A
// pseudonym is the beginning of the HMAC-SHA-256 of issuer and subject with the key. The key
// should have 32 random bytes. [New] refuses one of less than 16, or with the same byte everywhere,
// because who guesses the key can find out the subjects. Logs and the pages for operators still show the principal.
func WithPseudonyms(key []byte) Option {
	return optionFunc(func(c *config) { c.pseudonymKey, c.pseudonyms = bytes.Clone(key), true })
}

// Recent bounds the copies of ended requests in memory. The zero value of a field stands for its
// default. With a negative Traces there are no copies.
type Recent struct {
	// Traces is the number of requests of each class (recent_traces, 64). There are four times
	// as many of the slowest.
	Traces int
	// Spans is the number of spans of one trace (recent_spans, 64).
	Spans int
	// TotalSpans is the number of spans of all traces (recent_total_spans, 2048). Spans of the
	// oldest traces are removed first.
	TotalSpans int
	// ChangeBytes is the memory of the history in which [Telemetry.ChangesHandler] looks for changes, and of the search
	// (max_change_bytes, 8 MiB). It does not depend on Traces.
	ChangeBytes int
}

func (r Recent) withDefaults() Recent {
	return Recent{cmp.Or(r.Traces, 64), cmp.Or(r.Spans, 64), cmp.Or(r.TotalSpans, 2048), cmp.Or(r.ChangeBytes, changes.DefaultBytes)}
}

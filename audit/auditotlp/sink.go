// Package auditotlp sends the records of package audit as log records of OpenTelemetry. Only programs
// that import it link OpenTelemetry's SDK.
package auditotlp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/audit"
)

// EventName is the name of the event that each record is.
const EventName = "mcp.audit"

// scope is the instrumentation scope of the records.
const scope = "github.com/vitrine-mcp/vitrine/audit"

// A Sink is an [audit.Sink] that exports log records. The body of each is its line, so that a chain
// can be verified; attributes repeat what people search for.
type Sink struct {
	name      string
	exporter  sdklog.Exporter
	provider  *sdklog.LoggerProvider
	logger    log.Logger
	collected collector
}

var _ audit.Sink = (*Sink)(nil)

// closeTimeout bounds the shutdown of an exporter.
const closeTimeout = 5 * time.Second

// New returns a sink called "otlp" for an exporter, such as one of otlploghttp.New. The sink shuts the
// exporter down. The resource says which service the records are of; nil stands for that of the
// environment. The export of a batch that fails is tried again, so that a collector may get it twice.
func New(exporter sdklog.Exporter, of *resource.Resource) (*Sink, error) {
	if exporter == nil {
		return nil, errors.New("auditotlp: the exporter is nil")
	}
	if of == nil {
		of = resource.Default()
	}
	s := &Sink{name: "otlp", exporter: exporter}
	s.provider = sdklog.NewLoggerProvider(sdklog.WithProcessor(&s.collected), sdklog.WithResource(of))
	s.logger = s.provider.Logger(scope)
	return s, nil
}

// Name implements [audit.Sink].
func (s *Sink) Name() string { return s.name }

// Write implements [audit.Sink].
func (s *Sink) Write(ctx context.Context, entries []audit.Entry) (int, error) {
	s.collected.records = s.collected.records[:0]
	for i := range entries {
		r := entries[i].Record
		s.logger.Emit(withTrace(ctx, r.TraceID), record(r, entries[i].Line))
	}
	if n := len(s.collected.records); n != len(entries) {
		return 0, fmt.Errorf("auditotlp: %d of %d records were made", n, len(entries))
	}
	if err := s.exporter.Export(ctx, s.collected.records); err != nil {
		return 0, err
	}
	return len(entries), nil
}

// Close implements [audit.Sink].
func (s *Sink) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(s.provider.Shutdown(ctx), s.exporter.Shutdown(ctx))
}

// withTrace returns a context with the trace of a record.
func withTrace(ctx context.Context, id string) context.Context {
	if traceID, err := trace.TraceIDFromHex(id); err == nil {
		return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID}))
	}
	return ctx
}

// record returns the log record of an audit record.
func record(r *audit.Record, line []byte) (out log.Record) {
	out.SetEventName(EventName)
	out.SetTimestamp(r.Time)
	out.SetSeverity(log.SeverityInfo)
	if r.Outcome != audit.OutcomeOK {
		out.SetSeverity(log.SeverityWarn)
	}
	out.SetBody(attribute.StringValue(string(line)))
	for _, a := range []struct{ key, value string }{
		{"mcp.method.name", r.Operation}, {"vitrine.audit.target", r.Target}, {"vitrine.audit.decision", string(r.Decision)},
		{"vitrine.audit.rule", r.Rule}, {"vitrine.audit.stage", string(r.Stage)}, {"vitrine.audit.outcome", string(r.Outcome)},
		{"client.address", r.Address},
	} {
		if a.value != "" {
			out.AddAttributes(attribute.String(a.key, a.value))
		}
	}
	if p := r.Principal; p != nil {
		out.AddAttributes(attribute.String("enduser.id", p.Subject), attribute.String("vitrine.audit.issuer", p.Issuer),
			attribute.String("vitrine.audit.tenant", p.Tenant))
	}
	return out
}

// A collector keeps the records that the provider makes, for one export.
type collector struct{ records []sdklog.Record }

// Enabled implements [sdklog.Processor].
func (*collector) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// OnEmit implements [sdklog.Processor].
func (c *collector) OnEmit(_ context.Context, r *sdklog.Record) error {
	c.records = append(c.records, r.Clone())
	return nil
}

// Shutdown implements [sdklog.Processor].
func (*collector) Shutdown(context.Context) error { return nil }

// ForceFlush implements [sdklog.Processor].
func (*collector) ForceFlush(context.Context) error { return nil }

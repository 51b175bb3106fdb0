package telemetry

import (
	"cmp"
	"context"
	runtimetrace "runtime/trace"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

// An innerSpan is a span of ours within the trace of a request, of a task or a request to the client, that
// is sampled and not exported.
type innerSpan struct {
	hollowSpan
	journal
	tel     *Telemetry
	sc      trace.SpanContext
	parent  trace.SpanID
	opened  string // the name at the beginning
	kind    trace.SpanKind
	started time.Time
}

// A hollowSpan does nothing. The methods of a journal beside it have precedence.
type hollowSpan struct{ trace.Span }

// startSpan starts a span within the trace of a request. It is a span of the SDK only if it is exported, or
// if a trace of the Go runtime shows it.
func (t *Telemetry) startSpan(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	span := t.newInnerSpan(ctx, name, options)
	if span == nil {
		return t.tracer.Start(ctx, name, options...)
	}
	return trace.ContextWithSpan(ctx, span), span
}

// newInnerSpan returns a span, or nil if the provider must make it.
func (t *Telemetry) newInnerSpan(ctx context.Context, name string, options []trace.SpanStartOption) *innerSpan {
	s, outer := t.sampling, trace.SpanFromContext(ctx)
	parent := outer.SpanContext()
	if s == nil || s.exported.Load() || !parent.IsValid() || runtimetrace.IsEnabled() {
		return nil
	}
	if _, counts := outer.(sdktrace.ReadWriteSpan); counts {
		return nil // the SDK counts children of its spans
	}
	c := trace.NewSpanStartConfig(options...)
	result := s.sampler.ShouldSample(sdktrace.SamplingParameters{
		ParentContext: ctx, TraceID: parent.TraceID(), Name: name, Kind: c.SpanKind(), Attributes: c.Attributes(), Links: c.Links(),
	})
	if result.Decision != sdktrace.RecordAndSample {
		return nil
	}
	span := &innerSpan{
		hollowSpan: hollowSpan{noSpan}, tel: t, parent: parent.SpanID(), opened: name, kind: trace.ValidateSpanKind(c.SpanKind()),
		started: c.Timestamp(),
		sc: trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: parent.TraceID(), SpanID: s.ids.spanID(), TraceFlags: parent.TraceFlags() | trace.FlagsSampled, TraceState: result.Tracestate,
		}),
	}
	if span.started.IsZero() {
		span.started = time.Now()
	}
	span.SetAttributes(c.Attributes()...)
	if t.recent.bounds.Traces >= 0 {
		t.recent.spans.started(ctx, span.sc)
	}
	return span
}

// SpanContext implements [trace.Span].
func (s *innerSpan) SpanContext() trace.SpanContext { return s.sc }

// TracerProvider implements [trace.Span].
func (s *innerSpan) TracerProvider() trace.TracerProvider { return s.tel.provider }

// End implements [trace.Span]. The span is held if a page may show its trace.
func (s *innerSpan) End(options ...trace.SpanEndOption) {
	c := trace.NewSpanEndConfig(options...)
	ended := c.Timestamp()
	if ended.IsZero() {
		ended = time.Now()
	}
	if spans := s.tel.recent.spans; s.journal.close() && spans.wants(s.sc.TraceID()) {
		spans.add(s.sc.TraceID(), s.held(ended))
	}
}

// held returns the span as pages show it.
func (s *innerSpan) held(ended time.Time) *bufferedSpan {
	j := s.journal.copy()
	return &bufferedSpan{start: s.started, events: j.at, row: report.Span{
		SpanID: s.sc.SpanID().String(), Parent: s.parent.String(), Name: cmp.Or(j.name, clip(s.opened, maxText)), Kind: s.kind.String(),
		Seconds: ended.Sub(s.started).Seconds(), Status: j.status.String(), StatusText: j.statusText,
		Attributes: j.attributes, Events: j.events,
	}}
}

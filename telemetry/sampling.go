package telemetry

import (
	"cmp"
	"context"
	"os"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// A sampling decides about the spans of requests as a provider of our own would, but
// before it is asked for one: what is not sampled needs none of the SDK's.
type sampling struct {
	sampler  sdktrace.Sampler
	ids      *idGenerator
	provider trace.TracerProvider
}

// newOwnProvider returns a provider, and how it samples; nil if every span has to be its.
func (t *Telemetry) newOwnProvider() (*sdktrace.TracerProvider, *sampling) {
	sampler, err := samplerFromEnv()
	if err != nil {
		t.complain("telemetry.sampler", "error", err)
	}
	ids := newIDGenerator()
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(t.resource), sdktrace.WithSampler(sampler), sdktrace.WithIDGenerator(ids))
	// With this the SDK counts the spans that it drops, too.
	counted := cmp.Or(os.Getenv("OTEL_GO_X_OBSERVABILITY"), os.Getenv("OTEL_GO_X_SELF_OBSERVABILITY"))
	if strings.EqualFold(counted, "true") {
		return provider, nil
	}
	return provider, &sampling{sampler, ids, provider}
}

// drop decides about the span of a request, which has its parent from op.handler or is a
// root. It returns false if the provider has to make the span: then it is sampled, or
// nothing was decided.
func (op *Operation) drop(root bool) bool {
	s := op.series.tel.sampling
	if s == nil {
		return false
	}
	if _, ours := op.handler.span.(sdktrace.ReadWriteSpan); ours {
		return false // the SDK tells it that it has a child
	}
	ctx, parent := context.Context(&op.handler), trace.SpanContext{}
	if root {
		ctx = context.Background()
	} else {
		parent = op.handler.span.SpanContext()
	}
	trunk := parent.TraceID().IsValid()
	cfg := trace.SpanContextConfig{TraceID: parent.TraceID(), TraceFlags: parent.TraceFlags() &^ trace.FlagsSampled}
	if !trunk {
		cfg.TraceID = s.ids.traceID()
	}
	result := s.sampler.ShouldSample(sdktrace.SamplingParameters{
		ParentContext: ctx, TraceID: cfg.TraceID, Name: op.series.spanName, Kind: trace.SpanKindServer,
	})
	if result.Decision != sdktrace.Drop {
		if !trunk {
			op.unsampled.sc = trace.NewSpanContext(trace.SpanContextConfig{TraceID: cfg.TraceID}) // see takeTraceID
		}
		return false
	}
	cfg.SpanID, cfg.TraceState = s.ids.spanID(), result.Tracestate
	op.unsampled = unsampledSpan{noSpan, trace.NewSpanContext(cfg), s}
	op.span, op.handler.span = &op.unsampled, &op.unsampled
	return true
}

// An unsampledSpan is the span of a request that is not sampled: its identity, which is
// logged and passed on, and nothing else.
type unsampledSpan struct {
	trace.Span // noSpan: it takes less room than a noop.Span of its own
	sc         trace.SpanContext
	sampling   *sampling
}

// noSpan does nothing.
var noSpan trace.Span = noop.Span{}

// SpanContext implements [trace.Span].
func (s *unsampledSpan) SpanContext() trace.SpanContext { return s.sc }

// TracerProvider implements [trace.Span].
func (s *unsampledSpan) TracerProvider() trace.TracerProvider { return s.sampling.provider }

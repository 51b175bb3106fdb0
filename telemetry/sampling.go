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

// A sampling decides whether the span of a request is sampled, before the provider makes it. The
// decision is the same as the provider's. A request that is not sampled needs no span of the SDK. The
// plain version starts a span of the SDK for each request.
type sampling struct {
	sampler  sdktrace.Sampler
	ids      *idGenerator
	provider trace.TracerProvider
}

// newOwnProvider returns a provider and its sampling. The sampling is nil if the SDK must make
// every span.
func (t *Telemetry) newOwnProvider() (*sdktrace.TracerProvider, *sampling) {
	sampler, err := samplerFromEnv()
	if err != nil {
		t.complain("telemetry.sampler", "error", err)
	}
	ids := newIDGenerator()
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(t.resource), sdktrace.WithSampler(sampler), sdktrace.WithIDGenerator(ids))
	// With this variable the SDK also counts the spans that are not sampled.
	counted := cmp.Or(os.Getenv("OTEL_GO_X_OBSERVABILITY"), os.Getenv("OTEL_GO_X_SELF_OBSERVABILITY"))
	if strings.EqualFold(counted, "true") {
		return provider, nil
	}
	return provider, &sampling{sampler, ids, provider}
}

// drop decides about the span of a request. Its parent is in op.handler, unless it is a root. drop
// returns false if the provider must make the span, because it is sampled or undecided.
func (op *Operation) drop(root bool) bool {
	s := op.series.tel.sampling
	if s == nil {
		return false
	}
	if _, ours := op.handler.span.(sdktrace.ReadWriteSpan); ours {
		return false // the SDK counts children of its spans
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

// An unsampledSpan is the span of a request that is not sampled. It has an identity, for logs and
// for other processes, and records nothing.
type unsampledSpan struct {
	trace.Span // noSpan; a noop.Span takes more memory
	sc         trace.SpanContext
	sampling   *sampling
}

// noSpan is a span that does nothing.
var noSpan trace.Span = noop.Span{}

// SpanContext implements [trace.Span].
func (s *unsampledSpan) SpanContext() trace.SpanContext { return s.sc }

// TracerProvider implements [trace.Span].
func (s *unsampledSpan) TracerProvider() trace.TracerProvider { return s.sampling.provider }

package telemetry

import (
	"cmp"
	"context"
	"os"
	"strings"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// A sampling decides whether the span of a request is sampled, before the provider makes it. The
// decision is the same as the provider's. A request needs a span of the SDK only if it is sampled and
// spans are exported. The plain version starts a span of the SDK for each request.
type sampling struct {
	sampler  sdktrace.Sampler
	ids      *idGenerator
	exported atomic.Bool // sampled spans are
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
	return provider, &sampling{sampler: sampler, ids: ids}
}

// process gives the spans to a processor from now on.
func (t *Telemetry) process(p sdktrace.SpanProcessor) {
	t.owned.RegisterSpanProcessor(p)
	if t.sampling != nil {
		t.sampling.exported.Store(true)
	}
}

// decide decides about the span of a request. Its parent is in op.handler, unless it is a root. decide
// returns false if the provider must make the span, because it is exported or undecided.
func (op *Operation) decide(root bool) bool {
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
	if result.Decision != sdktrace.Drop && (result.Decision != sdktrace.RecordAndSample || s.exported.Load()) {
		if !trunk {
			op.own.sc = trace.NewSpanContext(trace.SpanContextConfig{TraceID: cfg.TraceID}) // see takeTraceID
		}
		return false
	}
	cfg.SpanID, cfg.TraceState = s.ids.spanID(), result.Tracestate
	op.span = &op.own.unsampledSpan
	if result.Decision == sdktrace.RecordAndSample {
		cfg.TraceFlags |= trace.FlagsSampled
		op.span, op.sampled, op.recording = &op.own, true, true
		op.marks.Or(markRecorded)
		if root {
			op.marks.Or(markRoot)
		}
	}
	op.own.unsampledSpan = unsampledSpan{noSpan, trace.NewSpanContext(cfg), op}
	op.handler.span = op.span
	return true
}

// An unsampledSpan is the span of a request that is not sampled. It has an identity, for logs and
// for other processes, and records nothing.
type unsampledSpan struct {
	trace.Span // noSpan; a noop.Span takes more memory
	sc         trace.SpanContext
	op         *Operation
}

// noSpan is a span that does nothing.
var noSpan trace.Span = noop.Span{}

// SpanContext implements [trace.Span].
func (s *unsampledSpan) SpanContext() trace.SpanContext { return s.sc }

// TracerProvider implements [trace.Span].
func (s *unsampledSpan) TracerProvider() trace.TracerProvider { return s.op.series.tel.provider }

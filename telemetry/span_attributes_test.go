package telemetry

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

// A keepingProvider makes spans that retain the slices of their attributes.
type keepingProvider struct {
	embedded.TracerProvider
	sets [][]attribute.KeyValue
}

func (p *keepingProvider) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return &keepingTracer{provider: p}
}

type keepingTracer struct {
	embedded.Tracer
	provider *keepingProvider
}

func (k *keepingTracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	_, own := sdktrace.NewTracerProvider().Tracer("").Start(ctx, "x")
	span := &keepingSpan{own.(sdktrace.ReadWriteSpan), k.provider}
	return trace.ContextWithSpan(ctx, span), span
}

// A keepingSpan looks like a span of the SDK.
type keepingSpan struct {
	sdktrace.ReadWriteSpan
	provider *keepingProvider
}

func (s *keepingSpan) SetAttributes(attrs ...attribute.KeyValue) {
	s.provider.sets = append(s.provider.sets, attrs)
}

// Attributes are on the span on which they were set, in their order.
func TestAttributesAreTheSpansOwn(t *testing.T) {
	order := []string{
		"mcp.method.name", "gen_ai.operation.name", "gen_ai.tool.name", "jsonrpc.request.id", "network.transport",
		"network.protocol.name", "network.protocol.version", "client.address", "client.port", "mcp.protocol.version",
		"vitrine.client.name", "vitrine.client.version", "vitrine.response.outcome", "vitrine.queue.wait",
	}
	keys := func(attrs []attribute.KeyValue) (names []string) {
		for _, kv := range attrs {
			names = append(names, string(kv.Key))
		}
		return names
	}
	tools := []string{"first", "second", "third"}
	t.Run("the SDK's", func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		tel, err := New(WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
		require.NoError(t, err)
		for _, tool := range tools {
			replay(observerOf(tel), t.Context(), finishedTool(t, tool))
		}
		for i, span := range spans.Ended() {
			require.Equal(t, order, keys(span.Attributes()))
			require.Equal(t, tools[i], attrsOf(span)["gen_ai.tool.name"])
		}
	})
	t.Run("another's", func(t *testing.T) {
		provider := &keepingProvider{}
		tel, err := New(WithTracerProvider(provider))
		require.NoError(t, err)
		for _, tool := range tools {
			replay(observerOf(tel), t.Context(), finishedTool(t, tool))
		}
		require.Len(t, provider.sets, 2*len(tools))
		for i, tool := range tools {
			set := append(append([]attribute.KeyValue{}, provider.sets[2*i]...), provider.sets[2*i+1]...)
			require.Equal(t, order, keys(set))
			require.Equal(t, tool, attrMap(set)["gen_ai.tool.name"])
		}
	})
	t.Run("nothing is held on to", func(t *testing.T) {
		_, span := sdktrace.NewTracerProvider().Tracer("").Start(t.Context(), "x")
		op := &Operation{span: span, series: &Series{tel: &Telemetry{copies: true}}}
		attrs := attributesToSet()
		*attrs = append(*attrs, keyToolName.String("secret"))
		op.set(attrs)
		require.Equal(t, make([]attribute.KeyValue, cap(*attrs)), (*attrs)[:cap(*attrs)])
	})
}

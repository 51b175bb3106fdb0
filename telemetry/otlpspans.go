package telemetry

import (
	"context"
	"math"
	"sync"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// newSpanExporter returns the exporter that the environment asks for.
func newSpanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if signalTraces.exporter() == "otlp" && signalTraces.protocol() == "http/protobuf" {
		return newOTLPExporter(ctx, otlptracehttp.NewClient())
	}
	return autoexport.NewSpanExporter(ctx)
}

// An otlpExporter exports spans as [otlptrace.Exporter] does, which makes three messages of
// each attribute, one by one: half of the cost of an export. This one makes those of simple
// attributes for a whole batch at once, and uses them again for the next batch.
type otlpExporter struct{ *otlptrace.Exporter }

// newOTLPExporter returns an exporter to a client that has no use for the messages once
// its UploadTraces has returned.
func newOTLPExporter(ctx context.Context, client otlptrace.Client) (sdktrace.SpanExporter, error) {
	exporter, err := otlptrace.New(ctx, otlpClient{client})
	if err != nil {
		return nil, err
	}
	return &otlpExporter{exporter}, nil
}

// ExportSpans implements [sdktrace.SpanExporter].
func (e *otlpExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	b := otlpBatches.Get().(*otlpBatch)
	defer b.release()
	return e.Exporter.ExportSpans(context.WithValue(ctx, otlpBatchKey{}, b), b.take(spans))
}

// An otlpClient completes the spans of a batch before they are uploaded.
type otlpClient struct{ otlptrace.Client }

// UploadTraces implements [otlptrace.Client].
func (c otlpClient) UploadTraces(ctx context.Context, resources []*tracepb.ResourceSpans) error {
	if b, ok := ctx.Value(otlpBatchKey{}).(*otlpBatch); ok {
		b.complete(resources)
	}
	return c.Client.UploadTraces(ctx, resources)
}

// A bareSpan is a span without its simple attributes. Where the number of dropped
// attributes belongs it has its own number in the batch, by which it is known again.
type bareSpan struct {
	sdktrace.ReadOnlySpan
	number int
	simple bool // all attributes are
}

// Attributes implements [sdktrace.ReadOnlySpan].
func (s *bareSpan) Attributes() []attribute.KeyValue {
	if s.simple {
		return nil
	}
	return s.ReadOnlySpan.Attributes()
}

// DroppedAttributes implements [sdktrace.ReadOnlySpan].
func (s *bareSpan) DroppedAttributes() int { return s.number }

// An otlpBatch has the messages of a batch's simple attributes.
type otlpBatch struct {
	spans    []bareSpan
	given    []sdktrace.ReadOnlySpan // the same
	pointers []*commonpb.KeyValue
	pairs    []commonpb.KeyValue
	values   []commonpb.AnyValue
	strings  []commonpb.AnyValue_StringValue
	ints     []commonpb.AnyValue_IntValue
	floats   []commonpb.AnyValue_DoubleValue
	bools    []commonpb.AnyValue_BoolValue
}

type otlpBatchKey struct{}

var otlpBatches = sync.Pool{New: func() any { return new(otlpBatch) }}

// maxKeptAttributes bounds what a batch keeps for the next one: 2 MB.
const maxKeptAttributes = 16 << 10

// take returns the spans as the library is to see them, and makes room for the rest.
func (b *otlpBatch) take(spans []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	b.spans, b.given = room(b.spans, len(spans)), room(b.given, len(spans))
	var all, strings, ints, floats, bools int
	for i, s := range spans {
		attrs, simple := s.Attributes(), true
		for _, kv := range attrs {
			switch kv.Value.Type() {
			case attribute.STRING:
				strings++
			case attribute.INT64:
				ints++
			case attribute.FLOAT64:
				floats++
			case attribute.BOOL:
				bools++
			default:
				simple = false
			}
		}
		all += len(attrs)
		b.spans[i] = bareSpan{s, i, simple}
		b.given[i] = &b.spans[i]
	}
	b.pointers, b.pairs, b.values = room(b.pointers, all), room(b.pairs, all), room(b.values, all)
	b.strings, b.ints = room(b.strings, strings)[:0], room(b.ints, ints)[:0]
	b.floats, b.bools = room(b.floats, floats)[:0], room(b.bools, bools)[:0]
	return b.given
}

// room returns a slice of n elements, s itself if there is room.
func room[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// complete gives the spans what was taken from them.
func (b *otlpBatch) complete(resources []*tracepb.ResourceSpans) {
	next := 0
	for _, resource := range resources {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				bare := &b.spans[span.DroppedAttributesCount]
				span.DroppedAttributesCount = uint32(min(max(int64(bare.ReadOnlySpan.DroppedAttributes()), 0), math.MaxUint32))
				if !bare.simple {
					continue
				}
				begin := next
				for _, kv := range bare.ReadOnlySpan.Attributes() {
					pair := &b.pairs[next]
					pair.Key, pair.Value = string(kv.Key), &b.values[next]
					b.setValue(pair.Value, kv.Value)
					b.pointers[next] = pair
					next++
				}
				span.Attributes = b.pointers[begin:next:next]
			}
		}
	}
}

// setValue gives a message a simple value. There is room for it: take has counted.
func (b *otlpBatch) setValue(to *commonpb.AnyValue, v attribute.Value) {
	switch v.Type() {
	case attribute.STRING:
		b.strings = append(b.strings, commonpb.AnyValue_StringValue{StringValue: v.AsString()})
		to.Value = &b.strings[len(b.strings)-1]
	case attribute.INT64:
		b.ints = append(b.ints, commonpb.AnyValue_IntValue{IntValue: v.AsInt64()})
		to.Value = &b.ints[len(b.ints)-1]
	case attribute.FLOAT64:
		b.floats = append(b.floats, commonpb.AnyValue_DoubleValue{DoubleValue: v.AsFloat64()})
		to.Value = &b.floats[len(b.floats)-1]
	case attribute.BOOL:
		b.bools = append(b.bools, commonpb.AnyValue_BoolValue{BoolValue: v.AsBool()})
		to.Value = &b.bools[len(b.bools)-1]
	}
}

// release keeps the messages for the next batch, and nothing of the spans.
func (b *otlpBatch) release() {
	if len(b.pairs) > maxKeptAttributes {
		return
	}
	clear(b.spans)
	clear(b.strings)
	otlpBatches.Put(b)
}

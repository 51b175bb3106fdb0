package telemetry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// An uploads is a client that reads what it is given while it has it, as one does that
// sends it.
type uploads struct {
	started, stopped int
	all              []string
	err              error
}

func (u *uploads) Start(context.Context) error { u.started++; return nil }
func (u *uploads) Stop(context.Context) error  { u.stopped++; return nil }
func (u *uploads) UploadTraces(_ context.Context, resources []*tracepb.ResourceSpans) error {
	var texts []string
	for _, r := range resources {
		wire, err := proto.Marshal(r)
		if err != nil {
			return err
		}
		var read tracepb.ResourceSpans
		if err := proto.Unmarshal(wire, &read); err != nil {
			return err
		}
		texts = append(texts, prototext.MarshalOptions{Multiline: true}.Format(&read))
	}
	slices.Sort(texts) // the library's order of resources is that of a map
	u.all = append(u.all, strings.Join(texts, "\n"))
	return u.err
}

// stub returns a span with these attributes.
func stub(n int, attrs ...attribute.KeyValue) tracetest.SpanStub {
	return tracetest.SpanStub{
		Name: fmt.Sprint("span ", n), SpanKind: trace.SpanKindServer, Attributes: attrs,
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1, byte(n)}, SpanID: trace.SpanID{2}, // the same id on purpose
			TraceFlags: trace.FlagsSampled,
		}),
		StartTime: time.Unix(int64(n), 1), EndTime: time.Unix(int64(n), 2),
		Resource:             resource.NewSchemaless(attribute.String("service.name", "x")),
		InstrumentationScope: instrumentation.Scope{Name: scopeName, Version: "1"},
	}
}

// batchesOfSpans are batches with all that a span can have.
func batchesOfSpans() map[string]tracetest.SpanStubs {
	simple := []attribute.KeyValue{
		attribute.String("s", "text"), attribute.String("empty", ""), attribute.Int64("i", math.MinInt64), attribute.Int("zero", 0),
		attribute.Float64("f", 0.25), attribute.Float64("inf", math.Inf(1)), attribute.Bool("yes", true), attribute.Bool("no", false),
	}
	full := stub(9, simple...)
	full.Parent = someSpan.WithRemote(true)
	full.Status = sdktrace.Status{Code: codes.Error, Description: "it broke"}
	full.DroppedAttributes, full.DroppedEvents, full.DroppedLinks, full.ChildSpanCount = 3, 4, 5, 6
	full.Links = []sdktrace.Link{{SpanContext: someSpan, Attributes: simple}}
	full.Events = []sdktrace.Event{{Name: "e", Time: time.Unix(9, 9), Attributes: simple, DroppedAttributeCount: 7}}
	other := stub(10, simple[:2]...)
	other.Resource = resource.NewSchemaless(attribute.String("service.name", "y"))
	scoped := stub(11, simple[2:]...)
	scoped.InstrumentationScope = instrumentation.Scope{Name: "another", SchemaURL: "https://example.com/schema"}
	many, none := stub(12, simple...), stub(13)
	many.DroppedAttributes, none.DroppedAttributes = math.MaxInt, -1
	var row tracetest.SpanStubs
	for n := range 300 {
		row = append(row, stub(n, simple[n%len(simple)], attribute.Int("n", n)))
	}
	return map[string]tracetest.SpanStubs{
		"none": nil, "simple": {stub(1, simple...)}, "bare": {stub(1), stub(2)}, "full": {full},
		"slices": {
			stub(1, simple...),
			stub(2, attribute.StringSlice("a", []string{"x", "y"}), attribute.IntSlice("b", []int{1}), attribute.String("c", "d")),
			stub(3, attribute.BoolSlice("a", []bool{true}), attribute.Float64Slice("b", nil)),
			stub(4, simple...),
		},
		"resources and scopes": {other, full, scoped, stub(1, simple...), other, scoped},
		"dropped":              {many, none}, "invalid": {stub(1, attribute.KeyValue{}, attribute.KeyValue{Key: "k"}, simple[0])},
		"row": row,
	}
}

// What is exported is what the library would export, batch after batch.
func TestOTLPSpansAreTheLibrarys(t *testing.T) {
	want, got := &uploads{}, &uploads{}
	reference, err := otlptrace.New(t.Context(), want)
	require.NoError(t, err)
	ours, err := newOTLPExporter(t.Context(), got)
	require.NoError(t, err)
	batches := batchesOfSpans()
	for range 3 {
		for name, stubs := range batches {
			require.NoError(t, reference.ExportSpans(t.Context(), stubs.Snapshots()), name)
			require.NoError(t, ours.ExportSpans(t.Context(), stubs.Snapshots()), name)
			require.Equal(t, want.all, got.all, name)
		}
	}
	require.Len(t, got.all, 3*(len(batches)-1), "an empty batch is not uploaded")
	require.Contains(t, strings.Join(got.all, ""), "it broke")
	require.NoError(t, ours.Shutdown(t.Context()))
	require.Equal(t, []int{1, 1}, []int{got.started, got.stopped})
}

// The messages of batches that are exported at the same time are not mixed up.
func TestOTLPSpansAtTheSameTime(t *testing.T) {
	var all sync.WaitGroup
	for name, stubs := range batchesOfSpans() {
		all.Go(func() {
			want, got := &uploads{}, &uploads{}
			reference, ours := otlptrace.NewUnstarted(want), &otlpExporter{otlptrace.NewUnstarted(otlpClient{got})}
			for range 20 {
				require.NoError(t, reference.ExportSpans(t.Context(), stubs.Snapshots()))
				require.NoError(t, ours.ExportSpans(t.Context(), stubs.Snapshots()))
			}
			require.Equal(t, want.all, got.all, name)
		})
	}
	all.Wait()
}

// A failure is the exporter's, and what it was about is not held on to.
func TestOTLPSpansFail(t *testing.T) {
	refused := errors.New("refused")
	ours, err := newOTLPExporter(t.Context(), &uploads{err: refused})
	require.NoError(t, err)
	require.ErrorIs(t, ours.ExportSpans(t.Context(), tracetest.SpanStubs{stub(1)}.Snapshots()), refused)
	_, err = newOTLPExporter(t.Context(), refusing{})
	require.ErrorIs(t, err, errPrivate)

	b := &otlpBatch{}
	b.take(tracetest.SpanStubs{stub(1, keyToolName.String("secret"))}.Snapshots())
	b.complete([]*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: []*tracepb.Span{{}}}}}})
	require.Equal(t, "secret", b.strings[0].StringValue)
	b.release()
	require.Empty(t, b.strings[0].StringValue)
	require.Nil(t, b.spans[0].ReadOnlySpan)
}

type refusing struct{ otlptrace.Client }

func (refusing) Start(context.Context) error { return errPrivate }

// Only OTLP over HTTP with protobuf is ours; the rest, and what is wrong, is the library's.
func TestSpanExporterOfTheEnvironment(t *testing.T) {
	for _, c := range []struct {
		exporter, protocol string
		ours, fails        bool
	}{
		{"otlp", "", true, false}, {"", "", true, false}, {"otlp", "http/protobuf", true, false}, {"otlp", "grpc", false, false},
		{"console", "", false, false}, {"otlp", "http/json", false, true}, {"otlp", "smoke", false, true}, {"unheard-of", "", false, true},
	} {
		t.Run(c.exporter+" "+c.protocol, func(t *testing.T) {
			clearOTel(t)
			t.Setenv("OTEL_TRACES_EXPORTER", c.exporter)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", c.protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			exporter, err := newSpanExporter(t.Context())
			require.Equal(t, c.fails, err != nil, "%v", err)
			_, ours := exporter.(*otlpExporter)
			require.Equal(t, c.ours, ours)
			if err == nil {
				require.NoError(t, exporter.Shutdown(t.Context()))
			}
		})
	}
}

// A nothing is a client that sends nothing.
type nothing struct{}

func (nothing) Start(context.Context) error                                  { return nil }
func (nothing) Stop(context.Context) error                                   { return nil }
func (nothing) UploadTraces(context.Context, []*tracepb.ResourceSpans) error { return nil }

// BenchmarkOTLPSpans measures the making of messages for a full batch of calls, ours and
// the library's.
func BenchmarkOTLPSpans(b *testing.B) {
	var stubs tracetest.SpanStubs
	for n := range sdktrace.DefaultMaxExportBatchSize {
		s := stub(n)
		for i := range 14 {
			s.Attributes = append(s.Attributes, attribute.String(fmt.Sprint("key.", i), "value"))
		}
		stubs = append(stubs, s)
	}
	spans := stubs.Snapshots()
	for name, exporter := range map[string]sdktrace.SpanExporter{
		"library": otlptrace.NewUnstarted(nothing{}), "ours": &otlpExporter{otlptrace.NewUnstarted(otlpClient{nothing{}})},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := exporter.ExportSpans(context.Background(), spans); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

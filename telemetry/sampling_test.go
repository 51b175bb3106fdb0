package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// newOwnRig is newRig with the provider that New makes of the environment.
func newOwnRig(t *testing.T, options ...Option) *rig {
	t.Helper()
	r := newRig(t, rigConfig{telemetry: append([]Option{WithTracerProvider(nil)}, options...)})
	require.NotNil(t, r.tel.owned)
	r.tel.process(r.spans)
	return r
}

// setSampler sets the variables of the sampler.
func setSampler(t *testing.T, name, arg string) {
	clearOTel(t)
	t.Setenv("OTEL_TRACES_SAMPLER", name)
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", arg)
}

// A sighting is the part of the request's span that a handler can see.
type sighting struct {
	Sampled, Recording, Remote bool
	Flags                      trace.TraceFlags
	State                      string
	Trace                      string // whose id it is: "meta", "ambient" or "new"
	Child                      trace.TraceFlags
	Joins, Distinct            bool // the child is in the trace; its id is its own
	Own                        bool // the span's provider is ours
	Ended, Links               int
	Parent                     trace.SpanID
}

// sight serves a call and returns the sighting of its handler.
func sight(t *testing.T, r *rig, in *session.Inbound) (saw sighting) {
	t.Helper()
	r.tools["echo"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
		span := trace.SpanFromContext(ctx)
		sc := span.SpanContext()
		require.True(t, sc.IsValid())
		require.Equal(t, sc.TraceID().String(), TestBridge.TraceID(q))
		_, child := span.TracerProvider().Tracer("handler").Start(ctx, "child")
		defer child.End()
		saw = sighting{
			Sampled: sc.IsSampled(), Recording: span.IsRecording(), Remote: sc.IsRemote(), Flags: sc.TraceFlags(),
			State: sc.TraceState().String(), Trace: "new", Child: child.SpanContext().TraceFlags(),
			Joins: child.SpanContext().TraceID() == sc.TraceID(), Distinct: child.SpanContext().SpanID() != sc.SpanID(),
			Own: span.TracerProvider() == r.tel.provider,
		}
		switch sc.TraceID() {
		case someSpan.TraceID():
			saw.Trace = "ambient"
		case trace.TraceID([]byte("0123456789abcdef")):
			saw.Trace = "meta"
		}
		carrier := propagation.MapCarrier{}
		r.tel.propagator.Inject(ctx, carrier)
		require.Equal(t, fmt.Sprintf("00-%s-%s-%s", sc.TraceID(), sc.SpanID(), sc.TraceFlags()), carrier["traceparent"])
		require.Equal(t, saw.State, carrier["tracestate"])
		return &mcp.CallToolResult{}, nil
	}
	r.post(in, &sink{})
	for _, s := range r.spans.Ended() {
		if s.Name() != "child" {
			saw.Ended, saw.Links, saw.Parent = saw.Ended+1, len(s.Links()), s.Parent().SpanID()
		}
	}
	r.spans.Reset()
	return saw
}

// We sample as the SDK does. The same call is served with our provider and with one of the SDK,
// which samples itself.
func TestOwnSamplingIsTheSDKs(t *testing.T) {
	parents := map[string]func(*session.Inbound){
		"none": func(*session.Inbound) {},
		"sampled": func(in *session.Inbound) {
			in.Meta.TraceParent, in.Meta.TraceState = "00-30313233343536373839616263646566-00000000000000aa-01", "v=1"
		},
		"unsampled, random": func(in *session.Inbound) {
			in.Meta.TraceParent, in.Meta.TraceState = "00-30313233343536373839616263646566-00000000000000aa-02", "v=1"
		},
		"broken":  func(in *session.Inbound) { in.Meta.TraceParent = "00-zz-zz-01" },
		"baggage": func(in *session.Inbound) { in.Meta.Baggage = "tenant=blue" },
		"header": func(in *session.Inbound) {
			in.Header = map[string][]string{"Traceparent": {"00-30313233343536373839616263646566-00000000000000aa-00"}}
		},
		"ambient": func(in *session.Inbound) {
			in.Values = trace.ContextWithSpanContext(context.Background(), someSpan)
		},
		"ambient, sampled": func(in *session.Inbound) {
			in.Values = trace.ContextWithSpanContext(context.Background(), someSpan.WithTraceFlags(trace.FlagsSampled))
		},
		"ambient and sampled": func(in *session.Inbound) {
			in.Values = trace.ContextWithSpanContext(context.Background(), someSpan)
			in.Meta.TraceParent = "00-30313233343536373839616263646566-00000000000000aa-01"
		},
	}
	decided := 0
	for _, sampler := range []string{
		"", "always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off",
		"parentbased_traceidratio", "traceidratio 0", "parentbased_traceidratio 0",
	} {
		for name, parent := range parents {
			for _, untrusted := range []bool{false, true} {
				t.Run(fmt.Sprint(sampler, "/", name, "/", untrusted), func(t *testing.T) {
					env, arg, _ := strings.Cut(sampler, " ")
					setSampler(t, env, arg)
					var options []Option
					if untrusted {
						options = append(options, WithUntrustedParents())
					}
					in := call("echo")
					parent(in)
					own := newOwnRig(t, options...)
					reference := newOwnRig(t, options...)
					reference.tel.sampling = nil
					saw := sight(t, own, in)
					require.Equal(t, sight(t, reference, in), saw)
					require.True(t, saw.Own && saw.Distinct)
					unexported := sight(t, newRig(t, rigConfig{telemetry: append([]Option{WithTracerProvider(nil)}, options...)}), in)
					saw.Ended, saw.Links, saw.Parent = 0, 0, trace.SpanID{}
					require.Equal(t, saw, unexported)
					if !saw.Sampled {
						decided++
					}
				})
			}
		}
	}
	require.Greater(t, decided, 50, "nearly nothing was unsampled")
}

// A request that is not sampled has its own IDs, and they are in the log.
func TestUnsampledHasIDs(t *testing.T) {
	setSampler(t, "always_off", "")
	r := newOwnRig(t)
	var log bytes.Buffer
	logger := slog.New(r.tel.LogHandler(slog.NewJSONHandler(&log, nil)))
	seen := map[string]bool{}
	r.tools["echo"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
		_, ours := trace.SpanFromContext(ctx).(*unsampledSpan)
		require.True(t, ours, "the SDK was asked for a span")
		logger.InfoContext(ctx, "m")
		var record struct {
			Trace string `json:"trace_id"`
			Span  string `json:"span_id"`
		}
		require.NoError(t, json.Unmarshal(log.Bytes(), &record))
		log.Reset()
		require.Equal(t, TestBridge.TraceID(q), record.Trace)
		require.Len(t, record.Span, 16)
		seen[record.Trace], seen[record.Span] = true, true
		return &mcp.CallToolResult{}, nil
	}
	for range 10 {
		r.post(call("echo"), &sink{})
	}
	require.Len(t, seen, 20)
	require.Empty(t, r.spans.Ended())
}

// A root span has the ID with which it was sampled. Of a known sequence of IDs, exactly those are
// sampled that the SDK's sampler selects.
func TestRatioDecidesOnce(t *testing.T) {
	const ratio = 0.3
	for _, name := range []string{"traceidratio", "parentbased_traceidratio"} {
		t.Run(name, func(t *testing.T) {
			setSampler(t, name, fmt.Sprint(ratio))
			r := newOwnRig(t)
			source := rand.New(rand.NewPCG(1, 2))
			r.tel.sampling.ids.random = source.Uint64
			same := &idGenerator{rand.New(rand.NewPCG(1, 2)).Uint64}
			sampler, sampled := sdktrace.TraceIDRatioBased(ratio), 0
			for i := range 500 {
				var sc, other trace.SpanContext
				r.tools["echo"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
					sc = trace.SpanContextFromContext(ctx)
					_, span := r.tel.provider.Tracer("handler").Start(ctx, "other", trace.WithNewRoot())
					other = span.SpanContext()
					return &mcp.CallToolResult{}, nil
				}
				r.post(call("echo"), &sink{})
				want := same.traceID()
				same.spanID()
				require.Equal(t, want, sc.TraceID(), "request %d", i)
				decision := sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: want}).Decision
				require.Equal(t, decision == sdktrace.RecordAndSample, sc.IsSampled(), "request %d", i)
				if sc.IsSampled() {
					sampled++
				}
				require.Equal(t, same.traceID(), other.TraceID(), "a trace that the handler begins has an id of its own")
				same.spanID()
			}
			require.InDelta(t, 500*ratio, sampled, 30)
		})
	}
}

// IDs are never zero.
func TestIDsAreValid(t *testing.T) {
	numbers := []uint64{0, 0, 0, 7, 0, 8}
	g := &idGenerator{func() uint64 {
		n := numbers[0]
		numbers = numbers[1:]
		return n
	}}
	id, span := g.NewIDs(context.Background())
	require.True(t, id.IsValid())
	require.True(t, span.IsValid())
	require.Empty(t, numbers)
}

// The variables of the sampler have the same meaning as for the SDK, which warns of the same
// values.
func TestSamplerFromEnvironment(t *testing.T) {
	var handled []error
	previous := otel.GetErrorHandler()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = append(handled, err) }))
	t.Cleanup(func() { otel.SetErrorHandler(previous) })
	source := rand.New(rand.NewPCG(3, 4))
	ids := make([]trace.TraceID, 100)
	for i := range ids {
		ids[i] = (&idGenerator{source.Uint64}).traceID()
	}
	parents := []context.Context{
		context.Background(),
		trace.ContextWithRemoteSpanContext(context.Background(), someSpan),
		trace.ContextWithRemoteSpanContext(context.Background(), someSpan.WithTraceFlags(trace.FlagsSampled)),
		trace.ContextWithSpanContext(context.Background(), someSpan),
	}
	ratios := []string{"", "0", "0.25", " .5 ", "1", "1e-1", "-0.1", "-0", "1.5", "NaN", "inf", "0,5", "half", "0x1p-2"}
	for name, args := range map[string][]string{
		"": {"", "0"}, "   ": {"", "0"}, "always_on": {"", "0"}, "always_off": {"", "1"}, " Always_OFF ": {""},
		"traceidratio": ratios, "parentbased_traceidratio": ratios, "ParentBased_TraceIDRatio": {"0.5"},
		"parentbased_always_on": {"", "0"}, "parentbased_always_off": {""},
		"parentbased_": {""}, "parentbased": {""}, "jaeger_remote": {"endpoint=x"}, "parentbased_parentbased_always_off": {""}, "0.5": {""},
	} {
		for _, arg := range args {
			t.Run(name+" "+arg, func(t *testing.T) {
				setSampler(t, name, arg)
				handled = nil
				sdk := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(&rowOfIDs{ids: ids})).Tracer("reference")
				complaints := &complaints{}
				tel, err := New(WithLogger(slog.New(complaints)))
				require.NoError(t, err)
				require.Equal(t, len(handled), 2*len(complaints.all), "the SDK hears of it twice, and we complain once: %v", handled)
				for _, c := range complaints.all {
					require.True(t, strings.HasPrefix(c, "telemetry.sampler"), c)
					require.Contains(t, c, "OTEL_TRACES_SAMPLER")
				}
				for i, id := range ids {
					for _, parent := range parents {
						_, span := sdk.Start(parent, "x")
						if parent == parents[0] {
							require.Equal(t, id, span.SpanContext().TraceID())
						}
						result := tel.sampling.sampler.ShouldSample(sdktrace.SamplingParameters{
							ParentContext: parent, TraceID: span.SpanContext().TraceID(),
						})
						require.Equal(t, span.SpanContext().IsSampled(), result.Decision == sdktrace.RecordAndSample, "id %d", i)
					}
				}
			})
		}
	}
}

// rowOfIDs returns IDs in sequence.
type rowOfIDs struct {
	ids  []trace.TraceID
	next int
}

func (g *rowOfIDs) NewIDs(context.Context) (trace.TraceID, trace.SpanID) {
	g.next++
	return g.ids[g.next-1], trace.SpanID{1}
}
func (g *rowOfIDs) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return trace.SpanID{1} }

// complaints is a log handler that records warnings as text.
type complaints struct {
	slog.Handler
	all []string
}

func (c *complaints) Enabled(context.Context, slog.Level) bool { return true }
func (c *complaints) Handle(_ context.Context, rec slog.Record) error {
	text := rec.Message
	rec.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	c.all = append(c.all, text)
	return nil
}

// The provider samples if it has processors for unsampled spans, or is not ours.
func TestProviderDecides(t *testing.T) {
	setSampler(t, "always_off", "")
	t.Run("it counts what it drops", func(t *testing.T) {
		for _, name := range []string{"OTEL_GO_X_OBSERVABILITY", "OTEL_GO_X_SELF_OBSERVABILITY"} {
			t.Setenv(name, "True")
			require.Nil(t, newOwnRig(t).tel.sampling)
			t.Setenv(name, "no")
			require.NotNil(t, newOwnRig(t).tel.sampling)
			t.Setenv(name, "")
		}
	})
	t.Run("it is given", func(t *testing.T) {
		require.Nil(t, newRig(t, rigConfig{}).tel.sampling)
	})
	t.Run("it counts the children of its spans", func(t *testing.T) {
		r := newOwnRig(t)
		outer := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()))
		ctx, span := outer.Tracer("program").Start(context.Background(), "around")
		in := call("echo")
		in.Values = ctx
		saw := sight(t, r, in)
		require.False(t, saw.Sampled)
		require.Equal(t, 1, span.(sdktrace.ReadOnlySpan).ChildSpanCount())
	})
	t.Run("a context does not work as it is known to", func(t *testing.T) {
		_, ok := learnSpanKey(func(context.Context) trace.Span { return trace.SpanFromContext(context.Background()) })
		require.False(t, ok)
		_, ok = learnSpanKey(func(ctx context.Context) trace.Span { // with a key that ContextWithSpan does not use
			span, _ := ctx.Value("span").(trace.Span)
			return span
		})
		require.False(t, ok)
		_, ok = learnSpanKey(func(ctx context.Context) trace.Span { // which does not look at what it finds
			trace.SpanFromContext(ctx)
			return trace.SpanFromContext(context.Background())
		})
		require.False(t, ok)
	})
	key, ok := learnSpanKey(trace.SpanFromContext)
	require.True(t, ok, "package trace works otherwise now: every span is the SDK's")
	require.NotNil(t, key)
}

// An unsampled notification has a trace too.
func TestUnsampledNotification(t *testing.T) {
	setSampler(t, "always_off", "")
	tel, err := New()
	require.NoError(t, err)
	in := call("")
	in.Method = mcp.NotificationCancelled
	ctx, done := TestBridge.Observer(tel).Notified(context.Background(), in, nil)
	require.True(t, trace.SpanContextFromContext(ctx).IsValid())
	require.False(t, trace.SpanContextFromContext(ctx).IsSampled())
	done()
	require.EqualValues(t, 1, value(gather(t, tel.Registry()), MetricOperationDuration, "mcp_method_name", mcp.NotificationCancelled))
}

// Value of a handler's context does not allocate, and can be called from each goroutine.
func TestHandlerContextDoesNotAllocate(t *testing.T) {
	setSampler(t, "always_off", "")
	o, r := ownObserver(t, "always_off"), finished(t, call("echo"))
	type ownKey struct{}
	base := context.WithValue(context.Background(), ownKey{}, "value")
	ctx := o.Begin(base, r)
	allocations := testing.AllocsPerRun(100, func() {
		if !trace.SpanContextFromContext(ctx).IsValid() || ctx.Value(ownKey{}) != "value" || ctx.Value(t) != nil {
			t.Error("it does not know its values")
		}
	})
	require.Zero(t, allocations)
	var all sync.WaitGroup
	contexts := make([]trace.SpanContext, 8)
	for i := range contexts {
		all.Go(func() {
			child, cancel := context.WithCancelCause(ctx)
			defer cancel(errors.New("done"))
			_, span := o.tel.tracer.Start(child, "child")
			contexts[i] = span.SpanContext()
			_, root := o.tel.tracer.Start(child, "root", trace.WithNewRoot())
			if root.SpanContext().TraceID() == contexts[i].TraceID() {
				t.Error("a root is in the trace of the request")
			}
		})
	}
	all.Wait()
	spans := map[trace.SpanID]bool{}
	for _, sc := range contexts {
		require.Equal(t, TestBridge.TraceID(r), sc.TraceID().String())
		spans[sc.SpanID()] = true
	}
	require.Len(t, spans, len(contexts))
}

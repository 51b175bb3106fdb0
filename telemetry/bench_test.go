package telemetry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
	"unsafe"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// discard is a span processor that looks at each span and keeps none.
type discard struct{}

func (discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discard) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error                  { return nil }
func (discard) ForceFlush(context.Context) error                { return nil }

// benchDispatcher has one route.
type benchDispatcher struct{ route *session.Route }

func (d *benchDispatcher) Route(*session.Inbound, *session.Session) *session.Route    { return d.route }
func (d *benchDispatcher) Notify(context.Context, *session.Inbound, *session.Session) {}
func (d *benchDispatcher) Encode(b []byte, _ *session.Request, _ mcp.Result) (_, rest []byte, err error) {
	return append(b, "{}"...), nil, nil
}

// observer is what a core reports to, and what comes of it.
type observer struct {
	session.Observer
	tel *Telemetry
}

func observerOf(tel *Telemetry) *observer { return &observer{TestBridge.Observer(tel), tel} }

func operationOf(r *session.Request) *Operation { return r.Observation.(*Operation) }

// metaCarrier reads a trace context as the bridge does.
type metaCarrier struct{ meta *wire.Meta }

func (c metaCarrier) Get(key string) string {
	if key == mcp.MetaTraceParent {
		return c.meta.TraceParent
	}
	return ""
}
func (metaCarrier) Set(string, string) {}
func (metaCarrier) Keys() []string     { return []string{mcp.MetaTraceParent} }

func benchObserver(tb testing.TB, sampler sdktrace.Sampler) *observer {
	tel, err := New(WithTracerProvider(sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(discard{}), sdktrace.WithSampler(sampler))),
		WithPropagator(propagation.TraceContext{}))
	if err != nil {
		tb.Fatal(err)
	}
	return observerOf(tel)
}

// ownObserver is an observer with a provider of its own, which samples as the environment says.
func ownObserver(tb testing.TB, sampler string) *observer {
	tb.Setenv("OTEL_TRACES_SAMPLER", sampler)
	tel, err := New(WithPropagator(propagation.TraceContext{}))
	if err != nil {
		tb.Fatal(err)
	}
	tel.process(discard{})
	return observerOf(tel)
}

// capture keeps a request, so that its life can be told again.
type capture struct {
	session.NopObserver
	r *session.Request
}

func (c *capture) Finished(w session.Work) { c.r = w.(*session.Request) }

// finished returns a request whose life is over.
func finished(tb testing.TB, in *session.Inbound) *session.Request {
	return finishedAs(tb, in, "echo")
}

// finishedTool is a finished call of a tool of another name.
func finishedTool(tb testing.TB, tool string) *session.Request {
	return finishedAs(tb, call(tool), tool)
}

func finishedAs(tb testing.TB, in *session.Inbound, tool string) *session.Request {
	c, d := &capture{}, &benchDispatcher{}
	core := session.New(session.Config{Dispatcher: d, Observer: c})
	d.route = plainRoute(core, tool)
	st := core.Exchange(in.Conn, 1, mcp.Modern)
	core.Receive(in, st)
	if err := st.Pump(&sink{}); err != nil {
		tb.Fatal(err)
	}
	if err := core.Shutdown(context.Background()); err != nil { // waits for Finished
		tb.Fatal(err)
	}
	return c.r
}

// plainRoute is the route of a tool that answers at once.
func plainRoute(core *session.Core, tool string) *session.Route {
	return &session.Route{
		Series: core.Series(mcp.MethodToolsCall, tool),
		Handle: func(context.Context, *session.Request) (mcp.Result, error) { return &mcp.CallToolResult{}, nil },
	}
}

// replay tells the observer of a whole life.
func replay(o *observer, ctx context.Context, r *session.Request) {
	o.Begin(ctx, r)
	o.Started(r)
	o.Written(r.Conn, 100, time.Microsecond)
	o.Finished(r)
}

// withParent is a call whose caller has decided not to sample.
func withParent() *session.Inbound {
	in := call("echo")
	in.Meta.TraceParent = callerParent[:len(callerParent)-1] + "0"
	return in
}

func BenchmarkObserver(b *testing.B) {
	sampledParent := call("echo")
	sampledParent.Meta.TraceParent = callerParent
	for _, bm := range []struct {
		name    string
		sampler string
		in      *session.Inbound
		ambient bool
	}{
		{"unsampled", "always_off", call("echo"), false},
		{"unsampled-parent", "parentbased_always_on", withParent(), false},
		{"sampled", "always_on", call("echo"), false},
		{"sampled-parent-link", "always_on", sampledParent, true},
	} {
		b.Run(bm.name, func(b *testing.B) {
			o, r := ownObserver(b, bm.sampler), finished(b, bm.in)
			ctx := context.Background()
			if bm.ambient {
				ctx = trace.ContextWithSpanContext(ctx, someSpan)
			}
			b.ReportAllocs()
			for b.Loop() {
				replay(o, ctx, r)
			}
		})
	}
	b.Run("defaults", func(b *testing.B) {
		o, r := unexportedObserver(b), finished(b, call("echo"))
		b.ReportAllocs()
		for b.Loop() {
			replay(o, context.Background(), r)
		}
	})
	b.Run("unsampled-given", func(b *testing.B) {
		o, r := benchObserver(b, sdktrace.NeverSample()), finished(b, call("echo"))
		b.ReportAllocs()
		for b.Loop() {
			replay(o, context.Background(), r)
		}
	})
	b.Run("extraction", func(b *testing.B) {
		r := finished(b, withParent())
		b.ReportAllocs()
		for b.Loop() {
			propagation.TraceContext{}.Extract(context.Background(), metaCarrier{&r.Meta})
		}
	})
}

// unexportedObserver is an observer with the defaults: requests are sampled and nothing is exported. The
// ring has taken what it wants of a request.
func unexportedObserver(tb testing.TB) *observer {
	tb.Setenv("OTEL_TRACES_SAMPLER", "")
	tel, err := New(WithPropagator(propagation.TraceContext{}))
	if err != nil {
		tb.Fatal(err)
	}
	o, r := observerOf(tel), finished(tb, call("echo"))
	for range 2 * slowPerSeries {
		replay(o, context.Background(), r)
	}
	return o
}

// TestCostAllocations holds the budget of allocations for a call whose span is not exported: the
// observation, and with a provider that is given, the span and the context that it makes.
func TestCostAllocations(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      *observer
		budget float64
	}{
		{"own provider", ownObserver(t, "always_off"), 1},
		{"given provider", benchObserver(t, sdktrace.NeverSample()), 3},
		{"own provider, sampled and not exported", unexportedObserver(t), 1},
	} {
		r := finished(t, call("echo"))
		allocs := testing.AllocsPerRun(200, func() { replay(c.o, context.Background(), r) })
		if allocs > c.budget {
			t.Errorf("%s: a call costs %v allocations; the budget is %v", c.name, allocs, c.budget)
		}
		r = finished(t, withParent())
		extraction := testing.AllocsPerRun(200, func() {
			propagation.TraceContext{}.Extract(context.Background(), metaCarrier{&r.Meta})
		})
		allocs = testing.AllocsPerRun(200, func() { replay(c.o, context.Background(), r) })
		if allocs > c.budget+extraction {
			t.Errorf("%s: a call with a parent costs %v allocations; the budget is %v and %v of the extraction",
				c.name, allocs, c.budget, extraction)
		}
	}
	if size := unsafe.Sizeof(Operation{}); size > 208 {
		t.Errorf("an operation has %d bytes, which is the next class of sizes", size)
	}
}

// ordinary is an observer whose ring has taken what it wants of a request: what follows
// is what almost all requests are.
func ordinary(tb testing.TB, recent Recent, sampler sdktrace.Sampler) (*observer, *session.Request) {
	tel, err := New(WithRecent(recent), WithPropagator(propagation.TraceContext{}),
		WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))))
	if err != nil {
		tb.Fatal(err)
	}
	o, r := observerOf(tel), finished(tb, call("echo"))
	for range 2 * slowPerSeries {
		replay(o, context.Background(), r)
	}
	return o, r
}

// TestRingAllocations: the ring costs an ordinary request no allocation.
func TestRingAllocations(t *testing.T) {
	cost := func(recent Recent) float64 {
		o, r := ordinary(t, recent, sdktrace.NeverSample())
		return testing.AllocsPerRun(500, func() { replay(o, context.Background(), r) })
	}
	if with, without := cost(Recent{}), cost(Recent{Traces: -1}); with > without {
		t.Errorf("an ordinary request costs %v allocations with the ring, %v without", with, without)
	}
}

// BenchmarkRing measures what the ring alone costs: an ordinary request, and one that is
// kept while its class is full.
func BenchmarkRing(b *testing.B) {
	b.Run("ordinary", func(b *testing.B) {
		o, r := ordinary(b, Recent{}, sdktrace.NeverSample())
		op, out := operationOf(r), Outcome{Fate: FateSent, Settled: r.Latency()}
		b.ReportAllocs()
		for b.Loop() {
			o.tel.recent.ended(op, &out, "")
		}
	})
	b.Run("flood", func(b *testing.B) {
		o, r := ordinary(b, Recent{}, sdktrace.NeverSample())
		op, out := operationOf(r), Outcome{Fate: FateSent, Settled: r.Latency(), Err: mcp.NewError(mcp.CodeInternalError, "no")}
		b.ReportAllocs()
		for b.Loop() {
			o.tel.recent.ended(op, &out, "-32603")
		}
	})
	b.Run("kept", func(b *testing.B) {
		o, r := ordinary(b, Recent{}, sdktrace.NeverSample())
		op, out := operationOf(r), Outcome{Fate: FateSent, Settled: r.Latency()}
		b.ReportAllocs()
		for b.Loop() {
			o.tel.recent.rings[classRecent].second = 0
			o.tel.recent.add(classRecent, op, &out, "")
		}
	})
}

// BenchmarkSampled measures a sampled request without an exporter, which is the default:
// with the ring each span that ends is copied by the SDK, to be looked at.
func BenchmarkSampled(b *testing.B) {
	for name, recent := range map[string]Recent{"ring": {}, "no-ring": {Traces: -1}} {
		b.Run(name, func(b *testing.B) {
			o, r := ordinary(b, recent, sdktrace.AlwaysSample())
			b.ReportAllocs()
			for b.Loop() {
				replay(o, context.Background(), r)
			}
		})
	}
}

// BenchmarkLiveFrame measures one frame of a busy server: what a console that somebody
// looks at costs a second.
func BenchmarkLiveFrame(b *testing.B) {
	o, r := ordinary(b, Recent{}, sdktrace.NeverSample())
	for i := range 300 {
		o.tel.Series(mcp.MethodToolsCall, fmt.Sprint("tool", i)).latency.observe(time.Duration(i)*time.Millisecond, i%9 == 0)
	}
	o.tel.AddSource(sourceOf(session.New(session.Config{})))
	maker := newFrameMaker(o.tel)
	maker.next()
	replay(o, context.Background(), r)
	b.ReportAllocs()
	for b.Loop() {
		maker.next().Event()
	}
}

// BenchmarkExported measures a sampled request on its whole way: from the beginning of its
// span to the bytes that a collector has received, in full batches. The steps before are on
// the rows above the last.
func BenchmarkExported(b *testing.B) {
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer collector.Close()
	for _, bm := range []struct {
		name   string
		recent Recent
		export bool
	}{
		{"span", Recent{Traces: -1}, false}, {"kept", Recent{}, false}, {"exported", Recent{}, true},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.URL)
			tel, err := New(WithRecent(bm.recent), WithPropagator(propagation.TraceContext{}))
			if err != nil {
				b.Fatal(err)
			}
			if bm.export {
				if err := TestBridge.Start(context.Background(), tel); err != nil {
					b.Fatal(err)
				}
			}
			o, r := observerOf(tel), finished(b, call("echo"))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				replay(o, context.Background(), r)
				if i%sdktrace.DefaultMaxExportBatchSize == 0 {
					if err := tel.owned.ForceFlush(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := tel.Shutdown(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

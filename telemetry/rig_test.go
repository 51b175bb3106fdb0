package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a session core with our observer, a dispatcher made of functions, and
// recorded spans.
type rig struct {
	t        *testing.T
	tel      *Telemetry
	core     *session.Core
	observer session.Observer
	spans    *tracetest.SpanRecorder
	tools    map[string]session.Handle
	other    map[string]session.Handle // by method
	classes  map[string]*session.Class // by tool
	streams  bool                      // its tools do
	// observed counts the requests that the observer has heard the beginning of and not
	// the end, which comes after the request has left the core's tables.
	observed atomic.Int64
}

// A watcher counts the calls of an observer.
type watcher struct {
	session.Observer
	observed *atomic.Int64
}

func (w *watcher) Begin(ctx context.Context, r *session.Request) context.Context {
	w.observed.Add(1)
	return w.Observer.Begin(ctx, r)
}

func (w *watcher) Rejected(r *session.Request, reason mcp.RejectReason, err *mcp.Error) {
	defer w.observed.Add(-1)
	w.Observer.Rejected(r, reason, err)
}

func (w *watcher) Finished(work session.Work) {
	if _, ok := work.(*session.Request); ok {
		defer w.observed.Add(-1)
	}
	w.Observer.Finished(work)
}

type rigConfig struct {
	limits    limits.Limits
	sampler   sdktrace.Sampler
	telemetry []Option
	panics    bool // the test makes the observer panic
}

func newRig(t *testing.T, cfg rigConfig) *rig {
	t.Helper()
	r := &rig{t: t, spans: tracetest.NewSpanRecorder(), tools: map[string]session.Handle{}, other: map[string]session.Handle{}, classes: map[string]*session.Class{}}
	if cfg.sampler == nil {
		cfg.sampler = sdktrace.ParentBased(sdktrace.AlwaysSample())
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans), sdktrace.WithSampler(cfg.sampler))
	tel, err := New(append([]Option{WithTracerProvider(provider), WithLogger(slog.New(slog.DiscardHandler))}, cfg.telemetry...)...)
	require.NoError(t, err)
	r.tel = tel
	r.observer = TestBridge.Observer(tel)
	r.core = session.New(session.Config{Dispatcher: r, Observer: &watcher{r.observer, &r.observed}, Limits: cfg.limits})
	tel.AddSource(sourceOf(r.core))
	t.Cleanup(func() {
		require.True(t, cfg.panics || r.core.Snapshot().Counters.ObserverPanics == 0, "the observer has panicked")
	})
	r.tools["echo"] = func(context.Context, *session.Request) (mcp.Result, error) { return &mcp.CallToolResult{}, nil }
	return r
}

// Route implements [session.Dispatcher] as a server does: unknown names have no target.
func (r *rig) Route(in *session.Inbound, _ *session.Session) *session.Route {
	if in.Method == mcp.MethodToolsCall {
		if h := r.tools[in.Name]; h != nil {
			return &session.Route{Series: r.core.Series(in.Method, in.Name), Handle: h, Deadline: time.Second, Class: r.classes[in.Name], Streams: r.streams}
		}
		return (&session.Route{Series: r.core.Series(in.Method, "")}).Refuse(mcp.NewError(mcp.CodeInvalidParams, "unknown tool"))
	}
	if h := r.other[in.Method]; h != nil {
		return &session.Route{
			Series: r.core.Series(in.Method, in.Name), Handle: h, BeforeInitialize: true,
			Subscription: in.Method == mcp.MethodSubscriptionsListen,
		}
	}
	return (&session.Route{Series: r.core.Series(other, "")}).Refuse(mcp.NewError(mcp.CodeMethodNotFound, "no such method"))
}

func (r *rig) Notify(context.Context, *session.Inbound, *session.Session) {}

func (r *rig) Encode(dst []byte, _ *session.Request, result mcp.Result) (_, rest []byte, err error) {
	b, err := json.Marshal(result)
	return append(dst, b...), nil, err
}

var httpConn = &session.Conn{
	Transport: "http", Network: "tcp", Protocol: "http", ProtocolVersion: "1.1", RemoteAddr: "192.0.2.7:4711",
}

var pipeConn = &session.Conn{Transport: "stdio", Network: "pipe"}

// call is a modern tools/call.
func call(tool string) *session.Inbound {
	return &session.Inbound{
		Era: mcp.Modern, Version: mcp.LatestVersion, Conn: httpConn, Bytes: 321,
		Envelope: wire.Envelope{
			Kind: wire.Request, ID: mcp.IntID(7), Method: mcp.MethodToolsCall, Name: tool, HasName: true,
			Meta: wire.Meta{ClientInfo: []byte(`{"name":"tester","version":"1.2"}`)},
		},
	}
}

// post sends a modern request over its own HTTP exchange and waits for its end.
func (r *rig) post(in *session.Inbound, s stream.Sink) {
	st := r.core.Exchange(in.Conn, 1, mcp.Modern)
	r.core.Receive(in, st)
	_ = st.Pump(s)
	r.rest()
}

// rest waits until nothing is in flight.
func (r *rig) rest() {
	r.t.Helper()
	for range 2000 {
		if r.core.Pending() == 0 && r.observed.Load() == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.t.Fatal("requests are still in flight")
}

// shutdown ends the core.
func (r *rig) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_ = r.core.Shutdown(ctx)
}

// span returns the one span of a request that has ended so far.
func (r *rig) span() sdktrace.ReadOnlySpan {
	r.t.Helper()
	spans := slices.DeleteFunc(r.spans.Ended(), func(s sdktrace.ReadOnlySpan) bool {
		return strings.HasPrefix(s.Name(), "notifications/")
	})
	require.Len(r.t, spans, 1)
	return spans[0]
}

func attrsOf(s sdktrace.ReadOnlySpan) map[string]any { return attrMap(s.Attributes()) }

func attrMap(kvs []attribute.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range kvs {
		m[string(kv.Key)] = kv.Value.AsInterface()
	}
	return m
}

func eventsOf(s sdktrace.ReadOnlySpan) map[string]map[string]any {
	m := map[string]map[string]any{}
	for _, e := range s.Events() {
		m[e.Name] = attrMap(e.Attributes)
	}
	return m
}

// gather returns the registry's metrics by name.
func gather(t *testing.T, reg prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	m := map[string]*dto.MetricFamily{}
	for _, f := range families {
		m[f.GetName()] = f
	}
	return m
}

// find returns the one series of a metric with all these labels, or nil.
func find(families map[string]*dto.MetricFamily, name string, labels map[string]string) *dto.Metric {
	for _, m := range families[name].GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		match := true
		for k, v := range labels {
			match = match && have[k] == v
		}
		if match {
			return m
		}
	}
	return nil
}

// value returns a counter's or gauge's value, and -1 if there is no such series.
func value(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	want := map[string]string{}
	for pair := range slices.Chunk(labels, 2) {
		want[pair[0]] = pair[1]
	}
	m := find(families, name, want)
	switch {
	case m == nil:
		return -1
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	return m.GetGauge().GetValue()
}

// sum adds up all series of a counter.
func sum(families map[string]*dto.MetricFamily, name string) (total float64) {
	for _, m := range families[name].GetMetric() {
		total += m.GetCounter().GetValue()
	}
	return total
}

// A sink takes all messages, or fails as the test wants.
type sink struct {
	mu     sync.Mutex
	frames int
	fail   error
	block  chan struct{} // Write waits for it
}

func (s *sink) Write(*stream.Message) error {
	if s.block != nil {
		<-s.block
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frames++
	return s.fail
}

func (s *sink) Flush() error               { return nil }
func (s *sink) SetWriteDeadline(time.Time) {}

func brokenPipe(reason mcp.DropReason) error {
	return &stream.WriteError{Reason: reason, Err: io.ErrClosedPipe}
}

var errPrivate = errors.New("the database password is wrong")

func keys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

package telemetry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// observer turns what the core reports into spans and metrics.
type observer struct {
	metrics    *instruments
	recent     *recents
	tracer     trace.Tracer
	sampling   *sampling // nil: the tracer decides
	spanKey    any       // under which a context has its span
	copies     bool      // the provider is the SDK's, whose spans copy attributes
	propagator propagation.TextMapPropagator
	clients    *clientNames
	untrusted  bool
	payloads   payloads
	now        func() time.Time
	complain   func(msg string, args ...any)
	panicked   func(what string, value any, complain bool)
	watch      atomic.Pointer[handlerWatch] // nil: nobody watches

	mu     sync.Mutex                                    // guards the writing of series
	series atomic.Pointer[map[seriesKey]*observedSeries] // copied on write
}

// An observedSeries is what an observer knows of one method and target: the meter, which
// may be shared with others, and what is its own.
type observedSeries struct {
	*seriesMeter
	observer *observer
	latency  latencySketch
	recent   recentSeries
}

func newObserver() *observer {
	o := &observer{spanKey: unknownKey{}, clients: newClientNames()}
	o.series.Store(&map[seriesKey]*observedSeries{})
	return o
}

// seriesOf is of for a series of the core, which remembers it.
func (o *observer) seriesOf(s *session.Series) *observedSeries {
	if known, ok := s.Observation.Load().(*observedSeries); ok && known.observer == o {
		return known
	}
	known := o.of(s.Method, s.Target)
	s.Observation.Store(known)
	return known
}

// of returns a series, making it on first use.
func (o *observer) of(method, target string) *observedSeries {
	key := seriesKey{method, target}
	if s := (*o.series.Load())[key]; s != nil {
		return s
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	old := *o.series.Load()
	if s := old[key]; s != nil {
		return s
	}
	s := &observedSeries{seriesMeter: o.metrics.of(method, target), observer: o}
	s.recent.floor.Store(noFloor)
	o.series.Store(with(old, key, s))
	return s
}

// Begin implements [session.Observer]: it starts the request's span.
func (o *observer) Begin(ctx context.Context, r *session.Request) context.Context {
	ob := &observation{observer: o, series: o.seriesOf(r.Route.Series)}
	r.Observation = ob
	ctx = ob.start(ctx, r.Inbound, r.Session())
	ob.keeps.Store(ob.sampled)
	return ctx
}

// Notified implements [session.Observer]: a notification has a span and a
// duration, but no outcome.
func (o *observer) Notified(ctx context.Context, in *session.Inbound, s *session.Session) (context.Context, func()) {
	ob := &observation{observer: o, series: o.of(o.metrics.notificationLabel(in.Method), "")}
	begin := o.now()
	ctx = ob.start(ctx, in, s)
	return ctx, func() {
		key := operationKey{version: versionLabel(versionOf(in, s)), network: networkOf(in.Conn)}
		ob.operated(key, begin, o.now().Sub(begin))
		ob.span.End()
	}
}

// Rejected implements [session.Observer].
func (o *observer) Rejected(r *session.Request, reason mcp.RejectReason, err *mcp.Error) {
	if ob := observationOf(r); ob != nil {
		ob.end(r, outcome{reject: reason, err: err})
	}
}

// Started implements [session.Observer].
func (o *observer) Started(r *session.Request) {
	if wait, ok := r.QueueWait(); ok {
		o.metrics.queueWaits.Observe(wait.Seconds())
	}
}

// Acknowledged implements [session.Observer]: as an operation a subscription is over
// when it stands. Its span goes on.
func (o *observer) Acknowledged(r *session.Request) {
	if ob := observationOf(r); ob != nil {
		ob.event(eventAcknowledged)
		ob.measure(r, &outcome{}, "")
		ob.measured.Store(true)
	}
}

// Cancelled implements [session.Observer].
func (o *observer) Cancelled(r *session.Request, cancel *mcp.CancelError) {
	ob := observationOf(r)
	if ob == nil {
		return
	}
	ob.event(eventCancelled, cancelAttributes(cancel)...)
	s := r.Route.Series
	ob.exemplify(at(MetricRequestsCancelled, s.Method, s.Target, string(cancel.Cause)))
}

// Panicked implements [session.Observer].
func (o *observer) Panicked(r *session.Request, value any, stack []byte) {
	if ob := observationOf(r); ob != nil {
		ob.panicked(value, stack)
	}
}

// Dropped implements [session.Observer].
func (o *observer) Dropped(r *session.Request, reason mcp.DropReason) {
	ob := observationOf(r)
	if ob == nil {
		return
	}
	ob.event(eventDropped, keyDropReason.String(string(reason)))
	s := r.Route.Series
	ob.exemplify(at(MetricResponsesDropped, s.Method, s.Target, string(reason)))
}

// NotificationDropped implements [session.Observer]. What nobody asked for is no
// loss: handlers may report progress to a client that did not want any.
func (o *observer) NotificationDropped(r *session.Request, method string, reason mcp.DropReason) {
	switch reason {
	case mcp.DropNoProgressToken, mcp.DropLevelFiltered, mcp.DropNotSubscribed, mcp.DropEraForbidden:
		return
	}
	if ob := observationOf(r); ob != nil {
		ob.event(eventLost, keyMethod.String(method), keyDropReason.String(string(reason)))
	}
}

// Abandoned implements [session.Observer]: the span ends here at the latest.
func (o *observer) Abandoned(r *session.Request) {
	if ob := observationOf(r); ob != nil {
		ob.event(eventAbandoned, abandonAttributes(r.Cancellation())...)
		ob.abandoned = true
		ob.end(r, ob.outcome(r))
	}
	o.watch.Load().abandoned(r)
}

// Finished implements [session.Observer].
func (o *observer) Finished(r *session.Request) {
	ob := observationOf(r)
	if ob == nil {
		return
	}
	ob.unwound(r)
	if acknowledged, ok := r.Acknowledged(); ok {
		life := max(r.Latency()-acknowledged, 0)
		if ob.recording {
			ob.span.SetAttributes(keySubscriptionEnd.String(string(r.End())))
		}
		observe(o.metrics.subscription.WithLabelValues(string(r.End())), life.Seconds(), ob.exemplar())
	}
	ob.series.requestBytes.Observe(float64(r.Bytes))
	if n := r.ReplyBytes(); n > 0 {
		ob.series.responseBytes.Observe(float64(n))
	}
	if _, started := r.QueueWait(); !started {
		o.metrics.queueWaits.Observe(r.Latency().Seconds()) // it waited in vain, but it waited
	}
	if ob.abandoned {
		ob.returnedLate(r)
		return
	}
	ob.end(r, ob.outcome(r))
	o.watch.Load().finished(r)
}

// Written implements [session.Observer].
func (o *observer) Written(c *session.Conn, _ int, took time.Duration) { o.metrics.written(c, took) }

// SessionOpened implements [session.Observer].
func (o *observer) SessionOpened(*session.Session) {}

// SessionClosed implements [session.Observer].
func (o *observer) SessionClosed(s *session.Session, cause mcp.Cause) {
	o.metrics.sessionEnded(s, cause, o.now())
}

// metaCarrier reads a trace context from the _meta of a request. It is one
// pointer, so that making it an interface allocates nothing.
type metaCarrier struct{ meta *wire.Meta }

// Get implements [propagation.TextMapCarrier].
func (c metaCarrier) Get(key string) string {
	switch key {
	case mcp.MetaTraceParent:
		return c.meta.TraceParent
	case mcp.MetaTraceState:
		return c.meta.TraceState
	case mcp.MetaBaggage:
		return c.meta.Baggage
	}
	return ""
}

// Set implements [propagation.TextMapCarrier]. A request that was received is not
// written to.
func (metaCarrier) Set(string, string) {}

// Keys implements [propagation.TextMapCarrier].
func (metaCarrier) Keys() []string {
	return []string{mcp.MetaTraceParent, mcp.MetaTraceState, mcp.MetaBaggage}
}

func (c metaCarrier) empty() bool { return c.meta.TraceParent == "" && c.meta.Baggage == "" }

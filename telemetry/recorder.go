package telemetry

import (
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// A recorder turns what happens to operations into spans and metrics.
type recorder struct {
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
	tenants    *tenants // nil: metrics have no such label
	// pseudonymKey is under which spans name principals; nil: by their subjects.
	pseudonymKey []byte
	now          func() time.Time
	complain     func(msg string, args ...any)
	panicked     func(what string, value any, complain bool)
	watch        atomic.Pointer[handlerWatch] // nil: nobody watches
	wire         atomic.Pointer[wireLabels]   // those that were wanted last
	tracked      *tracker
	series       growingMap[seriesKey, *Series]
}

// A Series has what is resolved once for each method and target: see [Telemetry.Series].
// It is safe for concurrent use.
type Series struct {
	*seriesMeter // may be shared with others; the rest is its own
	recorder     *recorder
	latency      latencySketch
	recent       recentSeries
}

// Series returns the series of operations of a method and a target, making it on first
// use; both become labels and must come from closed sets. It costs a look into a map:
// a server can keep the value. Disabled telemetry returns nil.
func (t *Telemetry) Series(method, target string) *Series {
	if t.recorder == nil {
		return nil
	}
	return t.recorder.of(method, target)
}

// of returns a series, making it on first use.
func (o *recorder) of(method, target string) *Series {
	return o.series.get(seriesKey{method, target}, func() *Series {
		s := &Series{seriesMeter: o.metrics.of(method, target), recorder: o}
		s.recent.floor.Store(noFloor)
		return s
	})
}

// wireOf returns the labels of the sender of a message. They are shared: most of a
// server's clients are of one kind.
func (o *recorder) wireOf(info *Info) *wireLabels {
	last := o.wire.Load()
	if last.version == info.Version && last.network == (networkKey{info.Network, info.Protocol, info.ProtocolVersion}) {
		return last
	}
	fresh := info.wire()
	o.wire.Store(&fresh)
	return &fresh
}

package telemetry

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// An idGenerator makes random ids, as the SDK's own does. The root of a trace that was
// decided about gets the id that the decision is of: sampling by the ratio of traces
// looks at the id, and with another one it would be decided twice.
type idGenerator struct{ random func() uint64 }

// newIDGenerator returns a generator of the numbers that the SDK takes, too: ids have to
// differ, and are no secret.
func newIDGenerator() *idGenerator { return &idGenerator{rand.Uint64} }

// NewIDs implements [sdktrace.IDGenerator].
func (g *idGenerator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if op, _ := ctx.Value(idsKey{}).(*Operation); op != nil {
		if id, ok := op.takeTraceID(); ok {
			return id, g.spanID()
		}
	}
	return g.traceID(), g.spanID()
}

// NewSpanID implements [sdktrace.IDGenerator].
func (g *idGenerator) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return g.spanID() }

func (g *idGenerator) traceID() (id trace.TraceID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], g.random())
		binary.NativeEndian.PutUint64(id[8:], g.random())
	}
	return id
}

func (g *idGenerator) spanID() (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], g.random())
	}
	return id
}

// takeTraceID returns the id of a trace that begins here and was decided about, once: the
// traces that the handler begins have ids of their own.
func (op *Operation) takeTraceID() (id trace.TraceID, ok bool) {
	sc := op.unsampled.sc
	if !sc.HasTraceID() || sc.HasSpanID() {
		return id, false
	}
	op.unsampled.sc = trace.SpanContext{}
	return sc.TraceID(), true
}

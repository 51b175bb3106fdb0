package telemetry

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// An idGenerator makes random ids, as the SDK's generator does. If our sampling has decided
// about a new trace, the generator returns the id of that decision. Sampling by ratio depends on
// the id, so another id could lead to another decision.
type idGenerator struct{ random func() uint64 }

// newIDGenerator returns a generator with the random numbers of the SDK's generator. Ids must
// differ; they are no secrets.
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

// takeTraceID returns the id of the new trace that our sampling has decided about. Only the
// first call returns it: traces that the handler begins get other ids.
func (op *Operation) takeTraceID() (id trace.TraceID, ok bool) {
	sc := op.own.sc
	if !sc.HasTraceID() || sc.HasSpanID() {
		return id, false
	}
	op.own.sc = trace.SpanContext{}
	return sc.TraceID(), true
}

package telemetry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// An Operation is one request, from [Telemetry.Begin] to [Operation.End]. Its methods may
// be called from any goroutine, except that one End must not be called while another
// one, or Abandoned, runs. A nil Operation does nothing: disabled telemetry begins those.
type Operation struct {
	series    *Series
	span      trace.Span
	handler   handlerContext
	unsampled unsampledSpan         // is span, if we have decided that it is not sampled
	wire      *wireLabels           // nil if the revision was not known at the beginning
	origin    Origin                // of our own kind (*tracked) if the server is no source
	notes     atomic.Pointer[notes] // nil: none
	// spans are held while the handler runs, if it has started some. finished: it may
	// hold none any more. Both are guarded by spanKeeper.mu.
	spans    *traceSpans
	finished bool
	// sampled and recording are the span's, asked once.
	sampled, recording bool
	abandoned          bool
	marks              atomic.Uint32
	second             uint32 // of the clock in which it arrived
}

// The marks of an operation.
const (
	markToolError uint32 = 1 << iota
	markMeasured         // the duration of the operation is recorded
	// The keeper knows from the context of the handler to whom a span belongs that
	// it starts. A mark, because the processors of a provider see the context before.
	markKeeps
)

func (op *Operation) marked(mark uint32) bool { return op.marks.Load()&mark != 0 }

// notes are what few operations have to remember. They are copied on write.
type notes struct {
	panicked              bool
	panic, argumentFaults string
	failure               string // of the handler
}

func (op *Operation) note(write func(*notes)) {
	for {
		old := op.notes.Load()
		fresh := notes{}
		if old != nil {
			fresh = *old
		}
		write(&fresh)
		if op.notes.CompareAndSwap(old, &fresh) {
			return
		}
	}
}

// info returns what is known of the request now.
func (op *Operation) info() Info { return op.origin.Describe() }

// Method and Target return the labels of the operation.
func (op *Operation) Method() string {
	if op == nil {
		return ""
	}
	return op.series.key.method
}

// Target returns the registered tool or prompt, or "".
func (op *Operation) Target() string {
	if op == nil {
		return ""
	}
	return op.series.key.target
}

// SpanContext returns the identity of the operation's span, which it has even when it is
// not sampled.
func (op *Operation) SpanContext() trace.SpanContext {
	if op == nil {
		return trace.SpanContext{}
	}
	return op.span.SpanContext()
}

// TraceID returns the id of the trace in hexadecimal, or "" if there is none.
func (op *Operation) TraceID() string {
	if sc := op.SpanContext(); sc.HasTraceID() {
		return sc.TraceID().String()
	}
	return ""
}

// HasRuntimeTask reports whether the operation is a task in the trace of the Go runtime by
// its span: the SDK makes a task of each span that it records.
func (op *Operation) HasRuntimeTask() bool {
	if op == nil {
		return false
	}
	_, recorded := op.span.(sdktrace.ReadWriteSpan)
	return recorded
}

// arrivedAt is when the request arrived.
func (op *Operation) arrivedAt() time.Time {
	info := op.info()
	return info.ArrivedAt
}

// attributeRoom holds slices of attributes on their way to a span.
var attributeRoom = sync.Pool{New: func() any {
	attrs := make([]attribute.KeyValue, 0, 24)
	return &attrs
}}

// attributesToSet returns an empty slice for attributes that set gives to the span.
func attributesToSet() *[]attribute.KeyValue {
	return attributeRoom.Get().(*[]attribute.KeyValue)
}

// set gives attributes to the span, and the slice back to the next one if the span is the
// SDK's, which copies them: somebody else's may keep what it is given.
func (op *Operation) set(attrs *[]attribute.KeyValue) {
	op.span.SetAttributes(*attrs...)
	if op.series.tel.copies {
		clear(*attrs) // they may hold on to a frame
		*attrs = (*attrs)[:0]
		attributeRoom.Put(attrs)
	}
}

// measure records the duration of the operation, from arrival to outcome.
func (op *Operation) measure(out *Outcome, errorType string) {
	wire := op.wire
	if wire == nil {
		info := op.info()
		wire = op.series.tel.wireOf(&info)
	}
	key := operationKey{errorType: out.errorLabel(errorType), version: wire.label, network: wire.network}
	if out.Err != nil {
		key.code = codeLabel(out.Err.Code)
	}
	if t := op.series.tel.tenants; t != nil {
		info := op.info()
		key.tenant = t.label(info.tenant())
	}
	var begin time.Time
	if op.sampled {
		begin = op.arrivedAt()
	}
	op.operated(key, begin, out.Settled)
	op.series.latency.observe(out.Settled, errorType != "")
}

// operated records the duration of an operation.
func (op *Operation) operated(key operationKey, begin time.Time, took time.Duration) {
	child := op.series.operation(key)
	child.Observe(took.Seconds())
	if op.sampled {
		child.exemplars.put(took.Seconds(), op.span.SpanContext(), begin.Add(took))
	}
}

// hasPanicked reports whether the handler has.
func (op *Operation) hasPanicked() bool {
	n := op.notes.Load()
	return n != nil && n.panicked
}

// A handlerContext is the context of a request's handler, or is beneath it. It is a part of
// the operation, because a context of its own would be an allocation for each.
type handlerContext struct {
	context.Context
	op *Operation
	// span is the current one: at first the parent of the request's span, and then that
	// span, if it is not recorded. It does not change once others have the context.
	span trace.Span
}

type operationContextKey struct{}

// Value implements [context.Context]. It allocates nothing, and asks the contexts beneath
// for what is not known here.
func (c *handlerContext) Value(key any) any {
	switch key.(type) {
	case operationContextKey:
		if c.op.marked(markKeeps) {
			return c.op
		}
	case idsKey:
		return c.op
	}
	if key == c.op.series.tel.spanKey {
		return c.span
	}
	return c.Context.Value(key)
}

// idsKey asks a context for the operation that may have decided about a trace.
type idsKey struct{}

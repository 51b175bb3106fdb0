package telemetry

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// An Operation is one request, from [Telemetry.Begin] to [Operation.End]. Its methods are safe
// for concurrent use, but calls of End and Abandoned must not overlap. A nil Operation does
// nothing; disabled telemetry returns it.
type Operation struct {
	series  *Series
	span    trace.Span
	handler handlerContext
	own     recordedSpan          // the span if our sampling decided that the provider need not make it
	wire    *wireLabels           // nil if the revision was unknown at the beginning
	origin  Origin                // a *tracked if the server is no [Source]
	notes   atomic.Pointer[notes] // nil: none
	// spans are held while the handler runs, if it has started some. No spans are held after
	// finished. Both are guarded by spanBuffer.mu.
	spans    *traceSpans
	finished bool
	// sampled and recording are properties of the span.
	sampled, recording bool
	abandoned          bool
	marks              atomic.Uint32
	arrived            int64 // in ns since 1970
}

// The marks of an operation.
const (
	markToolError    uint32 = 1 << iota
	markArguments           // the arguments of the call were rejected
	markCallersFault        // the handler's error is the caller's fault
	markMeasured            // the duration of the operation is recorded
	// The context of the handler has the operation for the buffer of spans. It is a mark because
	// processors of the provider see the context before the operation is sampled.
	markBuffers
	markRoot     // the span begins a new trace, whatever its context says
	markRecorded // the span is our own and recorded
	markEnded    // that span has ended
)

func (op *Operation) marked(mark uint32) bool { return op.marks.Load()&mark != 0 }

// notes has what few operations need. It is copied on write.
type notes struct {
	panicked              bool
	panic, argumentFaults string
	failure               string   // of the handler
	rule, effect, reason  string   // of the decision whether the caller may do this
	journal               *journal // of the operation's span if that is our own; nil: empty
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

// info describes the request at the moment.
func (op *Operation) info() Info { return op.origin.Describe() }

// Method returns the method of the operation's labels.
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

// SpanContext returns the identity of the operation's span. The span has one even if it is not
// sampled.
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

// HasRuntimeTask reports whether the operation's span is a task in the trace of the Go runtime.
// The SDK makes a task for each span that it records.
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

// attributeRoom is a pool of slices for attributes. The plain version is a new slice for each span.
var attributeRoom = sync.Pool{New: func() any {
	attrs := make([]attribute.KeyValue, 0, 24)
	return &attrs
}}

// attributesToSet returns an empty slice of the pool.
func attributesToSet() *[]attribute.KeyValue {
	return attributeRoom.Get().(*[]attribute.KeyValue)
}

// set sets attributes on the span. It returns the slice to the pool if the span is the SDK's,
// which copies attributes. Spans of other implementations may keep the slice.
func (op *Operation) set(attrs *[]attribute.KeyValue) {
	op.span.SetAttributes(*attrs...)
	if op.series.tel.copies {
		clear(*attrs) // they may refer to a frame
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
	key := operationKey{errorType: cmp.Or(out.errorLabel(errorType), out.givenUp()), version: wire.label, network: wire.network}
	if out.Err != nil {
		key.code = codeLabel(out.Err.Code)
	}
	if t := op.series.tel.tenants; t != nil {
		info := op.info()
		key.tenant = t.label(info.tenant())
	}
	op.operated(key, time.Unix(0, op.arrived), out.Settled)
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

// parent returns the id of the parent of the operation's span, or zero.
func (op *Operation) parent() trace.SpanID {
	if op.marked(markRoot) {
		return trace.SpanID{}
	}
	return trace.SpanContextFromContext(op.handler.Context).SpanID()
}

// hasPanicked reports whether the handler has.
func (op *Operation) hasPanicked() bool {
	n := op.notes.Load()
	return n != nil && n.panicked
}

// A handlerContext is the context of a request's handler, or a parent of it. It is a field of
// the operation, which saves an allocation.
type handlerContext struct {
	context.Context
	op *Operation
	// span is the span of the context: first the parent of the request's span, and then that span
	// if it is not recorded. It does not change after others have the context.
	span trace.Span
}

type operationContextKey struct{}

// Value implements [context.Context]. It does not allocate.
func (c *handlerContext) Value(key any) any {
	switch key.(type) {
	case operationContextKey:
		if c.op.marked(markBuffers) {
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

// idsKey is the key under which a context has the operation, for the generator of ids.
type idsKey struct{}

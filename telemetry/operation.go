package telemetry

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
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

// Begin begins an operation: a request has arrived. The context that it returns is the
// handler's, derived from ctx, and has the operation's span. The caller must end the
// operation.
//
// Unless the server is a [Source] (see [Info.Origin]), the operation is shown and counted
// by telemetry itself, and what [Telemetry.HTTP] has put into ctx fills in what info
// leaves out. Panics of what users have plugged into telemetry, such as a sampler, are then contained and
// counted ([MetricPanics]); a [Source] contains them itself.
func (t *Telemetry) Begin(ctx context.Context, info Info) (context.Context, *Operation) {
	if !t.Enabled() {
		return ctx, nil
	}
	if info.Origin == nil {
		return t.track(ctx, info)
	}
	op := &Operation{series: info.Series, origin: info.Origin}
	return op.begin(ctx, &info), op
}

// begin starts the span of a request.
func (op *Operation) begin(ctx context.Context, info *Info) context.Context {
	t := op.series.tel
	if info.Version != "" {
		op.wire = t.wireOf(info)
	}
	op.second = uint32(info.ArrivedAt.Unix())
	ctx = op.start(ctx, info)
	if op.sampled {
		op.marks.Or(markKeeps)
	}
	return ctx
}

// Notification frames the handling of a notification, which has a span and a duration,
// but no outcome: it returns the context for it, derived from ctx, and a function to be
// called at its end. A panic of what users have plugged into telemetry is the caller's to contain.
func (t *Telemetry) Notification(ctx context.Context, info Info) (context.Context, func()) {
	if !t.Enabled() {
		return ctx, func() {}
	}
	if info.Series == nil {
		info.Series = t.Series(notificationLabel(info.Method), "")
	}
	op := &Operation{series: info.Series}
	begin, wire := t.now(), info.wire()
	ctx = op.start(ctx, &info)
	return ctx, func() {
		key := operationKey{version: wire.label, network: wire.network, tenant: t.tenants.label(info.tenant())}
		op.operated(key, begin, t.now().Sub(begin))
		op.span.End()
	}
}

// The options that the spans of requests have, and those that begin a trace for mistrust.
var (
	spanOptions = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	rootOptions = append(slices.Clip(spanOptions), trace.WithNewRoot())
)

// start starts the span. The caller's context comes from the message; the ambient span
// (of the HTTP server, or else of the HTTP header) is the parent only without one, and
// linked otherwise.
func (op *Operation) start(ctx context.Context, info *Info) context.Context {
	t := op.series.tel
	span := trace.SpanFromContext(ctx) // that of the context which becomes the parent
	ambient, foreign := span.SpanContext(), false
	if !ambient.IsValid() && len(info.Header["Traceparent"]) > 0 {
		header := t.propagator.Extract(ctx, propagation.HeaderCarrier(info.Header))
		caller := trace.SpanFromContext(header)
		ambient, foreign = caller.SpanContext(), t.untrusted
		if !foreign {
			ctx, span = header, caller
		}
	}
	parent, remote := ctx, trace.SpanContext{}
	if info.Carrier != nil {
		extracted := t.propagator.Extract(ctx, info.Carrier)
		caller := trace.SpanFromContext(extracted)
		if sc := caller.SpanContext(); !sc.Equal(ambient) {
			remote = sc
		}
		if !t.untrusted {
			parent, span = extracted, caller
		}
	}
	op.handler.Context, op.handler.op, op.handler.span = parent, op, span
	root := t.untrusted && remote.IsValid()
	if op.drop(root) {
		return &op.handler
	}
	options := spanOptions
	if root {
		options = rootOptions
	}
	ctx, op.span = t.tracer.Start(&op.handler, op.series.spanName, options...)
	op.sampled, op.recording = op.span.SpanContext().IsSampled(), op.span.IsRecording()
	if op.recording {
		if ambient.IsValid() && (foreign || remote.IsValid()) {
			op.span.AddLink(trace.Link{SpanContext: ambient})
		}
		if remote.IsValid() && t.untrusted {
			op.span.AddLink(trace.Link{SpanContext: remote})
		}
		op.describe(info)
	}
	return ctx
}

// describe puts on the span what is known at the beginning.
func (op *Operation) describe(info *Info) {
	known := *info
	if info.Origin != nil {
		known = info.Origin.Describe()
	}
	attrs := attributesToSet()
	*attrs = op.series.tel.messageAttributes(append(*attrs, op.series.attributes...), &known)
	op.set(attrs)
	op.recordArguments(&known)
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

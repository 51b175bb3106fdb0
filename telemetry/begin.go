package telemetry

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// Begin begins an operation when a request arrives. It returns the context for the handler,
// which is derived from ctx and has the operation's span. The caller must end the operation.
//
// For a server that is not a [Source] (see [Info.Origin]), telemetry shows and counts the
// operation itself, takes the fields that info leaves out from [Telemetry.HTTP], and contains
// and counts panics of the user's extensions, such as a sampler ([MetricPanics]). A [Source]
// contains these panics itself.
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

// Notification records the handling of a notification. A notification has a span and a
// duration, but no outcome. It returns a context derived from ctx, and a function that the
// caller must call at the end. The caller must contain panics of the user's extensions, such as
// a sampler.
func (t *Telemetry) Notification(ctx context.Context, info Info) (context.Context, func()) {
	if !t.Enabled() {
		return ctx, func() {}
	}
	if info.Series == nil {
		info.Series = t.Series(notificationLabel(info.Method), "")
	}
	op := &Operation{series: info.Series}
	begin, wire := t.now(), info.wire()
	if info.ArrivedAt.IsZero() {
		info.ArrivedAt = begin
	}
	ctx = op.start(ctx, &info)
	return ctx, func() {
		key := operationKey{version: wire.label, network: wire.network, tenant: t.tenants.label(info.tenant())}
		op.operated(key, begin, t.now().Sub(begin))
		if !op.marked(markRecorded) {
			op.span.End()
			return
		}
		op.endRecorded(nil, func() *record { return newRecord("", op, &info, &Outcome{}, "") })
	}
}

// begin starts the span of a request.
func (op *Operation) begin(ctx context.Context, info *Info) context.Context {
	t := op.series.tel
	op.series.enter(info.Class)
	if info.Version != "" {
		op.wire = t.wireOf(info)
	}
	op.arrived = info.ArrivedAt.UnixNano()
	ctx = op.start(ctx, info)
	if op.sampled {
		op.marks.Or(markBuffers)
	}
	return ctx
}

// spanOptions are the options of the spans of requests, rootOptions those of spans that begin a new
// trace for an untrusted caller.
var (
	spanOptions = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	rootOptions = append(slices.Clip(spanOptions), trace.WithNewRoot())
)

// start starts the span. Its parent is the trace context of the message. Without one the parent
// is the ambient span, of the HTTP server or else of the HTTP header. Otherwise the span is
// linked to the ambient span.
func (op *Operation) start(ctx context.Context, info *Info) context.Context {
	t := op.series.tel
	span := trace.SpanFromContext(ctx) // the span of the context that becomes the parent
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
	if op.decide(root) {
		if op.recording && t.payloads.arguments != nil {
			known := info.known()
			op.recordArguments(&known)
		}
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

// describe sets the attributes that are known at the beginning.
func (op *Operation) describe(info *Info) {
	known := info.known()
	attrs := attributesToSet()
	*attrs = op.series.tel.messageAttributes(append(*attrs, op.series.attributes...), &known)
	op.set(attrs)
	op.recordArguments(&known)
}

// messageAttributes appends the attributes of a request or a notification when it arrives.
func (t *Telemetry) messageAttributes(attrs []attribute.KeyValue, info *Info) []attribute.KeyValue {
	if !info.ID.IsZero() {
		attrs = append(attrs, keyRequestID.String(logline.Printable(info.ID.String(), maxText)))
	}
	attrs = appendText(attrs, keyResourceURI, logline.Printable(info.URI, maxURI))
	attrs = appendText(attrs, keySessionID, info.spanSession())
	attrs = appendConn(attrs, info, keyClientAddress, keyClientPort)
	attrs = appendText(appendText(attrs, keyVia, info.Via), keyForwardedFor, info.ForwardedFor)
	attrs = t.appendPrincipal(attrs, info.Principal)
	return t.appendPeer(attrs, info)
}

// appendPeer appends the client's protocol revision, name and version.
func (t *Telemetry) appendPeer(attrs []attribute.KeyValue, info *Info) []attribute.KeyValue {
	attrs = appendText(attrs, keyProtocolVersion, logline.Printable(string(info.Version), maxName))
	name, version := info.client(t.clients)
	return appendText(appendText(attrs, keyClientName, name), keyClientVersion, version)
}

// wireOf returns the labels of the sender of a message. Messages of equal senders share them. The
// plain version makes them for each message.
func (t *Telemetry) wireOf(info *Info) *wireLabels {
	last := t.wire.Load()
	if last.version == info.Version && last.network == (networkKey{info.Network, info.Protocol, info.ProtocolVersion}) {
		return last
	}
	fresh := info.wire()
	t.wire.Store(&fresh)
	return &fresh
}

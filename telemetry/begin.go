package telemetry

import "context"

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
	ctx = op.start(ctx, &info)
	return ctx, func() {
		key := operationKey{version: wire.label, network: wire.network, tenant: t.tenants.label(info.tenant())}
		op.operated(key, begin, t.now().Sub(begin))
		op.span.End()
	}
}

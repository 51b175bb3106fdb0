package telemetry

import "context"

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

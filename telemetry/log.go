package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler returns a handler that adds trace_id and span_id of the context's span to each
// record, on its top level, and passes the record to next. After [Telemetry.ExportLogs] it also
// exports the records for which next is enabled. If next is a handler of LogHandler, LogHandler
// returns next itself, so that no record has the ids twice. If next is nil, records go to the
// handler of slog's default logger at the time of the record: such a handler must not become
// that of the default logger itself.
//
// A panic of next is contained and counted ([MetricPanics]). The record is lost.
func (t *Telemetry) LogHandler(next slog.Handler) slog.Handler {
	if h, ok := next.(*logHandler); ok {
		return h
	}
	return &logHandler{t: t, base: next, next: next}
}

// logHandler is a [slog.Handler].
type logHandler struct {
	t *Telemetry
	// base is next without the groups and what follows them: attributes that are added to base
	// are on the top level. Both are nil if records go to slog's default logger.
	base, next slog.Handler
	steps      []logStep                     // all of them, for the bridge and the default logger
	grouped    int                           // how many of the steps base has; all if no group is open
	bridge     atomic.Pointer[slog.Handler]  // t.logs with the steps; nil before the first record
	standard   atomic.Pointer[defaultLogger] // the latest default logger
}

// A defaultLogger is a default logger of slog, and its handler with the steps.
type defaultLogger struct {
	*slog.Logger
	handler slog.Handler
}

// A logStep is a WithGroup or a WithAttrs.
type logStep struct {
	group string
	attrs []slog.Attr
}

// contain is deferred around the program's handlers. They run on goroutines without another
// guard, such as those that read messages. It does not log a panic over a record of
// [Telemetry.complain], because that record would panic too.
func (h *logHandler) contain(ctx context.Context) {
	if v := recover(); v != nil {
		h.t.panicked("log handler", v, ctx.Value(ownComplaint{}) == nil)
	}
}

// ofDefault returns the handler of slog's default logger. Programs usually make a server before
// they, or package service, set the default logger.
func (h *logHandler) ofDefault() slog.Handler {
	logger := slog.Default()
	last := h.standard.Load()
	if last == nil || last.Logger != logger {
		last = &defaultLogger{logger, h.t.LogHandler(logger.Handler())}
		for _, s := range h.steps {
			last.handler = h.apply(s, last.handler)
		}
		h.standard.Store(last)
	}
	return last.handler
}

// Enabled implements [slog.Handler].
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	if h.next == nil {
		return h.ofDefault().Enabled(ctx, level)
	}
	defer h.contain(ctx)
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	return h.with(logStep{attrs: attrs})
}

// WithGroup implements [slog.Handler].
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(logStep{group: name})
}

func (h *logHandler) with(step logStep) slog.Handler {
	c := &logHandler{t: h.t, base: h.base, steps: append(slices.Clip(h.steps), step), grouped: h.grouped}
	if h.next == nil {
		return c
	}
	c.next = h.apply(step, h.next)
	if h.grouped == len(h.steps) && step.group == "" {
		c.base, c.grouped = c.next, len(c.steps)
	}
	return c
}

// apply applies a step to a handler. If that panics, it returns the handler without the step.
func (h *logHandler) apply(step logStep, to slog.Handler) (derived slog.Handler) {
	derived = to
	defer h.contain(context.Background())
	if step.group != "" {
		return to.WithGroup(step.group)
	}
	return to.WithAttrs(step.attrs)
}

// Handle implements [slog.Handler].
func (h *logHandler) Handle(ctx context.Context, rec slog.Record) error {
	if h.next == nil {
		return h.ofDefault().Handle(ctx, rec)
	}
	if root := h.t.logs.Load(); root != nil && ctx.Value(ownComplaint{}) == nil {
		_ = h.give(ctx, h.bridgeOf(root), rec.Clone()) // the bridge returns no errors; its exporter is watched
	}
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return h.give(ctx, h.next, rec)
	}
	attrs := []slog.Attr{
		slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()),
	}
	if h.grouped == len(h.steps) {
		rec = rec.Clone()
		rec.AddAttrs(attrs...)
		return h.give(ctx, h.next, rec)
	}
	next := h.apply(logStep{attrs: attrs}, h.base)
	for _, s := range h.steps[h.grouped:] {
		next = h.apply(s, next)
	}
	return h.give(ctx, next, rec)
}

// give passes a record to a handler and contains its panic.
func (h *logHandler) give(ctx context.Context, to slog.Handler, rec slog.Record) error {
	defer h.contain(ctx)
	return to.Handle(ctx, rec)
}

// bridgeOf returns the bridge with the steps of h. A Telemetry has one root at most.
func (h *logHandler) bridgeOf(root *slog.Handler) slog.Handler {
	if derived := h.bridge.Load(); derived != nil {
		return *derived
	}
	derived := *root
	for _, s := range h.steps {
		derived = h.apply(s, derived)
	}
	h.bridge.Store(&derived)
	return derived
}

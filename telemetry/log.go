package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler returns a handler that adds trace_id and span_id of the context's
// span to each record, on its top level, before it gives it to next. Once
// [Telemetry.ExportLogs] has started the export of logs, the records that next is
// enabled for are exported too. The handler may be made before that. If next comes
// from LogHandler already, it is returned, so that no record has its ids twice. nil stands for
// the handler of slog's default logger, whichever that is when a record is logged.
//
// A panic of next costs its record and nothing else: it is counted ([MetricPanics]).
func (t *Telemetry) LogHandler(next slog.Handler) slog.Handler {
	if h, ok := next.(*logHandler); ok {
		return h
	}
	return &logHandler{t: t, base: next, next: next}
}

// logHandler is a [slog.Handler].
type logHandler struct {
	t *Telemetry
	// base is next as it was before the first group was opened: what is added to it is
	// on the top level. Both are nil if records go to slog's default logger.
	base, next slog.Handler
	steps      []logStep                     // all of them, for handlers that are made later
	grouped    int                           // how many of steps base has seen; all, if no group is open
	bridge     atomic.Pointer[slog.Handler]  // t.logs with steps applied, once it was needed
	standard   atomic.Pointer[defaultLogger] // the latest default logger
}

// A defaultLogger is a default logger of slog, and its handler with the steps of ours applied.
type defaultLogger struct {
	*slog.Logger
	handler slog.Handler
}

// A logStep is a WithGroup or a WithAttrs.
type logStep struct {
	group string
	attrs []slog.Attr
}

// contain is deferred around what the program's handlers do: on goroutines that nobody else
// guards, such as those that read what clients send. A panic over a complaint of ours is only
// counted: the news of it would go the same way.
func (h *logHandler) contain(ctx context.Context) {
	if v := recover(); v != nil {
		h.t.panicked("log handler", v, ctx.Value(ownComplaint{}) == nil)
	}
}

// ofDefault returns the handler of slog's default logger. A server is usually made before the
// program, or package service, has set the default.
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

// apply returns to with a step, and without if that panics.
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
		_ = h.give(ctx, h.bridgeOf(root), rec.Clone()) // the bridge never fails; its exporter is watched
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

// give gives a record to a handler.
func (h *logHandler) give(ctx context.Context, to slog.Handler, rec slog.Record) error {
	defer h.contain(ctx)
	return to.Handle(ctx, rec)
}

// bridgeOf returns the bridge with the steps of h. There is one root at most in the
// life of a Telemetry.
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

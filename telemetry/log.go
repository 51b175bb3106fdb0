package telemetry

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"
)

// ownComplaint marks the context of log records about telemetry itself. They are
// not exported: a collector that does not answer would get the news of it.
type ownComplaint struct{}

// LogHandler returns a handler that adds trace_id and span_id of the context's
// span to each record, on its top level, before it gives it to next. Once
// [Telemetry.ExportLogs] has started the export of logs, the records that next is
// enabled for are exported too. The handler may be made before that. If next comes
// from LogHandler already, it is returned, so that no record has its ids twice.
//
// A panic of next costs its record and nothing else: it is counted ([MetricPanics]).
func (t *Telemetry) LogHandler(next slog.Handler) slog.Handler {
	if h, ok := next.(*logHandler); ok {
		return h
	}
	next = containedHandler{t, next}
	return &logHandler{t: t, base: next, next: next}
}

// A containedHandler contains the panics of a handler. It is called on goroutines that
// nobody else guards, such as those that read what clients send.
type containedHandler struct {
	t    *Telemetry
	next slog.Handler
}

// Enabled implements [slog.Handler].
func (h containedHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer h.contain(ctx)
	return h.next.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h containedHandler) Handle(ctx context.Context, rec slog.Record) error {
	defer h.contain(ctx)
	return h.next.Handle(ctx, rec)
}

// WithAttrs implements [slog.Handler].
func (h containedHandler) WithAttrs(attrs []slog.Attr) (derived slog.Handler) {
	derived = h
	defer h.contain(context.Background())
	return containedHandler{h.t, h.next.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h containedHandler) WithGroup(name string) (derived slog.Handler) {
	derived = h
	defer h.contain(context.Background())
	return containedHandler{h.t, h.next.WithGroup(name)}
}

// contain is deferred. A panic over a complaint of ours is only counted: the news of it
// would go the same way.
func (h containedHandler) contain(ctx context.Context) {
	if v := recover(); v != nil {
		h.t.panicked("log handler", v, ctx.Value(ownComplaint{}) == nil)
	}
}

// logHandler is a [slog.Handler].
type logHandler struct {
	t *Telemetry
	// base is next as it was before the first group was opened: what is added to it is
	// on the top level.
	base, next slog.Handler
	steps      []logStep                    // all of them, for handlers that are made later
	grouped    int                          // how many of steps base has seen; all, if no group is open
	bridge     atomic.Pointer[slog.Handler] // t.logs with steps applied, once it was needed
}

// A logStep is a WithGroup or a WithAttrs.
type logStep struct {
	group string
	attrs []slog.Attr
}

// Enabled implements [slog.Handler].
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
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
	c := &logHandler{
		t: h.t, base: h.base, next: step.apply(h.next),
		steps: append(slices.Clip(h.steps), step), grouped: h.grouped,
	}
	if h.grouped == len(h.steps) && step.group == "" {
		c.base, c.grouped = c.next, len(c.steps)
	}
	return c
}

func (s logStep) apply(h slog.Handler) slog.Handler {
	if s.group != "" {
		return h.WithGroup(s.group)
	}
	return h.WithAttrs(s.attrs)
}

// Handle implements [slog.Handler].
func (h *logHandler) Handle(ctx context.Context, rec slog.Record) error {
	if root := h.t.logs.Load(); root != nil && ctx.Value(ownComplaint{}) == nil {
		_ = h.bridgeOf(root).Handle(ctx, rec.Clone()) // the bridge never fails; its exporter is watched
	}
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return h.next.Handle(ctx, rec)
	}
	attrs := []slog.Attr{
		slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()),
	}
	if h.grouped == len(h.steps) {
		rec = rec.Clone()
		rec.AddAttrs(attrs...)
		return h.next.Handle(ctx, rec)
	}
	next := h.base.WithAttrs(attrs)
	for _, s := range h.steps[h.grouped:] {
		next = s.apply(next)
	}
	return next.Handle(ctx, rec)
}

// bridgeOf returns the bridge with the steps of h. There is one root at most in the
// life of a Telemetry.
func (h *logHandler) bridgeOf(root *slog.Handler) slog.Handler {
	if derived := h.bridge.Load(); derived != nil {
		return *derived
	}
	var derived slog.Handler = containedHandler{h.t, *root}
	for _, s := range h.steps {
		derived = s.apply(derived)
	}
	h.bridge.Store(&derived)
	return derived
}

package server

import (
	"context"
	"log/slog"
	"slices"
)

// A defaultHandler passes each record to the handler that slog's default logger
// has at that moment. A server is usually made before the program, or package
// service, has set the default; a handler that was captured then would go on
// writing to the old one.
type defaultHandler struct {
	wrap func(slog.Handler) slog.Handler // adds the trace ids; leaves alone what has them
	with []func(slog.Handler) slog.Handler
}

func (h *defaultHandler) next() slog.Handler {
	next := h.wrap(slog.Default().Handler())
	for _, with := range h.with {
		next = with(next)
	}
	return next
}

// Enabled implements slog.Handler.
func (h *defaultHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return slog.Default().Handler().Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *defaultHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.next().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *defaultHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.and(func(next slog.Handler) slog.Handler { return next.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *defaultHandler) WithGroup(name string) slog.Handler {
	return h.and(func(next slog.Handler) slog.Handler { return next.WithGroup(name) })
}

func (h *defaultHandler) and(with func(slog.Handler) slog.Handler) slog.Handler {
	return &defaultHandler{wrap: h.wrap, with: append(slices.Clip(h.with), with)}
}

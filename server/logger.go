package server

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
)

// A defaultHandler passes each record to the handler that slog's default logger
// has at that moment. A server is usually made before the program, or package
// service, has set the default; a handler that was captured then would go on
// writing to the old one.
type defaultHandler struct {
	wrap func(slog.Handler) slog.Handler // adds the trace ids, contains panics; leaves alone what has been wrapped
	with []func(slog.Handler) slog.Handler
	last *atomic.Pointer[wrappedDefault]
}

// A wrappedDefault is a default logger and its wrapped handler.
type wrappedDefault struct {
	logger  *slog.Logger
	handler slog.Handler
}

func newDefaultHandler(wrap func(slog.Handler) slog.Handler) *defaultHandler {
	return &defaultHandler{wrap: wrap, last: &atomic.Pointer[wrappedDefault]{}}
}

// wrapped returns the handler of the default logger. It is wrapped once, as most records
// are asked for and not wanted.
func (h *defaultHandler) wrapped() slog.Handler {
	logger := slog.Default()
	if last := h.last.Load(); last != nil && last.logger == logger {
		return last.handler
	}
	now := &wrappedDefault{logger, h.wrap(logger.Handler())}
	h.last.Store(now)
	return now.handler
}

func (h *defaultHandler) next() slog.Handler {
	next := h.wrapped()
	for _, with := range h.with {
		next = with(next)
	}
	return next
}

// Enabled implements slog.Handler.
func (h *defaultHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.wrapped().Enabled(ctx, level)
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
	return &defaultHandler{wrap: h.wrap, with: append(slices.Clip(h.with), with), last: h.last}
}

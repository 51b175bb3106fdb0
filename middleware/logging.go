package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Logging logs every request when its handler returns: at level info, or at level warn if the
// handler has failed with an error or with a result that reports one to the model. With a
// log handler of package telemetry the records carry the trace id. If the log handler
// panics, the record is lost and the answer stays the same. The server counts the panic; without
// a server, slog's default logger reports it.
func Logging(logger *slog.Logger) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, req *Request) (mcp.Result, error) {
			begin := time.Now()
			result, err := next(ctx, req)
			level := slog.LevelInfo
			attrs := []slog.Attr{
				slog.String("method", req.Route.Method), slog.String("target", req.Route.Target),
				slog.String("id", req.ID.String()), slog.Duration("took", time.Since(begin)),
			}
			if req.Principal != nil {
				attrs = append(attrs, slog.String("principal", req.Principal.String()))
			}
			if tool, ok := result.(*mcp.CallToolResult); ok && tool != nil && tool.IsError {
				level = slog.LevelWarn
				attrs = append(attrs, slog.Bool("tool_error", true))
			}
			if err != nil {
				level = slog.LevelWarn
				attrs = append(attrs, slog.Any("error", err))
			}
			if cause, ok := mcp.CauseOf(ctx); ok {
				attrs = append(attrs, slog.String("cause", string(cause)))
			}
			logHandled(ctx, req, logger, level, attrs)
			return result, err
		}
	}
}

// logHandled writes the record. A panic of the user's logger does not fail the request.
func logHandled(ctx context.Context, req *Request, logger *slog.Logger, level slog.Level, attrs []slog.Attr) {
	defer func() {
		if v := recover(); v != nil {
			containPanic(req, v)
		}
	}()
	logger.LogAttrs(ctx, level, "request.handled", attrs...)
}

// A panicCounter is a [Request.Origin] that counts and logs contained panics.
type panicCounter interface {
	ContainedPanic(where string, value any, stack []byte)
}

// containPanic reports the panic of a logger to the server if it counts panics, otherwise to
// slog's default logger, which may panic as well.
func containPanic(req *Request, value any) {
	defer func() { _ = recover() }()
	if c, ok := req.Origin.(panicCounter); ok {
		c.ContainedPanic("log handler", value, debug.Stack())
		return
	}
	slog.Warn("log.panic", "where", "middleware.Logging", "panic", fmt.Sprint(value))
}

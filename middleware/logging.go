package middleware

import (
	"context"
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// Logging logs every request when its handler returns: at level info, and at
// level warn when it failed. With a handler of the telemetry room the records
// carry the trace id. A panic of the logger's handler costs the record, and not the answer.
func Logging(logger *slog.Logger) Middleware {
	return func(route *Route, next Handler) Handler {
		return func(ctx context.Context, req *Request) (mcp.Result, error) {
			begin := time.Now()
			result, err := next(ctx, req)
			level := slog.LevelInfo
			attrs := []slog.Attr{
				slog.String("method", route.Method), slog.String("target", route.Target),
				slog.String("id", req.ID().String()), slog.Duration("took", time.Since(begin)),
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

// logHandled writes the record. The logger is a user's, and its panic not the request's.
func logHandled(ctx context.Context, req *Request, logger *slog.Logger, level slog.Level, attrs []slog.Attr) {
	defer telemetry.ContainPanic(req.Core(), "log handler")
	logger.LogAttrs(ctx, level, "request.handled", attrs...)
}

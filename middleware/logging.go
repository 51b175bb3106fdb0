package middleware

import (
	"context"
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Logging logs every request when its handler returns: at level info, and at
// level warn when it failed. With a handler of the telemetry room the records
// carry the trace id.
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
			logger.LogAttrs(ctx, level, "request.handled", attrs...)
			return result, err
		}
	}
}

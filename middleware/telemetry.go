package middleware

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// Telemetry tells the request's span and metrics how the handler ended: whether
// a tool reported an error to the model, and what the error was that the caller
// sees only as "internal error". Servers put it outermost, so that it sees the
// result that is sent.
func Telemetry() Middleware {
	return func(_ *Route, next Handler) Handler {
		return func(ctx context.Context, req *Request) (mcp.Result, error) {
			result, err := next(ctx, req)
			if err != nil {
				telemetry.RecordError(req.Core(), err)
				return result, err
			}
			if tool, ok := result.(*mcp.CallToolResult); ok && tool != nil {
				telemetry.RecordResult(req.Core(), tool)
			}
			return result, nil
		}
	}
}

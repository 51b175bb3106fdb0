package middleware_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// through is a link that does nothing but pass on.
func through(_ *middleware.Route, next middleware.Handler) middleware.Handler {
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) { return next(ctx, req) }
}

// chained returns a call through the chain that servers have, and the links of a user.
func chained() func() {
	route := &middleware.Route{Method: mcp.MethodToolsCall, Target: "echo"}
	result := &mcp.CallToolResult{}
	h := middleware.Chain(middleware.Telemetry(), middleware.Deadline(time.Second),
		middleware.Concurrency(middleware.NewClass("class", 1)), middleware.For([]string{"echo"}, through, through), through,
	)(route, func(context.Context, *middleware.Request) (mcp.Result, error) { return result, nil })
	req := middleware.NewRequest(&session.Request{})
	ctx := context.Background()
	return func() { _, _ = h(ctx, req) }
}

// The chain was built at registration: passing it costs no allocation, however long it is.
func TestChainAllocations(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(1000, chained()))
}

func BenchmarkChain(b *testing.B) {
	call := chained()
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
}

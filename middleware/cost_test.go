package middleware_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// through is a middleware that does nothing but pass on.
func through(next middleware.Handler) middleware.Handler {
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) { return next(ctx, req) }
}

// chained returns a call through a chain.
func chained() func() {
	result := &mcp.CallToolResult{}
	h := middleware.Chain(through, middleware.For([]string{"echo"}, through, through), middleware.For([]string{"other"}, through), through)(
		func(context.Context, *middleware.Request) (mcp.Result, error) { return result, nil })
	req := &middleware.Request{Route: middleware.NewRoute(mcp.MethodToolsCall, "echo", "echo")}
	ctx := context.Background()
	return func() { _, _ = h(ctx, req) }
}

// The chain is built at registration. A request passes it without an allocation, however long
// it is.
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

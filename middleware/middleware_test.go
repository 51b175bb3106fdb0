package middleware_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// answering returns a handler whose result tells who it was.
func answering(name string) middleware.Handler {
	return func(context.Context, *middleware.Request) (mcp.Result, error) { return mcp.ToolError(name), nil }
}

func said(t *testing.T, h middleware.Handler) string {
	t.Helper()
	result, err := h(t.Context(), nil)
	require.NoError(t, err)
	return result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text
}

// mark puts a name before what the handler says.
func mark(name string) middleware.Middleware {
	return func(_ *middleware.Route, next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			result, err := next(ctx, req)
			text := result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent)
			text.Text = name + " " + text.Text
			return result, err
		}
	}
}

func TestChain(t *testing.T) {
	for _, tt := range []struct {
		chain middleware.Middleware
		want  string
	}{
		{middleware.Chain(), "end"},
		{middleware.Chain(mark("a")), "a end"},
		{middleware.Chain(mark("a"), mark("b"), mark("c")), "a b c end"},
		{middleware.Chain(mark("a"), middleware.Chain(mark("b"), mark("c")), mark("d")), "a b c d end"},
	} {
		require.Equal(t, tt.want, said(t, tt.chain(&middleware.Route{}, answering("end"))))
	}
}

func TestFor(t *testing.T) {
	link := middleware.For([]string{"x", "y"}, mark("a"), mark("b"))
	for target, want := range map[string]string{"x": "a b end", "y": "a b end", "z": "end", "": "end", "X": "end"} {
		require.Equal(t, want, said(t, link(&middleware.Route{Target: target}, answering("end"))), target)
	}
}

func TestRouteValues(t *testing.T) {
	one, two := middleware.NewClass("one", 1), middleware.NewClass("two", 2)
	for _, tt := range []struct {
		name     string
		chain    middleware.Middleware
		deadline time.Duration
		class    *middleware.Class
	}{
		{"none", middleware.Chain(), 0, nil},
		{"both", middleware.Chain(middleware.Deadline(time.Second), middleware.Concurrency(one)), time.Second, one},
		{"the innermost wins", middleware.Chain(middleware.Deadline(time.Second), middleware.Concurrency(one),
			middleware.Deadline(time.Minute), middleware.Concurrency(two)), time.Minute, two},
		{"for another target", middleware.For([]string{"y"}, middleware.Deadline(time.Second)), 0, nil},
		{"for this target", middleware.For([]string{"x"}, middleware.Deadline(time.Second)), time.Second, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			route := &middleware.Route{Method: "tools/call", Target: "x"}
			tt.chain(route, answering("end"))
			require.Equal(t, tt.deadline, route.Deadline())
			require.Same(t, tt.class, route.Class())
		})
	}
}

package middleware_test

import (
	"context"
	"runtime/pprof"
	"runtime/trace"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/needs"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// labelsOf returns the labels of a context.
func labelsOf(ctx context.Context) map[string]string {
	labels := map[string]string{}
	pprof.ForLabels(ctx, func(key, value string) bool {
		labels[key] = value
		return true
	})
	return labels
}

type valueKey struct{}

// The context of a handler has the labels of its route besides what it had before,
// however often the link is in the chain.
func TestProfileLabelsTheContext(t *testing.T) {
	defer pprof.SetGoroutineLabels(context.Background())
	tool := &middleware.Route{Method: mcp.MethodToolsCall, Target: "echo"}
	for name, tc := range map[string]struct {
		route   *middleware.Route
		links   []middleware.Middleware
		outside []string
		want    map[string]string
	}{
		"tool": {tool, []middleware.Middleware{middleware.Profile()}, nil,
			map[string]string{"mcp.method": "tools/call", "tool": "echo"}},
		"method without targets": {&middleware.Route{Method: mcp.MethodPing}, []middleware.Middleware{middleware.Profile()}, nil,
			map[string]string{"mcp.method": "ping"}},
		"twice": {tool, []middleware.Middleware{middleware.Profile(), middleware.Profile()}, nil,
			map[string]string{"mcp.method": "tools/call", "tool": "echo"}},
		"labels of the program": {tool, []middleware.Middleware{middleware.Profile()}, []string{"team", "search", "tool", "theirs"},
			map[string]string{"mcp.method": "tools/call", "tool": "echo", "team": "search"}},
	} {
		t.Run(name, func(t *testing.T) {
			base, cancel := context.WithCancelCause(context.WithValue(t.Context(), valueKey{}, "kept"))
			ctx := pprof.WithLabels(base, pprof.Labels(tc.outside...))
			h := middleware.Chain(tc.links...)(tc.route, func(ctx context.Context, _ *middleware.Request) (mcp.Result, error) {
				require.Equal(t, tc.want, labelsOf(ctx))
				require.Equal(t, "kept", ctx.Value(valueKey{}))
				pprof.Do(ctx, pprof.Labels("step", "one"), func(ctx context.Context) {
					require.Len(t, labelsOf(ctx), len(tc.want)+1)
				})
				derived, stop := context.WithCancel(ctx)
				defer stop()
				cancel(mcp.ErrDeadline)
				<-derived.Done()
				require.ErrorIs(t, context.Cause(derived), mcp.ErrDeadline)
				return nil, nil
			})
			_, err := h(ctx, middleware.NewRequest(&session.Request{}))
			require.NoError(t, err)
		})
	}
}

// profiled returns a call of a handler in a chain, with a request of its own.
func profiled(ctx context.Context, links ...middleware.Middleware) func() {
	route := &middleware.Route{Method: mcp.MethodToolsCall, Target: "echo"}
	h := middleware.Chain(links...)(route, func(context.Context, *middleware.Request) (mcp.Result, error) { return nil, nil })
	core := &session.Request{}
	return func() { _, _ = h(ctx, middleware.NewRequest(core)) }
}

// doLabels is the link as the documentation of pprof would have it.
func doLabels(route *middleware.Route, next middleware.Handler) middleware.Handler {
	set := pprof.Labels("mcp.method", route.Method, "tool", route.Target)
	return func(ctx context.Context, req *middleware.Request) (result mcp.Result, err error) {
		pprof.Do(ctx, set, func(ctx context.Context) { result, err = next(ctx, req) })
		return result, err
	}
}

// A handler's labels cost no allocation beyond that of its request.
func TestProfileAllocatesNothing(t *testing.T) {
	if trace.IsEnabled() {
		needs.Skip(t, "allocations of profile labels", "tasks and regions of a trace allocate")
	}
	defer pprof.SetGoroutineLabels(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	require.Equal(t, 1.0, testing.AllocsPerRun(100, profiled(ctx, middleware.Profile())))
}

func BenchmarkProfile(b *testing.B) {
	defer pprof.SetGoroutineLabels(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, bm := range []struct {
		name  string
		links []middleware.Middleware
	}{
		{"none", nil},
		{"link", []middleware.Middleware{middleware.Profile()}},
		{"pprof.Do", []middleware.Middleware{doLabels}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			call := profiled(ctx, bm.links...)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

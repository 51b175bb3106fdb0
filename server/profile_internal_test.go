package server

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

// The context of a handler has the labels of its route and those that it had before.
func TestProfileLabelsTheContext(t *testing.T) {
	defer pprof.SetGoroutineLabels(context.Background())
	tool := middleware.NewRoute(mcp.MethodToolsCall, "echo", "echo")
	for name, tc := range map[string]struct {
		route   middleware.Route
		outside []string
		want    map[string]string
	}{
		"tool":                   {tool, nil, map[string]string{"mcp.method": "tools/call", "tool": "echo"}},
		"method without targets": {middleware.NewRoute(mcp.MethodPing, "", ""), nil, map[string]string{"mcp.method": "ping"}},
		"labels of the program": {tool, []string{"team", "search", "tool", "theirs"},
			map[string]string{"mcp.method": "tools/call", "tool": "echo", "team": "search"}},
	} {
		t.Run(name, func(t *testing.T) {
			base, cancel := context.WithCancelCause(context.WithValue(t.Context(), valueKey{}, "kept"))
			ctx := pprof.WithLabels(base, pprof.Labels(tc.outside...))
			_, err := newProfileLabels(tc.route).handle(ctx, &request{}, func(ctx context.Context, _ *middleware.Request) (mcp.Result, error) {
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
			require.NoError(t, err)
		})
	}
}

// profiled returns a call of a handler with a request of its own, by way of serve.
func profiled(ctx context.Context, serve func(context.Context, *request, middleware.Handler) (mcp.Result, error)) func() {
	handler := func(context.Context, *middleware.Request) (mcp.Result, error) { return nil, nil }
	core := &session.Request{Inbound: &session.Inbound{Conn: &session.Conn{}}}
	route := middleware.NewRoute(mcp.MethodToolsCall, "echo", "echo")
	return func() { _, _ = serve(ctx, newRequest(core, route), handler) }
}

// plainly calls a handler without labels.
func plainly(ctx context.Context, req *request, next middleware.Handler) (mcp.Result, error) {
	return next(ctx, &req.Request)
}

// withPprofDo has the labels as the documentation of pprof would have them.
func withPprofDo(ctx context.Context, req *request, next middleware.Handler) (result mcp.Result, err error) {
	set := pprof.Labels("mcp.method", req.Route.Method, "tool", req.Route.Target)
	pprof.Do(ctx, set, func(ctx context.Context) { result, err = next(ctx, &req.Request) })
	return result, err
}

var echoLabels = newProfileLabels(middleware.NewRoute(mcp.MethodToolsCall, "echo", "echo"))

// A handler's labels cost no allocation beyond that of its request.
func TestProfileAllocatesNothing(t *testing.T) {
	if trace.IsEnabled() {
		needs.Skip(t, "allocations of profile labels", "tasks and regions of a trace allocate")
	}
	defer pprof.SetGoroutineLabels(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	require.Equal(t, 1.0, testing.AllocsPerRun(100, profiled(ctx, echoLabels.handle)))
}

func BenchmarkProfile(b *testing.B) {
	defer pprof.SetGoroutineLabels(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, bm := range []struct {
		name  string
		serve func(context.Context, *request, middleware.Handler) (mcp.Result, error)
	}{
		{"none", plainly},
		{"labels", echoLabels.handle},
		{"pprof.Do", withPprofDo},
	} {
		b.Run(bm.name, func(b *testing.B) {
			call := profiled(ctx, bm.serve)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

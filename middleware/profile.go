package middleware

import (
	"context"
	"runtime/pprof"
	"runtime/trace"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// The labels of a handler's goroutine in the profiles of CPU and goroutines, with the
// values that the labels of our metrics have. A method without targets has no labelTool.
const (
	labelMethod = "mcp.method"
	labelTool   = "tool"
)

// Profile lets the tools of the Go runtime tell requests from each other. The goroutine
// of a handler, and all that it starts, has the labels mcp.method and tool (the name of
// the registered tool, or prompt) in profiles of CPU and goroutines; the handler's
// context has them too, so that [pprof.Do] adds to them. The goroutine keeps them to its
// end, which is that of the request. While the runtime is traced, by package service's
// flight recorder or by anybody else, each request is a task of the trace (that of its
// span, if it is recorded), the handler a region in it, both named by method and tool,
// and its trace id is logged there. Servers put the link outermost.
func Profile() Middleware {
	return func(route *Route, next Handler) Handler {
		name, set := route.Method, pprof.Labels(labelMethod, route.Method)
		if route.Target != "" {
			name += " " + route.Target
			set = pprof.Labels(labelMethod, route.Method, labelTool, route.Target)
		}
		labels := pprof.WithLabels(context.Background(), set)
		return func(ctx context.Context, req *Request) (mcp.Result, error) {
			if hasLabels(ctx) { // of the program, around the server: ours join them
				ctx = pprof.WithLabels(ctx, set)
				pprof.SetGoroutineLabels(ctx)
			} else {
				pprof.SetGoroutineLabels(labels)
				req.labelled = labelled{ctx, labels}
				ctx = &req.labelled
			}
			if trace.IsEnabled() {
				return traced(ctx, req, name, next)
			}
			return next(ctx, req)
		}
	}
}

// traced shows a request in the trace of the runtime. It is a function of its own because
// a handler that sleeps for hours would keep what it needs of the stack.
//
//go:noinline
func traced(ctx context.Context, req *Request, name string, next Handler) (mcp.Result, error) {
	if !telemetry.HasRuntimeTask(req.core) {
		var task *trace.Task
		ctx, task = trace.NewTask(ctx, name)
		defer task.End()
	}
	defer trace.StartRegion(ctx, name).End()
	trace.Log(ctx, "trace_id", telemetry.TraceID(req.core))
	return next(ctx, req)
}

// labelled is a context with the labels of its route. It is a part of the request,
// because a context of its own would be an allocation for each.
type labelled struct {
	context.Context
	labels context.Context // has nothing else, and is the same for all requests of a route
}

// Value implements [context.Context].
func (c *labelled) Value(key any) any {
	if v := c.labels.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// hasLabels reports whether a context has labels already.
func hasLabels(ctx context.Context) (has bool) {
	pprof.ForLabels(ctx, func(string, string) bool {
		has = true
		return false
	})
	return has
}

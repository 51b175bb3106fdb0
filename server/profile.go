package server

import (
	"context"
	"runtime/pprof"
	"runtime/trace"

	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// The labels of a handler's goroutine in the profiles of CPU and goroutines, with the
// values that the labels of our metrics have. A method without targets has no labelTool.
const (
	labelMethod = "mcp.method"
	labelTool   = "tool"
)

// profileLabels let the tools of the Go runtime tell requests from each other. The
// goroutine of a handler, and all that it starts, has the labels mcp.method and tool (the
// name of the registered tool, or prompt) in profiles of CPU and goroutines; the handler's
// context has them too, so that [pprof.Do] adds to them. The goroutine keeps them to its
// end, which is that of the request. While the runtime is traced, by package service's
// flight recorder or by anybody else, each request is a task of the trace (that of its
// span, if it is recorded), the handler a region in it, both named by method and tool,
// and its trace id is logged there.
type profileLabels struct {
	name   string
	set    pprof.LabelSet
	labels context.Context // has the labels and nothing else; the same for all requests of a route
}

func newProfileLabels(route middleware.Route) *profileLabels {
	p := &profileLabels{name: route.Method, set: pprof.Labels(labelMethod, route.Method)}
	if route.Target != "" {
		p.name += " " + route.Target
		p.set = pprof.Labels(labelMethod, route.Method, labelTool, route.Target)
	}
	p.labels = pprof.WithLabels(context.Background(), p.set)
	return p
}

// handle calls a handler with the labels.
func (p *profileLabels) handle(ctx context.Context, req *request, next middleware.Handler) (mcp.Result, error) {
	if hasLabels(ctx) { // of the program, around the server: ours join them
		ctx = pprof.WithLabels(ctx, p.set)
		pprof.SetGoroutineLabels(ctx)
	} else {
		pprof.SetGoroutineLabels(p.labels)
		req.labelled = labelledContext{ctx, p.labels}
		ctx = &req.labelled
	}
	if trace.IsEnabled() {
		return p.traced(ctx, req, next)
	}
	return next(ctx, &req.Request)
}

// traced shows a request in the trace of the runtime. It is a function of its own because
// a handler that sleeps for hours would keep what it needs of the stack.
//
//go:noinline
func (p *profileLabels) traced(ctx context.Context, req *request, next middleware.Handler) (mcp.Result, error) {
	r := era.CoreOf(&req.Request)
	if !observe.HasRuntimeTask(r) {
		var task *trace.Task
		ctx, task = trace.NewTask(ctx, p.name)
		defer task.End()
	}
	defer trace.StartRegion(ctx, p.name).End()
	trace.Log(ctx, "trace_id", observe.TraceID(r))
	return next(ctx, &req.Request)
}

// hasLabels reports whether a context has labels already.
func hasLabels(ctx context.Context) (has bool) {
	pprof.ForLabels(ctx, func(string, string) bool {
		has = true
		return false
	})
	return has
}

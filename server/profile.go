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

// The labels of a handler's goroutine in profiles. The values are those of the labels of metrics. A
// method without targets has no labelTool.
const (
	labelMethod = "mcp.method"
	labelTool   = "tool"
)

// profileLabels are the labels of the requests of one route in profiles and traces of the Go
// runtime. The goroutine of a handler, and all goroutines that it starts, have the labels mcp.method
// and tool (the name of the registered tool or prompt). The handler's context has them, too, so that
// [pprof.Do] adds to them. While the runtime is traced, each request is a task of the trace (that of
// its span, if the span is recorded) and the handler a region in it. Both have the method and the
// tool as their name, and the trace id is logged in the task.
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
	if hasLabels(ctx) { // the program has set labels: keep them
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

// traced is handle while the runtime is traced. It is a function of its own, so that other handlers
// do not keep its stack.
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

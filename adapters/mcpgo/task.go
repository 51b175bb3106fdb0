package mcpgo

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	vitrine "github.com/vitrine-mcp/vitrine/mcp"
)

// mcp-go answers a call of a tool as a task at once, and then runs the handler in a goroutine of its own. Around the handler
// of a regular tool it runs its middlewares, and so ours: they get a call of their own. Around that of a task tool
// (MCPServer.AddTaskTool) it runs none.

// filterTools is a filter that mcp-go asks about a list, and about the tool that a request uses. It asks before it begins a
// task, so the filter leaves the tool out if the call is refused: the middlewares cannot.
func (a *Adapter) filterTools(ctx context.Context, tools []mcp.Tool) []mcp.Tool {
	visible := filtered(ctx, a, vitrine.MethodToolsCall, tools, func(t mcp.Tool) vitrine.Result {
		return &vitrine.ListToolsResult{Tools: []*vitrine.Tool{{Name: t.Name}}}
	})
	r := requestOf(ctx)
	if r == nil || r.method != vitrine.MethodToolsCall || len(visible) != 1 || !r.asksForTask(visible[0]) {
		return visible
	}
	r.task = true
	if r.failure = r.call.Refusal(); r.failure != nil {
		r.call.Failed(r.failure)
		return nil
	}
	return visible
}

// asksForTask reports whether mcp-go will run the tool as a task.
func (r *request) asksForTask(tool mcp.Tool) bool {
	req, ok := r.call.Request.Origin.(*mcp.CallToolRequest)
	if !ok || req.Params.Task == nil || tool.Execution == nil {
		return false
	}
	support := tool.Execution.TaskSupport
	return support == mcp.TaskSupportOptional || support == mcp.TaskSupportRequired
}

// beginTask begins the request that runs the handler of a task, and returns the context for it. The request r may have
// ended.
func (r *request) beginTask(ctx context.Context) (context.Context, *request) {
	task := &request{adapter: r.adapter, method: r.method, call: r.call.NewTask(ctx), begun: true}
	return context.WithValue(task.call, requestKey{}, task), task
}

// endTask ends the request of beginTask with what mcp-go gets.
func (r *request) endTask(result *mcp.CallToolResult, err error) {
	switch {
	case err != nil:
		r.fail(err)
	case result != nil:
		r.succeed(result)
	}
	r.call.End(r.out)
}

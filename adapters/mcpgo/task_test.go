package mcpgo_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	vitrine "github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// newTaskWorld has the tool work, which clients may call as a task. Its handler ignores its context, which mcp-go cancels
// when it answers the call. It returns when the test closes finish. The handler of the task tool film must not be called.
func newTaskWorld(t *testing.T, middlewares ...middleware.Middleware) (w *world, site *adapttest.Site, finish chan struct{}) {
	w = newWorldWith(t, []server.ServerOption{server.WithTaskCapabilities(true, true, true)}, middlewares...)
	finish = make(chan struct{})
	w.server.AddTool(mcp.NewTool("work", mcp.WithTaskSupport(mcp.TaskSupportOptional)),
		func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			w.Started <- struct{}{}
			<-finish
			return mcp.NewToolResultError("no tape"), nil
		})
	w.server.AddTaskTool(mcp.NewTool("film", mcp.WithTaskSupport(mcp.TaskSupportRequired)),
		func(context.Context, mcp.CallToolRequest) (*mcp.CreateTaskResult, error) {
			t.Error("it was not refused")
			return nil, nil
		})
	return w, &adapttest.Site{Rig: w.Rig, URL: w.serveHTTP(), Version: legacy, Client: http.DefaultClient}, finish
}

const workAsTask = `"name":"work","arguments":{"speed":1},"task":{}`

// places returns how many records a strict audit has places for.
func places(log *audit.Log) (n int) {
	for log.Reserve() {
		n++
	}
	for range n {
		log.Release()
	}
	return n
}

// The handler of a task runs in a call of its own, with a span below that of the call that began the task, a duration and a
// record of the audit. Each of the two calls gives its place in a strict audit back.
func TestTaskRunsInItsOwnCall(t *testing.T) {
	seen := make(chan string, 2)
	w, site, finish := newTaskWorld(t, func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (vitrine.Result, error) {
			result, err := next(ctx, req)
			seen <- req.Target
			return result, err
		}
	})
	log, records := w.NewStrictAudit()
	w.adapter.Audit(log)
	site.Records = records
	free := places(log)
	require.Contains(t, site.Ask("", site.Open(""), "tools/call", workAsTask).Body, `"taskId"`)
	began := site.Record("tools/call", "work")
	require.Equal(t, []any{audit.StageHandler, audit.OutcomeOK}, []any{began.Stage, began.Outcome})
	answered := w.Span("tools/call work").SpanContext().SpanID()
	adapttest.Receive(t, w.Started, "the handler to start")
	requests, _, _ := w.Live()
	require.Len(t, requests, 1)

	close(finish)
	require.Equal(t, "work", adapttest.Receive(t, seen, "the end of the middleware"))
	require.NoError(t, w.adapter.Shutdown(t.Context()))
	require.Equal(t, answered, w.Span("tools/call work").Parent().SpanID())
	for errorType, want := range map[string]float64{"": 1, "tool_error": 1} {
		require.Equal(t, want, w.Metric("mcp_server_operation_duration_seconds",
			adapttest.Labels{"gen_ai_tool_name": "work", "error_type": errorType}), errorType)
	}
	w.Eventually(func() bool { return site.Record("tools/call", "work").Stage == audit.StageTask }, "the record of the task")
	require.Equal(t, audit.OutcomeToolError, site.Record("tools/call", "work").Outcome)
	w.Eventually(func() bool { return places(log) == free }, "all places to be free")
}

// A task may end before the call that began it. Neither loses its place in a strict audit.
func TestTaskEndsBesideItsCall(t *testing.T) {
	w, site, finish := newTaskWorld(t)
	log, _ := w.NewStrictAudit()
	w.adapter.Audit(log)
	free := places(log)
	close(finish)
	session := site.Open("")
	for range 10 {
		site.Ask("", session, "tools/call", workAsTask)
		adapttest.Receive(t, w.Started, "the handler to start")
	}
	require.NoError(t, w.adapter.Shutdown(t.Context()))
	w.Eventually(func() bool { return places(log) == free }, "all places to be free")
}

// Shutdown waits for the handler of a task, and refuses new tasks.
func TestShutdownWaitsForTask(t *testing.T) {
	w, site, finish := newTaskWorld(t)
	session := site.Open("")
	site.Ask("", session, "tools/call", workAsTask)
	adapttest.Receive(t, w.Started, "the handler to start")
	ended := make(chan error, 1)
	go func() { ended <- w.adapter.Shutdown(t.Context()) }()
	w.Eventually(func() bool {
		site.Ask("", session, "tools/call", `"name":"add","arguments":{"a":1,"b":2}`)
		return w.Metric("vitrine_requests_rejected_total", adapttest.Labels{"reason": "shutting_down"}) == 1
	}, "the beginning of the shutdown")
	for _, tool := range []string{"work", "film"} {
		require.NotContains(t, site.Ask("", session, "tools/call", `"name":"`+tool+`","task":{}`).Body, `"taskId"`, tool)
	}
	require.Equal(t, 3.0, w.Metric("vitrine_requests_rejected_total", adapttest.Labels{"reason": "shutting_down"}))
	require.Empty(t, ended)
	close(finish)
	require.NoError(t, adapttest.Receive(t, ended, "the end of Shutdown"))
}

// A strict audit refuses tasks for whose records there is no place, also those of task tools, which have no middlewares.
func TestStrictAuditRefusesTasks(t *testing.T) {
	w, site, _ := newTaskWorld(t)
	log, _ := w.NewStrictAudit()
	w.adapter.Audit(log)
	session := site.Open("")
	for log.Reserve() { // takes all places
	}
	for _, tool := range []string{"work", "film"} {
		require.NotContains(t, site.Ask("", session, "tools/call", `"name":"`+tool+`","task":{}`).Body, `"taskId"`, tool)
	}
	require.Equal(t, 2.0, w.Metric("vitrine_refusals_total", adapttest.Labels{"reason": "audit", "by": "audit"}))
}

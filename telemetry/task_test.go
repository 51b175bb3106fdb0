package telemetry

import (
	"context"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// startTask runs a call whose handler starts a task, and ends the task with e after
// the call has ended.
func (r *rig) startTask(e TaskEnd) (call, task sdktrace.ReadOnlySpan) {
	r.t.Helper()
	var end func(TaskEnd)
	r.tools["work"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
		_, end = r.tel.StartTask(ctx, "work", "ABCDEFGH")
		return &mcp.CallToolResult{}, nil
	}
	r.post(callTo("work"), &sink{})
	call = r.span()
	r.spans.Reset()
	end(e)
	return call, r.span()
}

func callTo(tool string) *session.Inbound { return call(tool) }

func TestTaskSpan(t *testing.T) {
	fixed := []attribute.KeyValue{attribute.String("gen_ai.tool.name", "work"), attribute.String("vitrine.task.id", "ABCDEFGH")}
	for _, tt := range []struct {
		name   string
		end    TaskEnd
		attrs  []attribute.KeyValue // beside the fixed ones
		status sdktrace.Status
	}{
		{"completed", TaskEnd{Status: mcp.TaskCompleted}, nil, sdktrace.Status{}},
		{"tool error", TaskEnd{Status: mcp.TaskCompleted, ToolError: true},
			[]attribute.KeyValue{attribute.String("error.type", "tool_error")}, sdktrace.Status{Code: codes.Error}},
		{"failed", TaskEnd{Status: mcp.TaskFailed, Error: mcp.NewError(-32603, "internal error")},
			[]attribute.KeyValue{attribute.String("error.type", "-32603"), attribute.String("rpc.response.status_code", "-32603")},
			sdktrace.Status{Code: codes.Error, Description: "internal error"}},
		{"cancelled", TaskEnd{Status: mcp.TaskCancelled, Cause: mcp.CauseClientCancel},
			[]attribute.KeyValue{attribute.String("vitrine.cancel.cause", "client_cancel")}, sdktrace.Status{}},
		{"deadline", TaskEnd{Status: mcp.TaskFailed, Cause: mcp.CauseDeadline},
			[]attribute.KeyValue{attribute.String("error.type", "deadline"), attribute.String("vitrine.cancel.cause", "deadline")},
			sdktrace.Status{Code: codes.Error}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call, task := newRig(t, rigConfig{}).startTask(tt.end)
			require.Equal(t, "vitrine.task work", task.Name())
			require.Equal(t, trace.SpanKindInternal, task.SpanKind())
			require.Equal(t, call.SpanContext().TraceID(), task.SpanContext().TraceID())
			require.Equal(t, call.SpanContext().SpanID(), task.Parent().SpanID())
			require.Equal(t, call.SpanContext(), task.Links()[0].SpanContext)
			want := append(append([]attribute.KeyValue{attribute.String("vitrine.task.status", string(tt.end.Status))}, fixed...), tt.attrs...)
			require.ElementsMatch(t, want, task.Attributes())
			require.Equal(t, tt.status, task.Status())
		})
	}
}

func TestTaskSpanOfAPanic(t *testing.T) {
	_, task := newRig(t, rigConfig{}).startTask(TaskEnd{
		Status: mcp.TaskFailed, Panic: &session.HandlerPanic{Value: "ouch", Stack: debug.Stack()},
	})
	events := task.Events()
	require.Len(t, events, 1)
	require.Equal(t, "exception", events[0].Name)
	require.Contains(t, events[0].Attributes, attribute.String("exception.message", "ouch"))
	require.Contains(t, events[0].Attributes, attribute.String("exception.type", "string"))
}

// A task has a duration by tool and end, with its trace.
func TestTaskDuration(t *testing.T) {
	now := time.Now()
	r := newRig(t, rigConfig{telemetry: []Option{WithClock(func() time.Time { return now })}})
	ctx, end := r.tel.StartTask(t.Context(), "work", "ABCDEFGH")
	now = now.Add(90 * time.Second)
	end(TaskEnd{Status: mcp.TaskCompleted})
	m := find(gather(t, r.tel.Registry()), MetricTaskDuration, map[string]string{"tool": "work", "status": "completed"})
	require.NotNil(t, m)
	require.EqualValues(t, 90, m.GetHistogram().GetSampleSum())
	trace := trace.SpanContextFromContext(ctx).TraceID().String()
	require.Equal(t, trace, exemplarTrace(m.GetHistogram()))
}

// exemplarTrace returns the trace that an exemplar of the histogram names.
func exemplarTrace(h *dto.Histogram) string {
	for _, b := range h.GetBucket() {
		for _, l := range b.GetExemplar().GetLabel() {
			if l.GetName() == "trace_id" {
				return l.GetValue()
			}
		}
	}
	return ""
}

// Without telemetry there is a context all the same.
func TestTaskSpanDisabled(t *testing.T) {
	ctx, end := Disabled().StartTask(t.Context(), "work", "A")
	require.NoError(t, ctx.Err())
	require.Empty(t, TraceParent(ctx))
	LinkSpan(ctx, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	end(TaskEnd{Status: mcp.TaskCompleted})
}

func TestLinkSpan(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := newRig(t, rigConfig{})
	var own string
	r.tools["get"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
		own = TraceParent(ctx)
		for _, bad := range []string{"", "nonsense", "00-00000000000000000000000000000000-b7ad6b7169203331-01"} {
			LinkSpan(ctx, bad)
		}
		LinkSpan(ctx, parent)
		return &mcp.CallToolResult{}, nil
	}
	r.post(callTo("get"), &sink{})
	span := r.span()
	require.Len(t, span.Links(), 1)
	require.Equal(t, "b7ad6b7169203331", span.Links()[0].SpanContext.SpanID().String())
	require.Equal(t, "00-"+span.SpanContext().TraceID().String()+"-"+span.SpanContext().SpanID().String()+"-01", own)
}

// Tasks are shown and counted while they run.
func TestTasksInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		var work []*session.Detached
		r.tools["work"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
			d, err := r.core.Detach(ctx, q, "ABCDEFGH", time.Now().Add(time.Hour))
			require.Nil(t, err)
			taskCtx, end := r.tel.StartTask(d.Context(), "work", d.Name)
			t.Cleanup(func() { end(TaskEnd{}) })
			d.Adopt(taskCtx)
			work = append(work, d)
			return &mcp.CallToolResult{}, nil
		}
		r.post(callTo("work"), &sink{})
		time.Sleep(time.Minute)
		r.post(callTo("work"), &sink{})
		work[0].Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel})
		time.Sleep(time.Minute)
		rep := r.tel.report()
		require.Empty(t, rep.Requests)
		require.Len(t, rep.Tasks, 2)
		require.NotEmpty(t, rep.Tasks[0].TraceID)
		rep.Tasks[0].TraceID, rep.Tasks[0].SpanID = "", ""
		require.Equal(t, ReportTask{
			Task: "ABCDEFGH", Tool: "work", AgeSeconds: 120, LifeSeconds: 3480, CancelCause: "client_cancel", CancelledForSeconds: 60, Abandoned: true,
		}, rep.Tasks[0])
		require.Equal(t, 60.0, rep.Tasks[1].AgeSeconds)
		require.Nil(t, rep.TaskStatus, "a server without tasks has none")
		var text strings.Builder
		rep.writeText(&text)
		require.Regexp(t, `(?m)^2m0s +ABCDEFGH +work +58m0s +client_cancel 1m0s ago, abandoned +-$`, text.String())
		require.EqualValues(t, 1, value(gather(t, r.tel.Registry()), MetricAbandonedNow))
		for _, d := range work {
			d.Done()
		}
		require.Empty(t, r.tel.report().Tasks)
		r.shutdown()
	})
}

// withTasks is a source that has tasks.
type withTasks struct{ *session.Core }

func (s withTasks) Snapshot() *session.Snapshot {
	snap := s.Core.Snapshot()
	snap.Tasks = map[mcp.TaskStatus]int{mcp.TaskWorking: 2, mcp.TaskFailed: 1}
	return snap
}

func TestTasksByStatus(t *testing.T) {
	r := newRig(t, rigConfig{})
	families := gather(t, r.tel.Registry())
	for _, status := range mcp.TaskStatuses() {
		require.EqualValues(t, 0, value(families, MetricTasks, "status", string(status)), "from the start")
	}
	remove := r.tel.AddSource(withTasks{r.core})
	r.tel.AddSource(withTasks{r.core})
	families = gather(t, r.tel.Registry())
	require.EqualValues(t, 4, value(families, MetricTasks, "status", "working"))
	require.EqualValues(t, 2, value(families, MetricTasks, "status", "failed"))
	require.Equal(t, map[string]int{"working": 4, "failed": 2}, r.tel.report().TaskStatus)
	remove()
	require.EqualValues(t, 2, value(gather(t, r.tel.Registry()), MetricTasks, "status", "working"))
}

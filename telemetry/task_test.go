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

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// detach runs a call whose handler continues as a task.
func (r *rig) detach() (d *session.Detached) {
	r.t.Helper()
	r.tools["work"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
		var refused *mcp.Error
		d, refused = r.core.Detach(ctx, q, "ABCDEFGH", time.Now().Add(time.Hour))
		require.Nil(r.t, refused)
		return &mcp.CallToolResult{}, nil
	}
	r.post(call("work"), &sink{})
	return d
}

// endTask runs a task that is cancelled, if there is a cause, and ends.
func (r *rig) endTask(cause mcp.Cause, end session.DetachedEnd) (call, task sdktrace.ReadOnlySpan) {
	d := r.detach()
	call = r.span()
	r.spans.Reset()
	if cause != "" {
		require.True(r.t, d.Cancel(&mcp.CancelError{Cause: cause}))
	}
	d.Done(end)
	return call, r.span()
}

// Values that spans of tasks have.
var (
	taskTool   = attribute.String("gen_ai.tool.name", "work")
	taskID     = attribute.String("vitrine.task.id", "ABCDEFGH")
	clientDone = attribute.String("vitrine.cancel.cause", "client_cancel")
)

func TestTaskSpan(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cause  mcp.Cause
		end    session.DetachedEnd
		attrs  []attribute.KeyValue // beside the fixed ones
		status sdktrace.Status
	}{
		{"completed", "", session.DetachedEnd{Status: mcp.TaskCompleted}, nil, sdktrace.Status{}},
		{"tool error", "", session.DetachedEnd{Status: mcp.TaskCompleted, ToolError: true},
			[]attribute.KeyValue{attribute.String("error.type", "tool_error")}, sdktrace.Status{Code: codes.Error}},
		{"failed", "", session.DetachedEnd{Status: mcp.TaskFailed, Error: mcp.NewError(-32603, "internal error")},
			[]attribute.KeyValue{attribute.String("error.type", "-32603"), attribute.String("rpc.response.status_code", "-32603")},
			sdktrace.Status{Code: codes.Error, Description: "internal error"}},
		{"the caller's fault", "", session.DetachedEnd{Status: mcp.TaskFailed, Error: mcp.NewError(-32602, "no such city")},
			[]attribute.KeyValue{attribute.String("rpc.response.status_code", "-32602")}, sdktrace.Status{}},
		{"cancelled", mcp.CauseClientCancel, session.StoppedEnd(mcp.CauseClientCancel),
			[]attribute.KeyValue{clientDone}, sdktrace.Status{}},
		{"deadline", mcp.CauseDeadline, session.StoppedEnd(mcp.CauseDeadline),
			[]attribute.KeyValue{
				attribute.String("error.type", "deadline"), attribute.String("vitrine.cancel.cause", "deadline"),
				attribute.String("rpc.response.status_code", "-32603"),
			},
			sdktrace.Status{Code: codes.Error, Description: "the task took longer than it may live"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call, task := newRig(t, rigConfig{}).endTask(tt.cause, tt.end)
			require.Equal(t, "vitrine.task work", task.Name())
			require.Equal(t, trace.SpanKindInternal, task.SpanKind())
			require.Equal(t, call.SpanContext().TraceID(), task.SpanContext().TraceID())
			require.Equal(t, call.SpanContext().SpanID(), task.Parent().SpanID())
			require.Equal(t, call.SpanContext(), task.Links()[0].SpanContext)
			want := append([]attribute.KeyValue{taskTool, taskID, attribute.String("vitrine.task.status", string(tt.end.Status))}, tt.attrs...)
			require.ElementsMatch(t, want, task.Attributes())
			require.Equal(t, tt.status, task.Status())
			if tt.cause == "" {
				require.Empty(t, task.Events())
				return
			}
			require.Equal(t, map[string]map[string]any{
				"vitrine.cancelled": {"vitrine.cancel.cause": string(tt.cause)},
			}, eventsOf(task))
		})
	}
}

func TestTaskSpanOfAPanic(t *testing.T) {
	r := newRig(t, rigConfig{})
	d := r.detach()
	r.spans.Reset()
	d.Panicked("ouch", debug.Stack())
	d.Done(session.DetachedEnd{Status: mcp.TaskFailed})
	events := r.span().Events()
	require.Len(t, events, 1)
	require.Equal(t, "exception", events[0].Name)
	require.Contains(t, events[0].Attributes, attribute.String("exception.message", "ouch"))
	require.Contains(t, events[0].Attributes, attribute.String("exception.type", "string"))
}

// The span of a task that ignores its cancellation ends when the task is abandoned, with the outcome
// that the client gets. When the task returns, it gets a second, short span.
func TestTaskSpanOfAnAbandonedTask(t *testing.T) {
	for _, cause := range []mcp.Cause{mcp.CauseClientCancel, mcp.CauseDeadline, mcp.CauseServerShutdown} {
		t.Run(string(cause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{})
				d := r.detach()
				r.spans.Reset()
				time.Sleep(time.Second)
				cancelled := time.Now()
				d.Cancel(&mcp.CancelError{Cause: cause})
				time.Sleep(r.core.Limits().AbandonGrace - time.Nanosecond)
				require.Empty(t, r.spans.Ended())
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				task := r.span()
				r.spans.Reset()
				end := session.StoppedEnd(cause)
				require.Equal(t, r.core.Limits().AbandonGrace, task.EndTime().Sub(cancelled))
				require.Equal(t, map[string]map[string]any{
					"vitrine.cancelled":         {"vitrine.cancel.cause": string(cause)},
					"vitrine.handler.abandoned": {"vitrine.cancel.cause": string(cause)},
				}, eventsOf(task))
				attrs := attrsOf(task)
				require.Equal(t, string(end.Status), attrs["vitrine.task.status"])
				require.Equal(t, string(cause), attrs["vitrine.cancel.cause"])
				if cause.Fault() {
					require.Equal(t, string(cause), attrs["error.type"])
					require.Equal(t, sdktrace.Status{Code: codes.Error, Description: end.Error.Message}, task.Status())
				} else {
					require.NotContains(t, attrs, "error.type")
					require.Equal(t, sdktrace.Status{}, task.Status())
				}

				time.Sleep(time.Minute)
				d.Done(session.DetachedEnd{Status: mcp.TaskCompleted})
				late := r.span()
				require.Equal(t, "vitrine.handler.returned", late.Name())
				require.Equal(t, task.SpanContext(), late.Links()[0].SpanContext)
				require.Equal(t, task.SpanContext().SpanID(), late.Parent().SpanID())
				attrs = attrsOf(late)
				require.InDelta(t, (r.core.Limits().AbandonGrace + time.Minute).Seconds(), attrs["vitrine.cancel.unwind"], 0.1)
				delete(attrs, "vitrine.cancel.unwind")
				require.Equal(t, map[string]any{
					"gen_ai.tool.name": "work", "vitrine.task.id": "ABCDEFGH", "vitrine.cancel.cause": string(cause),
				}, attrs)

				families := gather(t, r.tel.Registry())
				require.EqualValues(t, 1, value(families, MetricTaskDuration, "tool", "work"), "once")
				require.EqualValues(t, 1, value(families, MetricTaskDuration, "tool", "work", "status", string(end.Status)))
				require.EqualValues(t, 1, value(families, MetricCancelUnwind, "tool", "work", "cause", string(cause)))
				require.EqualValues(t, 1, value(families, MetricHandlersAbandoned, "tool", "work", "cause", string(cause)))
				r.shutdown()
			})
		})
	}
}

// The cancellation of a task is counted separately, because its request was answered and not
// cancelled.
func TestTasksCancelled(t *testing.T) {
	r := newRig(t, rigConfig{})
	for _, cause := range mcp.Causes() {
		require.EqualValues(t, 0, value(gather(t, r.tel.Registry()), MetricTasksCancelled, "tool", "", "cause", string(cause)),
			"from the start")
	}
	_, task := r.endTask(mcp.CauseDeadline, session.StoppedEnd(mcp.CauseDeadline))
	families := gather(t, r.tel.Registry())
	m := find(families, MetricTasksCancelled, map[string]string{"tool": "work", "cause": "deadline"})
	require.EqualValues(t, 1, m.GetCounter().GetValue())
	require.Equal(t, task.SpanContext().TraceID().String(), labelOf(m.GetCounter().GetExemplar(), "trace_id"))
	require.EqualValues(t, 1, sum(families, MetricTasksCancelled))
	require.EqualValues(t, 1, value(families, MetricCancelUnwind, "tool", "work", "cause", "deadline"))
	require.Zero(t, sum(families, MetricRequestsCancelled))
	require.Equal(t, sum(families, MetricRequestsAdmitted), sum(families, MetricResponsesSent))
}

// The duration of a task is measured by tool and outcome, with its trace as exemplar.
func TestTaskDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		d := r.detach()
		ctx := d.Context()
		time.Sleep(90 * time.Second)
		d.Done(session.DetachedEnd{Status: mcp.TaskCompleted})
		m := find(gather(t, r.tel.Registry()), MetricTaskDuration, map[string]string{"tool": "work", "status": "completed"})
		require.NotNil(t, m)
		require.InDelta(t, 90, m.GetHistogram().GetSampleSum(), 0.1)
		trace := trace.SpanContextFromContext(ctx).TraceID().String()
		require.Equal(t, trace, exemplarTrace(m.GetHistogram()))
		r.shutdown()
	})
}

// A run of a task that ends while the task goes on, such as on another replica, is no failure, and counts for no end.
func TestTaskThatGoesOnElsewhere(t *testing.T) {
	for name, end := range map[string]session.DetachedEnd{"handed over": {Status: mcp.TaskWorking}, "never begun": {}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigConfig{})
			_, task := r.endTask(mcp.CauseServerShutdown, end)
			want := map[string]any{"gen_ai.tool.name": "work", "vitrine.task.id": "ABCDEFGH", "vitrine.cancel.cause": "server_shutdown"}
			if end.Status != "" {
				want["vitrine.task.status"] = "working"
			}
			require.Equal(t, want, attrsOf(task))
			require.Equal(t, sdktrace.Status{}, task.Status())
			require.Nil(t, find(gather(t, r.tel.Registry()), MetricTaskDuration, map[string]string{"tool": "work"}))
		})
	}
}

// exemplarTrace returns the trace that an exemplar of the histogram names.
func exemplarTrace(h *dto.Histogram) string {
	for _, b := range h.GetBucket() {
		if id := labelOf(b.GetExemplar(), "trace_id"); id != "" {
			return id
		}
	}
	return ""
}

func labelOf(e *dto.Exemplar, name string) string {
	for _, l := range e.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// Tasks are shown and counted while they run.
func TestTasksInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		var work []*session.Detached
		r.tools["work"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
			d, err := r.core.Detach(ctx, q, "ABCDEFGH", time.Now().Add(time.Hour))
			require.Nil(t, err)
			work = append(work, d)
			return &mcp.CallToolResult{}, nil
		}
		r.post(call("work"), &sink{})
		after := func(d time.Duration) { time.Sleep(time.Until(work[0].BeganAt().Add(d))) } // post takes its time
		work[0].SetStatus(mcp.TaskInputRequired)
		after(time.Minute)
		work[0].Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel})
		r.post(call("work"), &sink{})
		after(2 * time.Minute)
		rep := r.tel.report()
		require.Empty(t, rep.Requests)
		require.Len(t, rep.Tasks, 2)
		require.NotEmpty(t, rep.Tasks[0].TraceID)
		rep.Tasks[0].TraceID, rep.Tasks[0].SpanID = "", ""
		require.Equal(t, report.Task{
			Task: "ABCDEFGH", Tool: "work", Status: "input_required", Client: "tester", ClientVersion: "1.2", AgeSeconds: 120, LifeSeconds: 3480, CancelCause: "client_cancel", CancelledForSeconds: 60, Abandoned: true,
		}, rep.Tasks[0])
		require.Equal(t, 60.0, rep.Tasks[1].AgeSeconds)
		require.Equal(t, "working", rep.Tasks[1].Status)
		require.Nil(t, rep.TaskStatus, "a server without tasks has none")
		var text strings.Builder
		rep.WriteText(&text)
		require.Regexp(t, `(?m)^2m0s +ABCDEFGH +work +input_required +tester 1\.2 +- +58m0s +client_cancel 1m0s ago, abandoned +-$`, text.String())
		require.EqualValues(t, 1, value(gather(t, r.tel.Registry()), MetricAbandonedNow))
		for _, d := range work {
			d.Done(session.DetachedEnd{Status: mcp.TaskCompleted})
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
	remove := r.tel.AddSource(sourceOf(withTasks{r.core}))
	r.tel.AddSource(sourceOf(withTasks{r.core}))
	families = gather(t, r.tel.Registry())
	require.EqualValues(t, 4, value(families, MetricTasks, "status", "working"))
	require.EqualValues(t, 2, value(families, MetricTasks, "status", "failed"))
	require.Equal(t, map[string]int{"working": 4, "failed": 2}, r.tel.report().TaskStatus)
	remove()
	require.EqualValues(t, 2, value(gather(t, r.tel.Registry()), MetricTasks, "status", "working"))
}

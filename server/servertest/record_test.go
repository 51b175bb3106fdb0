package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

var errNoRow = errors.New("no such row")

// newRecorded has a tool that works, one that fails and one that waits.
func newRecorded(rec *servertest.Recorder) *server.Server {
	srv := server.New("test", "1", rec, server.WithMiddleware(middleware.Logging(rec.Logger())))
	server.AddTool(srv, server.Tool{Name: "good"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		_, span := trace.SpanFromContext(ctx).TracerProvider().Tracer("mine").Start(ctx, "query")
		span.End()
		return "fine", nil
	})
	server.AddTool(srv, server.Tool{Name: "bad"}, func(context.Context, *server.Call, none) (string, error) { return "", errNoRow })
	server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	return srv
}

// recordedCalls calls the tools and asserts what there is to see, a line for each.
func recordedCalls(t *testing.T, opts []servertest.Option) {
	rec := servertest.Record(t)
	client := servertest.Connect(t, newRecorded(rec), opts...)
	_, err := client.CallTool(t.Context(), "good", nil)
	require.NoError(t, err)
	_, err = client.CallTool(t.Context(), "bad", nil)
	require.NoError(t, err)

	call := rec.Span(t, "tools/call good", "error.type", "", "gen_ai.tool.name", "good")
	require.Equal(t, call.SpanContext().SpanID(), rec.Span(t, "query").Parent().SpanID())
	require.Equal(t, "tool_error", rec.Span(t, "tools/call bad").Attr("error.type"))
	rec.Metric(t, "vitrine_responses_sent_total", 2, "method", "tools/call")
	rec.Metric(t, "mcp_server_operation_duration_seconds", 1, "gen_ai_tool_name", "bad", "error_type", "tool_error")
	rec.Metric(t, "vitrine_requests_rejected_total", 0)
	require.Equal(t, 2.0, rec.MetricValue(t, "vitrine_requests_admitted_total", "method", "tools/call"))
	line := rec.Log(t, "handler.error", "error", errNoRow.Error(), "target", "bad")
	require.Equal(t, slog.LevelError, line.Level)
	require.Equal(t, rec.Span(t, "tools/call bad").SpanContext().TraceID().String(), line.Attr("trace_id"))
	rec.Log(t, "request.handled", "target", "good")
	require.Len(t, rec.Logs(slog.LevelError), 1)
}

func TestRecorderSeesCalls(t *testing.T) {
	for name, opts := range eras {
		t.Run(name, func(t *testing.T) { recordedCalls(t, opts) })
		t.Run(name+" in a bubble", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				recordedCalls(t, opts)
				require.Less(t, time.Since(begin), time.Microsecond, "the bubble's clock stands still")
			})
		})
	}
}

// An assertion waits for later events.
func TestRecorderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := servertest.Record(t)
		client := servertest.Connect(t, newRecorded(rec))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() { _, _ = client.CallTool(ctx, "wait", nil) }()
		require.True(t, rec.Span(t, "tools/call wait", "vitrine.cancel.cause", "client_cancel").HasEvent("vitrine.cancelled"))
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
		rec.Metric(t, "vitrine_requests_cancelled_total", 1, "cause", "client_cancel", "tool", "wait")
	})
}

func TestRecorderLogsGroups(t *testing.T) {
	rec := servertest.Record(t)
	rec.Logger().With("a", 1).WithGroup("g").With("b", 2).Debug("hello", slog.Group("h", "c", 3), "d", errNoRow)
	line := rec.Log(t, "hello", "a", "1", "g.b", "2", "g.h.c", "3", "g.d", "no such row", "e", "")
	require.Equal(t, `DEBUG "hello" a="1" g.b="2" g.h.c="3" g.d="no such row"`, line.String())
}

func TestRecorderSeesOwnMetrics(t *testing.T) {
	rec := servertest.Record(t)
	rows := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rows_total"}, []string{"table"})
	rec.Telemetry().Registry().MustRegister(rows)
	rows.WithLabelValues("cities").Add(3)
	rows.WithLabelValues("streets").Add(4)
	rec.Metric(t, "rows_total", 7)
	rec.Metric(t, "rows_total", 4, "table", "streets")
}

// A failedT is the test of an assertion that fails.
type failedT struct {
	testing.TB
	text string
}

func (t *failedT) Helper()                           {}
func (t *failedT) Errorf(format string, args ...any) { t.text = fmt.Sprintf(format, args...) }
func (t *failedT) Fatalf(format string, args ...any) { t.Errorf(format, args...); panic(t) }

// The text of a failed assertion lists what was recorded.
func TestFailedAssertionListsWhatWasRecorded(t *testing.T) {
	for name, tt := range map[string]struct {
		assert func(*servertest.Recorder, testing.TB)
		want   []string
	}{
		"span": {func(r *servertest.Recorder, tb testing.TB) { r.Span(tb, "tools/call bad", "error.type", "timeout") }, []string{
			`servertest: no span "tools/call bad" with error.type="timeout" has ended; there were these spans:`,
			"\n\t\"query\" \n", "\n\t\"tools/call bad\" mcp.method.name=\"tools/call\"", `error.type="tool_error"`, `(status Error`, `(event "exception")`,
			"and these that have not ended: \"tools/call wait\"",
		}},
		"log": {func(r *servertest.Recorder, tb testing.TB) { r.Log(tb, "handler.error", "error", "timeout") }, []string{
			`servertest: no log line "handler.error" with error="timeout"; there were these lines:`, "\n\tERROR \"handler.error\" method=",
		}},
		"metric": {func(r *servertest.Recorder, tb testing.TB) {
			r.Metric(tb, "vitrine_responses_sent_total", 7, "method", "tools/call")
		}, []string{
			`servertest: metric vitrine_responses_sent_total with method="tools/call" is 2, want 7; there were these series:`, "\n\t2 method=\"tools/call\"",
		}},
		"metric name": {func(r *servertest.Recorder, tb testing.TB) { r.Metric(tb, "vitrine_requests_total", 0) }, []string{`there is no metric "vitrine_requests_total"; there are these:`, "\n\tvitrine_requests_admitted_total\n"}},
		"metric label": {func(r *servertest.Recorder, tb testing.TB) {
			r.MetricValue(tb, "vitrine_responses_sent_total", "tool", "x")
		}, []string{`has no label "tool"; it has these: method`}},
		"odd": {func(r *servertest.Recorder, tb testing.TB) { r.Log(tb, "x", "y") }, []string{`["y"] must be names, each with its value`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec := servertest.Record(t)
				client := servertest.Connect(t, newRecorded(rec))
				for _, tool := range []string{"good", "bad"} {
					_, err := client.CallTool(t.Context(), tool, nil)
					require.NoError(t, err)
				}
				go func() { _, _ = client.CallTool(context.Background(), "wait", nil) }()
				failed := &failedT{TB: t}
				func() {
					defer func() { _ = recover() }()
					tt.assert(rec, failed)
				}()
				for _, want := range tt.want {
					require.Contains(t, failed.text, want)
				}
			})
		})
	}
}

func TestRecorderWithNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := &failedT{TB: t}
		require.Panics(t, func() { servertest.Record(t).Span(failed, "tools/call x") })
		require.Equal(t, `servertest: no span "tools/call x" has ended; there were no spans`, failed.text)
	})
}

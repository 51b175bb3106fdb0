package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// newWithSpans returns telemetry for a server that is not ours, and the spans that it makes.
func newWithSpans(t *testing.T, options ...Option) (*Telemetry, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	tel, err := New(append([]Option{WithTracerProvider(provider), WithLogger(slog.New(slog.DiscardHandler))}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	return tel, spans
}

// weatherCall is a call of a tool, as a server that is not ours knows it.
func weatherCall() Info {
	return Info{
		Method: mcp.MethodToolsCall, Target: "weather", ID: mcp.IntID(7), Version: mcp.LatestVersion, Bytes: 321,
		Transport: "stdio", Network: "pipe", Client: &mcp.Implementation{Name: "tester", Version: "1.2"},
		Carrier: propagation.MapCarrier{mcp.MetaTraceParent: callerParent},
	}
}

// page asks a handler for a page of JSON.
func page[T any](t *testing.T, h http.Handler, path string) (p T) {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &p))
	return p
}

// An operation of a server that is not ours is in all that telemetry shows: while it runs,
// when it is cancelled, and when it has ended.
func TestOperationOfAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := newWithSpans(t)
		frames := newFrameMaker(tel)
		frames.next()
		ctx, op := tel.Begin(t.Context(), weatherCall())
		require.Equal(t, trace.SpanContextFromContext(ctx), op.SpanContext())
		require.Equal(t, callerTrace, op.TraceID())
		time.Sleep(200 * time.Millisecond)

		row := page[report.Requests](t, tel.RequestsHandler(), "/debug/requests").Requests[0]
		require.Equal(t, report.Request{
			ID: "7", Method: "tools/call", Tool: "weather", State: "running", AgeSeconds: 0.2, TraceID: callerTrace,
			SpanID: op.SpanContext().SpanID().String(), Client: "tester", ClientVersion: "1.2",
			ProtocolVersion: string(mcp.LatestVersion), Transport: "stdio",
		}, row)
		families := gather(t, tel.Registry())
		require.EqualValues(t, 1, value(families, MetricRequestsInFlight, "state", "running"))
		require.EqualValues(t, 1, value(families, MetricRequestsAdmitted, "method", "tools/call"))
		require.Len(t, frames.next().Requests.Rows, 1)

		op.Cancelled(mcp.CauseClientCancel, "bored")
		op.Cancelled(mcp.CauseDeadline, "too late to matter")
		time.Sleep(100 * time.Millisecond)
		row = page[report.Requests](t, tel.RequestsHandler(), "/debug/requests").Requests[0]
		require.Equal(t, []any{"cancelled", "client_cancel", "bored", 0.1},
			[]any{row.State, row.CancelCause, row.CancelDetail, row.CancelledForSeconds})

		op.End(Outcome{Dropped: mcp.DropCancelled})
		op.End(Outcome{})
		families = gather(t, tel.Registry())
		require.EqualValues(t, 0, value(families, MetricRequestsInFlight, "state", "cancelled"))
		require.EqualValues(t, 1, value(families, MetricRequestsCancelled, "tool", "weather", "cause", "client_cancel"))
		require.EqualValues(t, 1, value(families, MetricResponsesDropped, "tool", "weather", "reason", "cancelled"))
		require.EqualValues(t, 0, sum(families, MetricResponsesSent))
		require.EqualValues(t, 1, value(families, MetricOperationDuration, "gen_ai_tool_name", "weather", "error_type", "client_cancel",
			"mcp_protocol_version", string(mcp.LatestVersion), "network_transport", "pipe"))
		require.EqualValues(t, 1, value(families, MetricCancelUnwind, "tool", "weather", "cause", "client_cancel"))
		require.EqualValues(t, 1, value(families, MetricMessagesReceived, "kind", "request"))

		require.Len(t, spans.Ended(), 1)
		span := spans.Ended()[0]
		require.Equal(t, "tools/call weather", span.Name())
		require.Equal(t, "dropped", attrsOf(span)["vitrine.response.outcome"])
		require.Equal(t, map[string]any{"vitrine.cancel.cause": "client_cancel", "vitrine.cancel.detail": "bored"}, eventsOf(span)["vitrine.cancelled"])
		require.Contains(t, eventsOf(span), "vitrine.response.dropped")

		traces := page[report.Traces](t, tel.TracesHandler(), "/debug/traces").Traces
		require.Len(t, traces, 1)
		kept := traces[0]
		require.Equal(t, []any{"cancelled", "weather", "client_cancel", 0.2, 0.3, 321},
			[]any{kept.Class, kept.Tool, kept.CancelCause, kept.CancelledAfterSeconds, kept.Seconds, kept.RequestBytes})
		frame := frames.next()
		require.Empty(t, frame.Requests.Rows)
		require.Equal(t, "weather", frame.Tools.Rows[0].Tool)
		require.Equal(t, "cancelled", frame.Traces.Rows[0].Class)
		require.EqualValues(t, 1, frame.Totals.Cancelled["client_cancel"])
	})
}

// The outcome of a handler is on its span and in its metrics, and decides the class of the
// recent trace.
func TestOutcomesOfAnotherServer(t *testing.T) {
	for name, tc := range map[string]struct {
		serve  func(op *Operation) Outcome
		error  string
		class  string
		metric string
		labels []string
	}{
		"success": {
			serve: func(*Operation) Outcome { return Outcome{AnswerBytes: 10} }, class: "recent",
			metric: MetricResponsesSent, labels: []string{"method", "tools/call"},
		},
		"tool error": {
			serve: func(op *Operation) Outcome {
				op.Error(errPrivate)
				op.Result(true, &mcp.CallToolResult{IsError: true})
				return Outcome{Fate: FateSent}
			}, error: "tool_error", class: "error", metric: MetricResponsesSent, labels: []string{"method", "tools/call"},
		},
		"error": {
			serve: func(*Operation) Outcome { return Outcome{Err: mcp.NewError(mcp.CodeInternalError, "no")} },
			error: "-32603", class: "error", metric: MetricResponsesSent, labels: []string{"method", "tools/call"},
		},
		"stored": {
			serve: func(*Operation) Outcome { return Outcome{Fate: FateStored} }, class: "recent",
			metric: MetricResponsesStored, labels: []string{"method", "tools/call"},
		},
		"panic": {
			serve: func(op *Operation) Outcome {
				op.Panicked("ouch", []byte("stack"))
				return Outcome{Err: mcp.NewError(mcp.CodeInternalError, "internal error")}
			}, error: "-32603", class: "panic", metric: MetricHandlerPanics, labels: []string{"tool", "weather"},
		},
		"rejected": {
			serve: func(*Operation) Outcome {
				return Outcome{Rejected: mcp.RejectOverload, Err: mcp.NewError(mcp.CodeInternalError, "full")}
			}, error: "-32603", class: "rejected", metric: MetricRequestsRejected, labels: []string{"reason", "overload"},
		},
		"arguments": {
			serve: func(op *Operation) Outcome {
				op.Validated(time.Millisecond)
				op.ArgumentsRejected("/city: missing")
				return Outcome{ToolError: true}
			}, class: "caller_error", metric: MetricArgumentsRejected, labels: []string{"tool", "weather"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tel, spans := newWithSpans(t)
				_, op := tel.Begin(t.Context(), weatherCall())
				op.End(tc.serve(op))
				require.Equal(t, orNil(tc.error), attrsOf(spans.Ended()[0])["error.type"])
				traces := page[report.Traces](t, tel.TracesHandler(), "/debug/traces").Traces
				require.Equal(t, tc.class, traces[0].Class)
				families := gather(t, tel.Registry())
				require.EqualValues(t, 1, value(families, tc.metric, tc.labels...))
				admitted := 1
				if tc.class == "rejected" {
					admitted = 0
				}
				require.EqualValues(t, admitted, sum(families, MetricRequestsAdmitted))
			})
		})
	}
}

// A queue and a subscription are states of an operation.
func TestStatesOfAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, _ := newWithSpans(t)
		info := weatherCall()
		info.Queued = true
		_, op := tel.Begin(t.Context(), info)
		state := func() string {
			rep := page[report.Requests](t, tel.RequestsHandler(), "/debug/requests")
			return append(rep.Requests, rep.Subscriptions...)[0].State
		}
		require.Equal(t, "queued", state())
		time.Sleep(time.Second)
		op.Started(0)
		require.Equal(t, "running", state())
		op.Acknowledged()
		require.Equal(t, "listening", state())
		time.Sleep(time.Minute)
		op.End(Outcome{SubscriptionEnd: mcp.EndServerShutdown})
		families := gather(t, tel.Registry())
		require.EqualValues(t, 1, find(families, MetricQueueWait, nil).GetHistogram().GetSampleSum())
		require.EqualValues(t, 60, find(families, MetricSubscriptionDuration, map[string]string{"end": string(mcp.EndServerShutdown)}).GetHistogram().GetSampleSum())
	})
}

// The operation of an abandoned handler ends twice.
func TestAbandonedOnAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, spans := newWithSpans(t)
		incidents, _ := watched(tel, 0)
		_, op := tel.Begin(t.Context(), weatherCall())
		op.Cancelled(mcp.CauseDeadline, "")
		op.Abandoned(Outcome{})
		op.Abandoned(Outcome{})
		families := gather(t, tel.Registry())
		require.EqualValues(t, 1, value(families, MetricAbandonedNow))
		require.EqualValues(t, 1, value(families, MetricHandlersAbandoned, "tool", "weather", "cause", "deadline"))
		require.Len(t, incidents(), 1)
		op.End(Outcome{Dropped: mcp.DropCancelled})
		families = gather(t, tel.Registry())
		require.EqualValues(t, 0, value(families, MetricAbandonedNow))
		require.Equal(t, "vitrine.handler.returned", spans.Ended()[1].Name())
	})
}

// The cause of the end of the context is known without anybody's saying it, if it has one.
func TestContextsHaveCauses(t *testing.T) {
	for name, tc := range map[string]struct {
		end   func(ctx context.Context) (context.Context, context.CancelFunc)
		cause string
	}{
		"a cause": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(mcp.ErrServerShutdown) }
		}, "server_shutdown"},
		"a deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, "deadline"},
		"none": {context.WithCancel, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tel, _ := newWithSpans(t)
				ctx, end := tc.end(t.Context())
				_, op := tel.Begin(ctx, weatherCall())
				time.Sleep(2 * time.Second)
				end()
				op.End(Outcome{})
				traces := page[report.Traces](t, tel.TracesHandler(), "/debug/traces").Traces
				require.Equal(t, tc.cause, traces[0].CancelCause)
			})
		})
	}
}

// An endpoint that is wrapped knows from where the request came, and that its client has gone.
func TestHTTP(t *testing.T) {
	tel, spans := newWithSpans(t)
	gone := make(chan struct{})
	endpoint := tel.HTTP(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, op := tel.Begin(req.Context(), Info{Method: mcp.MethodToolsCall, Target: req.URL.Path})
		if req.URL.Path == "/gone" {
			close(gone)
			<-ctx.Done()
		}
		op.End(Outcome{})
	}))
	srv := httptest.NewServer(endpoint)
	defer srv.Close()
	req, _ := http.NewRequest(http.MethodPost, srv.URL+"/answered", nil)
	req.Header.Set("Traceparent", callerParent)
	resp, err := srv.Client().Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	ctx, leave := context.WithCancel(t.Context())
	req, _ = http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/gone", nil)
	go func() {
		<-gone
		leave()
	}()
	_, err = srv.Client().Do(req)
	require.Error(t, err)
	srv.Close() // waits for the handlers

	causes := map[string]string{}
	for _, row := range page[report.Traces](t, tel.TracesHandler(), "/debug/traces").Traces {
		causes[row.Tool] = row.CancelCause
		require.Regexp(t, `^127\.0\.0\.1:\d+$`, row.Remote)
		require.Equal(t, "http", row.Transport)
	}
	require.Equal(t, map[string]string{"/answered": "", "/gone": "client_disconnect"}, causes)
	first := spans.Ended()[0]
	require.Equal(t, callerTrace, first.SpanContext().TraceID().String())
	attrs := attrsOf(first)
	require.Equal(t, []any{"tcp", "http", "1.1", "127.0.0.1"},
		[]any{attrs["network.transport"], attrs["network.protocol.name"], attrs["network.protocol.version"], attrs["client.address"]})
}

// The end of an answered exchange is no disconnect: an operation may outlive it.
func TestHTTPExchangeIsOver(t *testing.T) {
	tel, _ := newWithSpans(t)
	ctx, over := context.WithCancel(t.Context())
	var op *Operation
	tel.HTTP(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, op = tel.Begin(req.Context(), weatherCall())
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", nil))
	over()
	op.End(Outcome{})
	require.Empty(t, page[report.Traces](t, tel.TracesHandler(), "/debug/traces").Traces[0].CancelCause)
}

// Disabled telemetry begins operations on which everything may be called.
func TestDisabledOperation(t *testing.T) {
	tel := Disabled()
	ctx, op := tel.Begin(t.Context(), weatherCall())
	require.Equal(t, t.Context(), ctx)
	op.Started(0)
	op.Acknowledged()
	op.Cancelled(mcp.CauseDeadline, "")
	op.Panicked("ouch", nil)
	op.Dropped(mcp.DropCancelled)
	op.NotificationDropped(mcp.NotificationProgress, mcp.DropCancelled)
	op.Event("step")
	op.Error(errPrivate)
	op.Log(mcp.LogInfo, "", "text")
	op.Validated(1)
	op.ArgumentsRejected("a fault")
	op.Result(true, nil)
	op.Abandoned(Outcome{})
	op.End(Outcome{})
	require.Empty(t, op.TraceID()+op.Method()+op.Target())
	require.False(t, op.HasRuntimeTask())
	_, task := tel.BeginTask(ctx, "weather", "1")
	task.Cancelled(mcp.CauseDeadline, "")
	task.Panicked("ouch", nil)
	task.Error(errPrivate)
	task.Abandoned(Outcome{})
	task.End(Outcome{})
	_, end := tel.Notification(ctx, Info{})
	end()
	_, answered := tel.Ask(ctx, Info{})
	answered(mcp.ID{}, nil)
	tel.Session(Info{})(mcp.CauseTransportClose)
	tel.Written("http", 1)
	require.Empty(t, gather(t, tel.Registry()))
}

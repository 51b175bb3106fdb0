package adapttest

import (
	"context"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Mark sets the member "marked" of a result's metadata, as a middleware may.
func Mark(result mcp.Result) {
	meta := result.ResultMetadata()
	if *meta == nil {
		*meta = mcp.Meta{}
	}
	(*meta)["marked"] = true
}

// Wait is the handler of the tool wait. It waits until it is cancelled or released.
func (r *Rig) Wait(ctx context.Context) error {
	r.Started <- struct{}{}
	select {
	case <-ctx.Done():
		cause, _ := mcp.CauseOf(ctx)
		r.Causes <- cause
		return context.Cause(ctx)
	case <-r.Release:
		return nil
	}
}

// Cancelled requires that the tool wait was cancelled with a cause. It checks the handler, the span,
// the metrics and /debug/traces.
func (r *Rig) Cancelled(cause mcp.Cause) Trace {
	r.t.Helper()
	require.Equal(r.t, cause, Receive(r.t, r.Causes, "the cancellation"), "the handler knows the cause")
	span := r.Span("tools/call wait")
	require.Equal(r.t, string(cause), span.Attributes["vitrine.cancel.cause"])
	if cause.Fault() {
		require.Equal(r.t, string(cause), span.Attributes["error.type"])
	} else {
		require.NotContains(r.t, span.Attributes, "error.type", "the caller has decided so")
	}
	r.Eventually(func() bool {
		return r.Metric("vitrine_requests_cancelled_total", Labels{"tool": "wait", "cause": string(cause)}) == 1
	}, "the metric")
	ended := r.Ended("tools/call")
	require.Equal(r.t, string(cause), ended.CancelCause)
	return ended
}

// Recorded requires that a call of the tool add was recorded. It checks the span with the client's
// trace, the metrics and /debug/traces.
func (r *Rig) Recorded(transport, version string) {
	r.t.Helper()
	span := r.Span("tools/call add")
	require.Equal(r.t, trace.SpanKindServer, span.SpanKind())
	require.Equal(r.t, "0af7651916cd43dd8448eb211c80319c", span.SpanContext().TraceID().String(), "the client's trace goes on")
	require.Equal(r.t, "b7ad6b7169203331", span.Parent().SpanID().String())
	require.Equal(r.t, "tools/call", span.Attributes["mcp.method.name"])
	require.Equal(r.t, "add", span.Attributes["gen_ai.tool.name"])
	require.Equal(r.t, version, span.Attributes["mcp.protocol.version"])
	require.NotEmpty(r.t, span.Attributes["jsonrpc.request.id"])
	require.NotContains(r.t, span.Attributes, "error.type")

	network := map[string]string{"http": "tcp", "memory": "pipe", "stdio": "pipe"}[transport]
	require.Equal(r.t, 1.0, r.Metric("mcp_server_operation_duration_seconds", Labels{
		"mcp_method_name": "tools/call", "gen_ai_tool_name": "add", "error_type": "",
		"mcp_protocol_version": version, "network_transport": network,
	}))
	require.Equal(r.t, 1.0, r.Metric("vitrine_requests_admitted_total", Labels{"method": "tools/call"}))
	require.Equal(r.t, 1.0, r.Metric("vitrine_responses_sent_total", Labels{"method": "tools/call"}))

	ended := r.Ended("tools/call")
	require.Equal(r.t, "add", ended.Tool)
	require.Empty(r.t, ended.Outcome, "the SDK has taken it over, and more is not known")
	require.Equal(r.t, "tester", ended.Client)
	require.Equal(r.t, transport, ended.Transport)
	require.NotEmpty(r.t, ended.RequestID)
}

// TraceParent is the traceparent of the client in [Rig.Recorded].
const TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// InTrace is a handler around next that puts the trace context of the HTTP header into the context of the
// request, as otelhttp does.
func InTrace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := propagation.TraceContext{}.Extract(req.Context(), propagation.HeaderCarrier(req.Header))
		next.ServeHTTP(w, req.WithContext(ctx))
	})
}

// Running requires that the call of the tool wait is the only request in flight, in the metrics and
// on the page, until it is released.
func (r *Rig) Running(transport string, done <-chan error) {
	r.t.Helper()
	requests, _, _ := r.Live()
	require.Len(r.t, requests, 1)
	require.Equal(r.t, "wait", requests[0].Tool)
	require.Equal(r.t, "running", requests[0].State)
	require.Equal(r.t, "tester", requests[0].Client)
	require.Equal(r.t, transport, requests[0].Transport)
	require.NotEmpty(r.t, requests[0].ID)
	require.Equal(r.t, transport == "http", requests[0].Remote != "")
	require.Equal(r.t, 1.0, r.Metric("vitrine_requests_in_flight", Labels{"state": "running"}))

	close(r.Release)
	require.NoError(r.t, Receive(r.t, done, "the answer"))
	requests, _, _ = r.Live()
	require.Empty(r.t, requests)
}

// Refused requires that a call was refused because the server shuts down.
func (r *Rig) Refused(err error) {
	r.t.Helper()
	require.ErrorContains(r.t, err, "shutting down")
	require.Equal(r.t, 1.0, r.Metric("vitrine_requests_rejected_total", Labels{"reason": "shutting_down"}))
	require.Equal(r.t, "shutting_down", r.Ended("tools/call").RejectReason)
}

// ShutdownWaits requires that a shutdown waits for the call of the tool wait and does not cancel it.
func (r *Rig) ShutdownWaits(shutdown func(context.Context) error, done <-chan error) {
	r.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- shutdown(r.t.Context()) }()
	select {
	case <-ended:
		r.t.Fatal("it did not wait")
	case <-time.After(20 * time.Millisecond): // long enough to notice a return
	}
	close(r.Release)
	require.NoError(r.t, Receive(r.t, done, "the answer"))
	require.NoError(r.t, Receive(r.t, ended, "the end of Shutdown"))
	require.Zero(r.t, r.Metric("vitrine_requests_cancelled_total", nil))
}

// ShutdownEndsLate requires that a shutdown does not wait for a subscription that begins after it, while the call of
// the tool wait runs. refused reports whether a call of another tool is refused, and subscribe returns when the
// subscription has ended.
func (r *Rig) ShutdownEndsLate(shutdown func(context.Context) error, done <-chan error, refused func() bool, subscribe func()) {
	r.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- shutdown(r.t.Context()) }()
	r.Eventually(refused, "the beginning of the shutdown")
	over := make(chan struct{})
	go func() {
		defer close(over)
		subscribe()
	}()
	Receive(r.t, over, "the end of the subscription")
	close(r.Release)
	require.NoError(r.t, Receive(r.t, done, "the answer"))
	require.NoError(r.t, Receive(r.t, ended, "the end of Shutdown"))
}

// Fed requires that the console gets the running call of the tool wait and the ended call of add.
func (r *Rig) Fed(done <-chan error) {
	r.t.Helper()
	frame := r.Frame()
	require.Len(r.t, frame.Requests.Rows, 1)
	require.Equal(r.t, "wait", frame.Requests.Rows[0].Tool)
	require.NotEmpty(r.t, frame.Traces.Rows)
	require.Equal(r.t, "add", frame.Traces.Rows[0].Tool)
	close(r.Release)
	require.NoError(r.t, Receive(r.t, done, "the answer"))
}

package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// tracedReplicas are two servers with one recorder of spans.
type tracedReplicas struct {
	a, b  *server.Server
	spans *tracetest.SpanRecorder
}

// inTracedReplicas runs a test with two servers in a bubble, whose spans are recorded.
func inTracedReplicas(t *testing.T, test func(t *testing.T, r *tracedReplicas)) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedMemory{}
		var both [2]*server.Server
		for i := range both {
			tel, err := telemetry.New(telemetry.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
			require.NoError(t, err)
			both[i] = newReplica(t, server.WithStore(shared.store()), server.WithTelemetry(tel))
			defer func() {
				require.NoError(t, both[i].Shutdown(context.Background()))
				require.NoError(t, tel.Shutdown(context.Background()))
			}()
		}
		synctest.Wait()
		test(t, &tracedReplicas{both[0], both[1], spans})
	})
}

// ended returns the ended span with a name.
func (r *tracedReplicas) ended(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	synctest.Wait()
	all := r.spans.Ended()
	i := slices.IndexFunc(all, func(s sdktrace.ReadOnlySpan) bool { return s.Name() == name })
	require.GreaterOrEqual(t, i, 0, name)
	return all[i]
}

// arrival returns the event of a span for a message that has come through another replica.
func arrival(t *testing.T, span sdktrace.ReadOnlySpan) attribute.Set {
	t.Helper()
	events := span.Events()
	i := slices.IndexFunc(events, func(e sdktrace.Event) bool { return e.Name == "vitrine.signal.arrived" })
	require.GreaterOrEqual(t, i, 0, "%v", events)
	return attribute.NewSet(events[i].Attributes...)
}

// expectArrival expects that a span tells of a message that has come through B in a trace, and is linked to it.
func (r *tracedReplicas) expectArrival(t *testing.T, span sdktrace.ReadOnlySpan, kind string, there trace.SpanContext) {
	t.Helper()
	said := arrival(t, span)
	for key, want := range map[attribute.Key]string{
		"vitrine.signal.kind": kind, "vitrine.signal.replica": requestsPage(t, r.b).Replica,
		"vitrine.signal.trace_id": there.TraceID().String(),
	} {
		got, _ := said.Value(key)
		require.Equal(t, want, got.AsString(), key)
	}
	require.True(t, slices.ContainsFunc(span.Links(), func(l sdktrace.Link) bool { return l.SpanContext.SpanID() == there.SpanID() }))
}

// expectTrace expects that the trace of a message has a span below it which is linked to that of a request.
func (r *tracedReplicas) expectTrace(t *testing.T, there trace.SpanContext, request sdktrace.ReadOnlySpan) {
	t.Helper()
	signal := r.ended(t, "vitrine.signal")
	require.Equal(t, there.SpanID(), signal.Parent().SpanID())
	require.Equal(t, there.TraceID(), signal.SpanContext().TraceID())
	require.Len(t, signal.Links(), 1)
	require.Equal(t, request.SpanContext(), signal.Links()[0].SpanContext)
}

// The span of a request says through which replica its cancel has come, and is linked to the span of that. The
// trace of the cancel has a span that is linked to the request.
func TestSpansOfACancelAtAnotherReplica(t *testing.T) {
	inTracedReplicas(t, func(t *testing.T, r *tracedReplicas) {
		causes := blocking(r.a)
		session := open(t, r.a)
		go post(r.a, legacy(7, "tools/call", `"name":"block","arguments":{}`), session)
		synctest.Wait()
		require.Equal(t, 202, post(r.b, notice("notifications/cancelled", `{"requestId":7}`), session).Code)
		<-causes
		request, cancel := r.ended(t, "tools/call block"), r.ended(t, "notifications/cancelled")
		require.NotEqual(t, request.SpanContext().TraceID(), cancel.SpanContext().TraceID())
		r.expectArrival(t, request, "cancel", cancel.SpanContext())
		r.expectTrace(t, cancel.SpanContext(), request)
	})
}

// A client that sends its trace context has the request at one replica and its cancel at another in one trace.
func TestCancelAtAnotherReplicaInTheTraceOfItsClient(t *testing.T) {
	inTracedReplicas(t, func(t *testing.T, r *tracedReplicas) {
		const client = "4bf92f3577b34da6a3ce929d0e0e4736"
		const context = `"_meta":{"traceparent":"00-` + client + `-00f067aa0ba902b7-01"}`
		causes := blocking(r.a)
		session := open(t, r.a)
		go post(r.a, legacy(7, "tools/call", `"name":"block","arguments":{},`+context), session)
		synctest.Wait()
		require.Equal(t, 202, post(r.b, notice("notifications/cancelled", `{"requestId":7,`+context+`}`), session).Code)
		<-causes
		for _, name := range []string{"tools/call block", "notifications/cancelled", "vitrine.signal"} {
			require.Equal(t, client, r.ended(t, name).SpanContext().TraceID().String(), name)
		}
	})
}

// A cancel at the replica of the request has no such event.
func TestSpansOfACancelAtTheSameReplica(t *testing.T) {
	inTracedReplicas(t, func(t *testing.T, r *tracedReplicas) {
		causes := blocking(r.a)
		session := open(t, r.a)
		go post(r.a, legacy(7, "tools/call", `"name":"block","arguments":{}`), session)
		synctest.Wait()
		require.Equal(t, 202, post(r.a, notice("notifications/cancelled", `{"requestId":7}`), session).Code)
		<-causes
		request := r.ended(t, "tools/call block")
		require.Empty(t, request.Links())
		for _, e := range request.Events() {
			require.NotEqual(t, "vitrine.signal.arrived", e.Name)
		}
	})
}

// within serves a request within a span of the HTTP server, and returns that.
func (r *tracedReplicas) within(t *testing.T, srv *server.Server, req *http.Request) trace.SpanContext {
	t.Helper()
	ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans)).Tracer("").Start(context.Background(), "HTTP")
	out := &eventWriter{header: http.Header{}, written: make(chan string, 10)}
	srv.Handler().ServeHTTP(out, req.WithContext(ctx))
	span.End()
	return span.SpanContext()
}

// The span of a request tells of an answer of its client that has come through another replica, and is linked to
// the span that the HTTP server has there.
func TestSpansOfAnAnswerAtAnotherReplica(t *testing.T) {
	inTracedReplicas(t, func(t *testing.T, r *tracedReplicas) {
		server.AddTool(r.a, server.Tool{Name: "ask"}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
			raw, err := c.CallClient(ctx, "roots/list", nil)
			return string(raw), err
		})
		session := open(t, r.a)
		require.Equal(t, 202, post(r.b, notice("notifications/initialized", ""), session).Code)
		out := &eventWriter{header: http.Header{}, written: make(chan string, 10)}
		go r.a.Handler().ServeHTTP(out, legacyRequest(legacy(7, "tools/call", `"name":"ask","arguments":{}`), session))
		_, id, _ := strings.Cut(<-out.written, `"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		there := r.within(t, r.b, legacyRequest(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"roots":[]}}`, id), session))
		require.Contains(t, <-out.written, `roots`)
		request := r.ended(t, "tools/call ask")
		r.expectArrival(t, request, "answer", there)
		r.expectTrace(t, there, request)
	})
}

// The span of a request tells that its session was deleted through another replica.
func TestSpansOfADeleteAtAnotherReplica(t *testing.T) {
	inTracedReplicas(t, func(t *testing.T, r *tracedReplicas) {
		causes := blocking(r.a)
		session := open(t, r.a)
		go post(r.a, legacy(7, "tools/call", `"name":"block","arguments":{}`), session)
		synctest.Wait()
		req := legacyRequest("", session)
		req.Method = http.MethodDelete
		there := r.within(t, r.b, req)
		<-causes
		request := r.ended(t, "tools/call block")
		r.expectArrival(t, request, "session_end", there)
		r.expectTrace(t, there, request)
	})
}

// Without a span of the HTTP server the span of a request says through which replica the end of its session has
// come, and has no link.
func TestSpansOfADeleteWithoutATrace(t *testing.T) {
	inTracedReplicas(t, func(t *testing.T, r *tracedReplicas) {
		causes := blocking(r.a)
		session := open(t, r.a)
		go post(r.a, legacy(7, "tools/call", `"name":"block","arguments":{}`), session)
		synctest.Wait()
		require.Equal(t, 204, send(r.b, http.MethodDelete, "", session).Code)
		<-causes
		request := r.ended(t, "tools/call block")
		said := arrival(t, request)
		from, _ := said.Value("vitrine.signal.replica")
		require.Equal(t, requestsPage(t, r.b).Replica, from.AsString())
		require.False(t, said.HasValue("vitrine.signal.trace_id"))
		require.Empty(t, request.Links())
	})
}

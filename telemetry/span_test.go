package telemetry

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

const (
	callerTrace  = "0af7651916cd43dd8448eb211c80319c"
	callerParent = "00-" + callerTrace + "-b7ad6b7169203331-01"
)

func TestSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		var arrived time.Time
		r.tools["nap"] = func(_ context.Context, q *session.Request) (mcp.Result, error) {
			arrived = q.ArrivedAt()
			time.Sleep(40 * time.Millisecond)
			return &mcp.CallToolResult{}, nil
		}
		r.post(call("nap"), &sink{})

		s := r.span()
		require.Equal(t, "tools/call nap", s.Name())
		require.Equal(t, trace.SpanKindServer, s.SpanKind())
		require.True(t, s.StartTime().Equal(arrived))
		require.GreaterOrEqual(t, s.EndTime().Sub(arrived), 40*time.Millisecond)
		require.False(t, s.Parent().IsValid())
		require.Empty(t, s.Links())
		require.Empty(t, s.Events())
		require.Equal(t, codes.Unset, s.Status().Code)
		attrs := attrsOf(s)
		require.Less(t, attrs["vitrine.queue.wait"], 0.01)
		delete(attrs, "vitrine.queue.wait")
		require.Equal(t, map[string]any{
			"mcp.method.name": "tools/call", "gen_ai.tool.name": "nap", "gen_ai.operation.name": "execute_tool",
			"jsonrpc.request.id": "7", "mcp.protocol.version": "2026-07-28",
			"network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "1.1",
			"client.address": "192.0.2.7", "client.port": int64(4711),
			"vitrine.client.name": "tester", "vitrine.client.version": "1.2", "vitrine.response.outcome": "sent",
		}, attrs)

		m := find(gather(t, r.tel.Registry()), MetricOperationDuration, map[string]string{
			"mcp_method_name": "tools/call", "gen_ai_tool_name": "nap", "gen_ai_operation_name": "execute_tool",
			"gen_ai_prompt_name": "", "error_type": "", "rpc_response_status_code": "", "mcp_protocol_version": "2026-07-28",
			"network_transport": "tcp", "network_protocol_name": "http", "network_protocol_version": "1.1",
		})
		require.NotNil(t, m)
		require.EqualValues(t, 1, m.GetHistogram().GetSampleCount())
		require.InDelta(t, 0.04, m.GetHistogram().GetSampleSum(), 0.01)
		require.NotEmpty(t, m.GetHistogram().GetPositiveSpan(), "no native histogram")
	})
}

// TestFailures checks the whose-fault rule on spans and metrics, for answers.
func TestFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		handle  session.Handle
		code    string // rpc.response.status_code
		error   string // error.type on the span
		label   string // error_type of the metric
		message string
	}{
		"tool error": {
			handle: func(_ context.Context, q *session.Request) (mcp.Result, error) {
				TestBridge.Result(q, &mcp.CallToolResult{IsError: true})
				return mcp.ToolErrorResult("no such city"), nil
			},
			error: "tool_error", label: "tool_error",
		},
		"invalid params": {handle: fails(mcp.NewError(mcp.CodeInvalidParams, "no")), code: "-32602"},
		"wrapped":        {handle: fails(fmt.Errorf("so: %w", mcp.NewError(mcp.CodeInvalidRequest, "no"))), code: "-32600"},
		"header":         {handle: fails(mcp.NewError(mcp.CodeHeaderMismatch, "no")), code: "-32020"},
		"internal error": {
			handle: fails(mcp.NewError(mcp.CodeInternalError, "the disk is full")),
			code:   "-32603", error: "-32603", label: "-32603", message: "the disk is full",
		},
		"private error": {
			handle: fails(errPrivate), code: "-32603", error: "-32603", label: "-32603", message: "internal error",
		},
		"code of the application": {
			handle: fails(mcp.NewError(-5, "out of tea")), code: "-5", error: "-5", label: "_OTHER", message: "out of tea",
		},
		"panic": {
			handle: func(context.Context, *session.Request) (mcp.Result, error) { panic("boom") },
			code:   "-32603", error: "-32603", label: "-32603", message: "internal error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{})
				r.tools["t"] = tc.handle
				r.post(call("t"), &sink{})
				s := r.span()
				attrs := attrsOf(s)
				require.Equal(t, orNil(tc.error), attrs["error.type"])
				require.Equal(t, orNil(tc.code), attrs["rpc.response.status_code"])
				want := sdktrace.Status{}
				if tc.error != "" {
					want = sdktrace.Status{Code: codes.Error, Description: tc.message}
				}
				require.Equal(t, want, s.Status())
				code := tc.code
				if code == "-5" {
					code = "_OTHER"
				}
				require.EqualValues(t, 1, value(gather(t, r.tel.Registry()), MetricOperationDuration,
					"error_type", tc.label, "rpc_response_status_code", code, "gen_ai_tool_name", "t"))
			})
		})
	}
}

func TestPanicIsOnTheSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.tools["t"] = func(context.Context, *session.Request) (mcp.Result, error) { panic(errPrivate) }
		r.post(call("t"), &sink{})
		e := eventsOf(r.span())["exception"]
		require.Equal(t, "*errors.errorString", e["exception.type"])
		require.Equal(t, errPrivate.Error(), e["exception.message"])
		require.Contains(t, e["exception.stacktrace"], "TestPanicIsOnTheSpan")
		require.EqualValues(t, 1, value(gather(t, r.tel.Registry()), MetricHandlerPanics, "method", "tools/call", "tool", "t"))
	})
}

func TestParents(t *testing.T) {
	ambient := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	})
	for name, tc := range map[string]struct {
		meta      bool
		broken    bool // meta that is no trace context
		ambient   bool
		header    bool // an HTTP traceparent, from a gateway
		untrusted bool
		parent    string // "", "meta", "ambient" or "header"
		links     []string
	}{
		"none":                              {},
		"meta":                              {meta: true, parent: "meta"},
		"broken meta and ambient":           {broken: true, ambient: true, parent: "ambient"},
		"ambient":                           {ambient: true, parent: "ambient"},
		"meta and ambient":                  {meta: true, ambient: true, parent: "meta", links: []string{"ambient"}},
		"untrusted meta":                    {meta: true, untrusted: true, links: []string{"meta"}},
		"untrusted meta and ambient":        {meta: true, ambient: true, untrusted: true, links: []string{"ambient", "meta"}},
		"header":                            {header: true, parent: "header"},
		"meta and header":                   {meta: true, header: true, parent: "meta", links: []string{"header"}},
		"ambient and header":                {ambient: true, header: true, parent: "ambient"},
		"untrusted header":                  {header: true, untrusted: true, links: []string{"header"}},
		"untrusted meta and header":         {meta: true, header: true, untrusted: true, links: []string{"header", "meta"}},
		"ambient, where meta is mistrusted": {ambient: true, untrusted: true, parent: "ambient"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cfg rigConfig
				if tc.untrusted {
					cfg.telemetry = []Option{WithUntrustedParents()}
				}
				r := newRig(t, cfg)
				in := call("t")
				if tc.meta {
					in.Meta.TraceParent, in.Meta.Baggage = callerParent, "tenant=blue"
				}
				if tc.broken {
					in.Meta.TraceParent = "00-zz-zz-01"
				}
				if tc.ambient {
					in.Values = trace.ContextWithSpanContext(context.Background(), ambient)
				}
				if tc.header {
					in.Header = map[string][]string{"Traceparent": {"00-0000000000000000000000000000000c-000000000000000c-01"}}
				}
				var inside trace.SpanContext
				var tenant string
				r.tools["t"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
					inside = trace.SpanContextFromContext(ctx)
					tenant = baggage.FromContext(ctx).Member("tenant").Value()
					return &mcp.CallToolResult{}, nil
				}
				r.post(in, &sink{})
				name := func(sc trace.SpanContext) string {
					switch {
					case sc.SpanID() == ambient.SpanID():
						return "ambient"
					case sc.SpanID().String() == "b7ad6b7169203331":
						return "meta"
					case sc.SpanID().String() == "000000000000000c":
						return "header"
					}
					return ""
				}
				s := r.span()
				require.Equal(t, s.SpanContext(), inside)
				require.Equal(t, tc.parent, name(s.Parent()))
				require.Equal(t, tc.parent == "meta", s.SpanContext().TraceID().String() == callerTrace)
				var links []string
				for _, l := range s.Links() {
					links = append(links, name(l.SpanContext))
				}
				require.Equal(t, tc.links, links)
				require.Equal(t, tc.meta && !tc.untrusted, tenant == "blue")
			})
		})
	}
}

func TestBrokenParentIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		in := call("echo")
		in.Meta.TraceParent = "00-zz-zz-01"
		r.post(in, &sink{})
		require.False(t, r.span().Parent().IsValid())
		require.Empty(t, r.span().Links())
	})
}

func TestUnsampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{sampler: sdktrace.NeverSample()})
		r.tools["fail"] = fails(errPrivate)
		r.post(call("echo"), &sink{})
		r.post(call("fail"), &sink{fail: brokenPipe(mcp.DropBrokenPeer)})
		require.Empty(t, r.spans.Ended())
		families := gather(t, r.tel.Registry())
		require.EqualValues(t, 1, value(families, MetricOperationDuration, "gen_ai_tool_name", "echo"))
		for _, m := range families[MetricResponsesDropped].GetMetric() {
			require.Nil(t, m.GetCounter().GetExemplar())
		}
		for _, m := range families[MetricOperationDuration].GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				require.Nil(t, b.GetExemplar())
			}
		}
	})
}

// TestLostNotification checks that a notification which is not sent is on the span of its request,
// unless the client had not asked for it.
func TestLostNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.tools["t"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
			q.DropNotification(mcp.NotificationProgress, mcp.DropNoProgressToken)
			q.DropNotification(mcp.NotificationProgress, mcp.DropQueueFull)
			return &mcp.CallToolResult{}, nil
		}
		r.post(call("t"), &sink{})
		events := r.span().Events()
		require.Len(t, events, 1)
		require.Equal(t, "vitrine.notification.dropped", events[0].Name)
		require.Equal(t, []attribute.KeyValue{
			attribute.String("mcp.method.name", "notifications/progress"),
			attribute.String("vitrine.drop.reason", "queue_full"),
		}, events[0].Attributes)
	})
}

// TestOtherMethods checks the attributes that only some methods have.
func TestOtherMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		ok := func(context.Context, *session.Request) (mcp.Result, error) { return &mcp.EmptyResult{}, nil }
		r.other["prompts/get"], r.other["resources/read"] = ok, ok
		in := call("greet")
		in.Method = "prompts/get"
		r.post(in, &sink{})
		prompt := r.spans.Ended()[0]
		require.Equal(t, "prompts/get greet", prompt.Name())
		require.Equal(t, "greet", attrsOf(prompt)["gen_ai.prompt.name"])
		require.NotContains(t, attrsOf(prompt), "gen_ai.operation.name")
		require.NotContains(t, attrsOf(prompt), "gen_ai.tool.name")
		require.EqualValues(t, 1, value(gather(t, r.tel.Registry()), MetricOperationDuration,
			"gen_ai_prompt_name", "greet", "gen_ai_operation_name", ""))
	})
}

func TestResourceURIIsAnAttributeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		in := call("file:///etc/motd")
		in.Method = "resources/read" // unknown to this server
		r.post(in, &sink{})
		require.Equal(t, other, r.span().Name())
		require.Equal(t, "file:///etc/motd", attrsOf(r.span())["mcp.resource.uri"])
	})
}

// TestLegacySession checks what comes from the session: its id, its client, its revision.
func TestLegacySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.other[mcp.MethodInitialize] = func(_ context.Context, q *session.Request) (mcp.Result, error) {
			q.Session().Initialize(&session.Peer{
				Version: mcp.LatestLegacyVersion, Client: mcp.Implementation{Name: strings.Repeat("x", 200), Version: "9"},
			})
			return &mcp.EmptyResult{}, nil
		}
		s, _, rejected := r.core.Open(httpConn, "secret-session-id")
		require.Nil(t, rejected)
		for _, method := range []string{mcp.MethodInitialize, mcp.MethodToolsCall} {
			in := call("echo")
			in.Era, in.Version, in.Method, in.Meta = mcp.Legacy, "", method, wire.Meta{}
			if method == mcp.MethodInitialize {
				in.Name = ""
			}
			st := r.core.Exchange(httpConn, 1, mcp.Legacy)
			s.ReceiveOn(in, st)
			require.NoError(t, st.Pump(&sink{}))
			r.rest()
		}
		for _, span := range r.spans.Ended() {
			attrs := attrsOf(span)
			require.Equal(t, "secret-s", attrs["mcp.session.id"], "the whole id would give access to the session")
			require.Equal(t, "2025-11-25", attrs["mcp.protocol.version"])
			require.Equal(t, strings.Repeat("x", 64), attrs["vitrine.client.name"])
		}
		s.Close(mcp.CauseSessionEvicted)
		<-s.Done()
		require.EqualValues(t, 1, value(gather(t, r.tel.Registry()), MetricSessionDuration,
			"error_type", "session_evicted", "mcp_protocol_version", "2025-11-25", "network_transport", "tcp"))
	})
}

// TestNotifications: a notification has a span and a duration, under its name if that
// is a constant of the protocol or of the program.
func TestNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		const own = "notifications/com.example/thing"
		r.observer.(interface{ KnowNotification(string) }).KnowNotification(own)
		s := r.core.Connect(pipeConn, &sink{})
		for _, method := range []string{mcp.NotificationCancelled, mcp.NotificationInitialized, "notifications/evil", own} {
			s.Receive(&session.Inbound{Conn: pipeConn, Version: mcp.LatestVersion, Envelope: wire.Envelope{
				Kind: wire.Notification, Method: method, Meta: wire.Meta{TraceParent: callerParent},
			}})
		}
		s.Close(mcp.CauseTransportClose)
		<-s.Done()
		spans := r.spans.Ended()
		require.Len(t, spans, 4)
		families := gather(t, r.tel.Registry())
		for i, method := range []string{mcp.NotificationCancelled, mcp.NotificationInitialized, other, own} {
			require.Equal(t, method, spans[i].Name())
			require.Equal(t, trace.SpanKindServer, spans[i].SpanKind())
			require.Equal(t, callerTrace, spans[i].SpanContext().TraceID().String())
			require.Equal(t, map[string]any{
				"mcp.method.name": method, "mcp.protocol.version": "2026-07-28", "network.transport": "pipe",
			}, attrsOf(spans[i]))
			require.EqualValues(t, 1, value(families, MetricOperationDuration, "mcp_method_name", method))
		}
	})
}

func fails(err error) session.Handle {
	return func(context.Context, *session.Request) (mcp.Result, error) { return nil, err }
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

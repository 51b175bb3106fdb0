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

// TestLostNotification holds that a notification which is not sent is on the span of
// its request, unless nobody had asked for it.
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

// TestCauses provokes cancellations and checks span, counter and exemplar.
func TestCauses(t *testing.T) {
	stdio := func(r *rig, provoke func(*session.Session)) {
		s := r.core.Connect(pipeConn, &sink{})
		in := call("wait")
		in.Conn = pipeConn
		s.Receive(in)
		synctest.Wait()
		provoke(s)
		r.rest()
		s.Close(mcp.CauseTransportClose)
		<-s.Done()
	}
	for _, tc := range []struct {
		cause   mcp.Cause
		provoke func(r *rig)
		drop    mcp.DropReason // or answered
		fault   bool
	}{
		{mcp.CauseClientCancel, func(r *rig) {
			stdio(r, func(s *session.Session) {
				s.Receive(&session.Inbound{Conn: pipeConn, Envelope: wire.Envelope{
					Kind: wire.Notification, Method: mcp.NotificationCancelled,
					Cancel: &wire.Cancel{HasRequestID: true, RequestID: mcp.IntID(7), RequestIDOK: true, Reason: "bored\nnow"},
				}})
			})
		}, mcp.DropCancelled, false},
		{mcp.CauseClientDisconnect, func(r *rig) {
			st := r.core.Exchange(httpConn, 1, mcp.Modern)
			r.core.Receive(call("wait"), st)
			synctest.Wait()
			st.Lost()
			r.rest()
		}, mcp.DropCancelled, false},
		{mcp.CauseTransportClose, func(r *rig) { stdio(r, func(s *session.Session) { s.EOF() }) }, "", true},
		{mcp.CauseTransportError, func(r *rig) {
			stdio(r, func(s *session.Session) { s.Fail(errPrivate) })
		}, mcp.DropBrokenPeer, true},
		{mcp.CauseSessionDelete, func(r *rig) {
			stdio(r, func(s *session.Session) { s.Close(mcp.CauseSessionDelete) })
		}, mcp.DropClosedWriter, false},
		{mcp.CauseSessionEvicted, func(r *rig) {
			stdio(r, func(s *session.Session) { s.Close(mcp.CauseSessionEvicted) })
		}, mcp.DropClosedWriter, true},
		{mcp.CauseSessionIdle, func(r *rig) {
			stdio(r, func(s *session.Session) { s.Close(mcp.CauseSessionIdle) })
		}, mcp.DropClosedWriter, false},
		{mcp.CauseServerShutdown, func(r *rig) {
			st := r.core.Exchange(httpConn, 1, mcp.Modern)
			r.core.Receive(call("wait"), st)
			synctest.Wait()
			go r.shutdown()
			_ = st.Pump(&sink{})
			r.rest()
		}, "", true},
		{mcp.CauseDeadline, func(r *rig) { r.post(call("wait"), &sink{}) }, "", true},
	} {
		t.Run(string(tc.cause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{limits: session.Limits{EOFGrace: 100 * time.Millisecond}})
				r.tools["wait"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
					<-ctx.Done()
					time.Sleep(20 * time.Millisecond)
					return nil, context.Cause(ctx)
				}
				tc.provoke(r)
				synctest.Wait()
				s := r.span()
				attrs, events := attrsOf(s), eventsOf(s)
				require.Equal(t, string(tc.cause), attrs["vitrine.cancel.cause"])
				require.Equal(t, string(tc.cause), events["vitrine.cancelled"]["vitrine.cancel.cause"])
				if tc.cause == mcp.CauseClientCancel {
					require.Equal(t, "bored\ufffdnow", events["vitrine.cancelled"]["vitrine.cancel.detail"])
				} else {
					require.NotContains(t, events["vitrine.cancelled"], "vitrine.cancel.detail")
				}
				if tc.fault {
					require.Equal(t, string(tc.cause), attrs["error.type"])
					require.Equal(t, codes.Error, s.Status().Code)
				} else {
					require.NotContains(t, attrs, "error.type")
					require.Equal(t, codes.Unset, s.Status().Code)
				}
				families := gather(t, r.tel.Registry())
				if tc.drop == "" {
					require.Equal(t, "sent", attrs["vitrine.response.outcome"])
					require.NotContains(t, events, "vitrine.response.dropped")
				} else {
					require.Equal(t, "dropped", attrs["vitrine.response.outcome"])
					require.Equal(t, string(tc.drop), attrs["vitrine.drop.reason"])
					require.Equal(t, string(tc.drop), events["vitrine.response.dropped"]["vitrine.drop.reason"])
					requireExemplar(t, find(families, MetricResponsesDropped, map[string]string{
						"method": "tools/call", "tool": "wait", "reason": string(tc.drop),
					}).GetCounter().GetExemplar(), s.SpanContext())
				}
				requireExemplar(t, find(families, MetricRequestsCancelled, map[string]string{
					"method": "tools/call", "tool": "wait", "cause": string(tc.cause),
				}).GetCounter().GetExemplar(), s.SpanContext())
				unwind := find(families, MetricCancelUnwind, map[string]string{"tool": "wait", "cause": string(tc.cause)})
				require.EqualValues(t, 1, unwind.GetHistogram().GetSampleCount())
				require.InDelta(t, 0.02, unwind.GetHistogram().GetSampleSum(), 1e-6)
				require.Equal(t, sum(families, MetricRequestsAdmitted),
					sum(families, MetricResponsesSent)+sum(families, MetricResponsesStored)+sum(families, MetricResponsesDropped))
			})
		})
	}
}

func TestWriteFailures(t *testing.T) {
	for _, reason := range []mcp.DropReason{mcp.DropBrokenPeer, mcp.DropClosedWriter, mcp.DropWriteTimeout} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{})
				r.post(call("echo"), &sink{fail: brokenPipe(reason)})
				attrs := attrsOf(r.span())
				require.Equal(t, string(reason), attrs["vitrine.drop.reason"])
				if reason == mcp.DropWriteTimeout {
					require.Equal(t, "write_timeout", attrs["error.type"])
				} else {
					require.NotContains(t, attrs, "error.type")
				}
				require.EqualValues(t, 1, value(gather(t, r.tel.Registry()), MetricResponsesDropped,
					"reason", string(reason), "tool", "echo"))
			})
		})
	}
}

func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{limits: session.Limits{AbandonGrace: 5 * time.Second}})
		release := make(chan struct{})
		r.tools["stubborn"] = func(context.Context, *session.Request) (mcp.Result, error) {
			<-release
			return &mcp.CallToolResult{}, nil
		}
		st := r.core.Exchange(httpConn, 1, mcp.Modern)
		r.core.Receive(call("stubborn"), st)
		require.NoError(t, st.Pump(&sink{})) // the answer of the deadline
		time.Sleep(10 * time.Second)
		s := r.span()
		require.Contains(t, eventsOf(s), "vitrine.handler.abandoned")
		require.Equal(t, "deadline", attrsOf(s)["error.type"])
		families := gather(t, r.tel.Registry())
		require.EqualValues(t, 1, value(families, MetricAbandonedNow))
		require.EqualValues(t, 1, value(families, MetricHandlersAbandoned, "tool", "stubborn", "cause", "deadline"))
		require.EqualValues(t, 1, value(families, MetricRequestsInFlight, "state", "cancelled"))

		close(release)
		r.rest()
		ended := r.spans.Ended()
		require.Len(t, ended, 2)
		late := ended[1]
		require.Equal(t, spanReturnedLate, late.Name())
		require.Equal(t, s.SpanContext().SpanID(), late.Links()[0].SpanContext.SpanID())
		require.InDelta(t, 10, attrsOf(late)["vitrine.cancel.unwind"], 0.01)
		families = gather(t, r.tel.Registry())
		require.EqualValues(t, 0, value(families, MetricAbandonedNow))
		require.EqualValues(t, 1, value(families, MetricOperationDuration, "gen_ai_tool_name", "stubborn"),
			"the duration is observed once")
	})
}

func TestRejections(t *testing.T) {
	t.Run("duplicate id", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rigConfig{})
			release := make(chan struct{})
			r.tools["t"] = func(context.Context, *session.Request) (mcp.Result, error) {
				<-release
				return &mcp.CallToolResult{}, nil
			}
			s := r.core.Connect(pipeConn, &sink{})
			s.Receive(call("t"))
			synctest.Wait()
			s.Receive(call("t"))
			synctest.Wait()
			attrs := attrsOf(r.span())
			require.Equal(t, "duplicate_id", attrs["vitrine.reject.reason"])
			require.Equal(t, "-32600", attrs["rpc.response.status_code"])
			require.NotContains(t, attrs, "error.type")
			require.NotContains(t, attrs, "vitrine.queue.wait")
			close(release)
			s.Finish(mcp.CauseTransportClose)
		})
	})
	t.Run("shutting down", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rigConfig{})
			r.shutdown()
			r.post(call("echo"), &sink{})
			s := r.span()
			require.Equal(t, "shutting_down", attrsOf(s)["vitrine.reject.reason"])
			require.Equal(t, "-32603", attrsOf(s)["error.type"])
			require.Equal(t, codes.Error, s.Status().Code)
			families := gather(t, r.tel.Registry())
			require.EqualValues(t, 1, value(families, MetricRequestsRejected, "reason", "shutting_down"))
			require.EqualValues(t, 1, value(families, MetricOperationDuration, "error_type", "-32603"))
		})
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
			require.Equal(t, "secret-session-id", attrs["mcp.session.id"])
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

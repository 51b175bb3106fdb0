package telemetry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// askSink keeps what is sent to the client.
type askSink struct {
	sink
	asked   []jsontext.Value
	respond func() // if it is not nil, it is told of each question
}

func (s *askSink) Write(m *stream.Message) error {
	if m.Kind == stream.Call {
		s.asked = append(s.asked, jsontext.Value(m.Frame).Clone())
		if s.respond != nil {
			go s.respond()
		}
	}
	return s.sink.Write(m)
}

// clientSpans returns the spans of kind CLIENT that have ended.
func (r *rig) clientSpans() (spans []sdktrace.ReadOnlySpan) {
	for _, s := range r.spans.Ended() {
		if s.SpanKind() == trace.SpanKindClient {
			spans = append(spans, s)
		}
	}
	return spans
}

// A request to the client is a span below that of the request on whose behalf it is
// made, the client learns of it, and its duration is counted by its end.
func TestAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		end       func(s *session.Session) // nil: nothing happens
		limits    limits.Limits
		code      string
		errorType string
		cause     string
		message   string
		unsent    bool
	}{
		"answered": {end: func(s *session.Session) {
			s.Receive(answer(wire.Envelope{Result: jsontext.Value(`{"roots":[]}`)}))
		}},
		"refused": {end: func(s *session.Session) {
			s.Receive(answer(wire.Envelope{Error: jsontext.Value(`{"code":-32602,"message":"not now"}`)}))
		}, code: "-32602", errorType: "-32602", message: "not now"},
		"cancelled": {end: func(s *session.Session) {
			s.Receive(&session.Inbound{Conn: pipeConn, Envelope: wire.Envelope{
				Kind: wire.Notification, Method: mcp.NotificationCancelled,
				Cancel: &wire.Cancel{RequestID: mcp.IntID(7), HasRequestID: true, RequestIDOK: true},
			}})
		}, errorType: "client_cancel", cause: "client_cancel"},
		"time-out": {errorType: askTimeout},
		"closed":   {end: func(s *session.Session) { s.Close(mcp.CauseTransportError) }, errorType: "transport_error", cause: "transport_error"},
		"limit": {limits: limits.Limits{MaxOutbound: 1}, unsent: true,
			errorType: "-32603"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{limits: tt.limits})
				out := &askSink{}
				s := r.core.Connect(pipeConn, out)
				s.Initialize(&session.Peer{Version: mcp.LatestLegacyVersion})
				s.Initialized()
				if tt.unsent {
					go func() { _, _ = s.Ask(t.Context(), mcp.MethodPing, nil) }()
					synctest.Wait()
				}
				var asker trace.SpanContext
				r.tools["ask"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
					asker = trace.SpanContextFromContext(ctx)
					ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
					defer cancel()
					_, err := q.Ask(ctx, mcp.MethodRootsList, []byte(`{"_meta":{"own":1},"x":2}`))
					return &mcp.CallToolResult{}, err
				}
				in := call("ask")
				in.Era, in.Version, in.Conn, in.Meta = mcp.Legacy, "", pipeConn, wire.Meta{}
				s.Receive(in)
				synctest.Wait()
				time.Sleep(40 * time.Millisecond)
				if tt.end != nil {
					tt.end(s)
				}
				time.Sleep(time.Second)
				r.rest()

				spans := r.clientSpans()
				require.Len(t, spans, 1)
				span := spans[0]
				require.Equal(t, "roots/list", span.Name())
				require.Equal(t, asker.SpanID(), span.Parent().SpanID())
				require.Equal(t, asker.TraceID(), span.SpanContext().TraceID())
				if tt.unsent {
					require.Len(t, out.asked, 1, "the ping")
				} else {
					require.Len(t, out.asked, 1)
					var frame struct {
						Params struct {
							Meta map[string]any `json:"_meta"`
							X    int            `json:"x"`
						} `json:"params"`
					}
					require.NoError(t, json.Unmarshal(out.asked[0], &frame))
					require.Equal(t, 2, frame.Params.X)
					sc := span.SpanContext()
					require.Equal(t, map[string]any{
						"own": 1., "traceparent": "00-" + sc.TraceID().String() + "-" + sc.SpanID().String() + "-01",
					}, frame.Params.Meta)
				}
				want := map[string]any{
					"mcp.method.name": "roots/list", "mcp.protocol.version": "2025-11-25", "network.transport": "pipe",
				}
				for key, value := range map[string]string{
					"error.type": tt.errorType, "rpc.response.status_code": tt.code, "vitrine.cancel.cause": tt.cause,
				} {
					if value != "" {
						want[key] = value
					}
				}
				if !tt.unsent {
					want["jsonrpc.request.id"] = "1"
				}
				require.Equal(t, want, attrsOf(span))
				if tt.errorType == "" {
					require.Equal(t, codes.Unset, span.Status().Code)
				} else {
					require.Equal(t, codes.Error, span.Status().Code)
					require.Contains(t, span.Status().Description, tt.message)
				}
				require.EqualValues(t, 1, value(gather(t, r.tel.Registry()), MetricClientDuration, "mcp_method_name", "roots/list",
					"error_type", tt.errorType, "rpc_response_status_code", tt.code, "mcp_protocol_version", "2025-11-25"))
				s.Close(mcp.CauseTransportClose)
				<-s.Done()
			})
		})
	}
}

// answer is the client's to the first request of ours.
func answer(env wire.Envelope) *session.Inbound {
	env.Kind, env.ID = wire.Response, mcp.IntID(1)
	return &session.Inbound{Conn: pipeConn, Envelope: env}
}

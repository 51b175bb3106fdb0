package middleware_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// dispatcher serves one tool.
type dispatcher struct{ route *session.Route }

func (d *dispatcher) Route(*session.Inbound, *session.Session) *session.Route    { return d.route }
func (d *dispatcher) Notify(context.Context, *session.Inbound, *session.Session) {}
func (d *dispatcher) Encode(b []byte, _ *session.Request, _ mcp.Result) (_, rest []byte, err error) {
	return append(b, "{}"...), nil, nil
}

// nowhere is a sink.
type nowhere struct{}

func (nowhere) Write(*session.Message) error { return nil }
func (nowhere) Flush() error                 { return nil }
func (nowhere) SetWriteDeadline(time.Time)   {}

// TestTelemetry checks what the link tells the span about the handler's end.
func TestTelemetry(t *testing.T) {
	for name, tc := range map[string]struct {
		result    mcp.Result
		err       error
		errorType string
		exception string
	}{
		"success":           {result: &mcp.CallToolResult{}},
		"other result":      {result: &mcp.EmptyResult{}},
		"no result":         {result: (*mcp.CallToolResult)(nil)},
		"tool error":        {result: mcp.ToolError("no such city"), errorType: "tool_error"},
		"error of protocol": {err: mcp.NewError(mcp.CodeInternalError, "full"), errorType: "-32603"},
		"private error":     {err: errors.New("the disk is full"), errorType: "-32603", exception: "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spans := tracetest.NewSpanRecorder()
				tel, err := telemetry.New(telemetry.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
				require.NoError(t, err)
				d := &dispatcher{}
				core := session.New(session.Config{Dispatcher: d, Observer: tel.Observer()})
				handler := middleware.Telemetry()(&middleware.Route{}, func(context.Context, *middleware.Request) (mcp.Result, error) {
					return tc.result, tc.err
				})
				d.route = &session.Route{
					Series: core.Series(mcp.MethodToolsCall, "t"),
					Handle: func(ctx context.Context, r *session.Request) (mcp.Result, error) {
						return handler(ctx, middleware.NewRequest(r))
					},
				}
				conn := &session.Conn{Transport: "memory"}
				st := core.Exchange(conn, 1, mcp.Modern)
				core.Receive(&session.Inbound{Conn: conn, Envelope: wire.Envelope{
					Kind: wire.Request, ID: mcp.IntID(1), Method: mcp.MethodToolsCall,
				}}, st)
				require.NoError(t, st.Pump(nowhere{}))
				require.NoError(t, core.Shutdown(t.Context()))
				synctest.Wait()

				require.Len(t, spans.Ended(), 1)
				span := spans.Ended()[0]
				attrs := attribute.NewSet(span.Attributes()...)
				errorType, _ := attrs.Value("error.type")
				require.Equal(t, tc.errorType, errorType.AsString())
				if tc.exception == "" {
					require.Empty(t, span.Events())
					return
				}
				require.Len(t, span.Events(), 1)
				event := attribute.NewSet(span.Events()[0].Attributes...)
				message, _ := event.Value("exception.message")
				require.Equal(t, tc.exception, message.AsString())
			})
		})
	}
}

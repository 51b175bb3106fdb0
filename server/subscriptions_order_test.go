package server_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// tracing calls a function when a span gets an event: a place inside the core at which
// a test can do something.
type tracing struct {
	embedded.TracerProvider
	event func(name string)
}

func (p *tracing) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{event: p.event} }

type tracer struct {
	embedded.Tracer
	event func(name string)
}

func (t tracer) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, tracedSpan{event: t.event}
}

type tracedSpan struct {
	noop.Span
	event func(name string)
}

func (tracedSpan) IsRecording() bool                              { return true }
func (s tracedSpan) AddEvent(name string, _ ...trace.EventOption) { s.event(name) }

// A change at the moment of the acknowledgement is sent after it.
func TestChangeAtTheAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var srv *server.Server
		tel, err := telemetry.New(telemetry.WithTracerProvider(&tracing{event: func(name string) {
			if name == "vitrine.subscription.acknowledged" {
				server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
				srv.ResourceUpdated("test://a")
			}
		}}))
		require.NoError(t, err)
		srv = changing(t, server.WithTelemetry(tel))
		p := dial(t, srv)
		require.JSONEq(t, acknowledged(1, everything), p.ask(listenTo(1, everything)))
		require.JSONEq(t, about(1, toolsChanged, ""), p.recv())
		require.JSONEq(t, updated(1, "test://a"), p.recv())
		p.silent()
	})
}

package telemetry

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

type panicSampler struct{ sdktrace.Sampler }

func (panicSampler) ShouldSample(sdktrace.SamplingParameters) sdktrace.SamplingResult {
	panic("sampler")
}

type panicOnStart struct{ discard }

func (panicOnStart) OnStart(context.Context, sdktrace.ReadWriteSpan) { panic("start") }

type panicOnEnd struct{ discard }

func (panicOnEnd) OnEnd(sdktrace.ReadOnlySpan) { panic("end") }

type panicPropagator struct{ propagation.TraceContext }

func (panicPropagator) Extract(context.Context, propagation.TextMapCarrier) context.Context {
	panic("extract")
}
func (panicPropagator) Inject(context.Context, propagation.TextMapCarrier) { panic("inject") }

// What users plug into telemetry may panic: callers have their answers, clients are
// asked, and the panics are counted.
func TestPanickingHooks(t *testing.T) {
	provider := func(opts ...sdktrace.TracerProviderOption) Option {
		return WithTracerProvider(sdktrace.NewTracerProvider(opts...))
	}
	for name, option := range map[string]Option{
		"sampler":    provider(sdktrace.WithSampler(panicSampler{})),
		"on start":   provider(sdktrace.WithSpanProcessor(panicOnStart{})),
		"on end":     provider(sdktrace.WithSpanProcessor(panicOnEnd{})),
		"propagator": WithPropagator(panicPropagator{}),
		"clock":      WithClock(func() time.Time { panic("clock") }),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigConfig{panics: true, telemetry: []Option{option}})
			out := &askSink{}
			s := r.core.Connect(pipeConn, out)
			s.Initialize(&session.Peer{Version: mcp.LatestLegacyVersion})
			s.Initialized()
			out.respond = func() { s.Receive(answer(wire.Envelope{Result: []byte(`{"roots":[]}`)})) }
			asked := make(chan error, 1)
			r.tools["ask"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
				_, err := q.Ask(ctx, mcp.MethodRootsList, nil)
				asked <- err
				return &mcp.CallToolResult{}, nil
			}
			in := call("ask")
			in.Era, in.Version, in.Conn = mcp.Legacy, "", pipeConn
			s.Receive(in)
			require.NoError(t, <-asked)
			task := r.detach()
			task.Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel})
			task.Panicked("ouch", nil)
			task.Done(session.DetachedEnd{Status: mcp.TaskCancelled})
			who, err := r.tel.live.join()
			require.NoError(t, err)
			r.tel.live.leave(who)
			answered := &sink{}
			r.post(call("echo"), answered)
			require.Equal(t, 1, answered.frames)
			s.Close(mcp.CauseTransportClose)
			<-s.Done()
			require.Equal(t, 2, out.frames, "a question and an answer")
			require.Positive(t, r.core.Snapshot().Counters.ObserverPanics)
		})
	}
}

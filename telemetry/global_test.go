package telemetry

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// Of what a program has set for the process SetGlobal replaces the tracer provider and the
// propagator, if there are spans; nothing touches the rest.
func TestSetGlobal(t *testing.T) {
	traces, meters, loggers := sdktrace.NewTracerProvider(), sdkmetric.NewMeterProvider(), sdklog.NewLoggerProvider()
	given := sdktrace.NewTracerProvider()
	for name, tc := range map[string]struct {
		disabled string // OTEL_SDK_DISABLED
		make     func() (*Telemetry, error)
		want     func(*Telemetry) trace.TracerProvider
	}{
		"its own":  {make: func() (*Telemetry, error) { return New() }, want: func(tel *Telemetry) trace.TracerProvider { return tel.owned }},
		"a given":  {make: func() (*Telemetry, error) { return New(WithTracerProvider(given)) }, want: func(*Telemetry) trace.TracerProvider { return given }},
		"disabled": {make: func() (*Telemetry, error) { return Disabled(), nil }},
		"SDK disabled": {
			disabled: "true", make: func() (*Telemetry, error) { return New() },
		},
		"SDK disabled, a given": {
			disabled: "true", make: func() (*Telemetry, error) { return New(WithTracerProvider(given)) },
			want: func(*Telemetry) trace.TracerProvider { return given },
		},
	} {
		t.Run(name, func(t *testing.T) {
			clearOTel(t)
			t.Setenv("OTEL_SDK_DISABLED", tc.disabled)
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", newCollector(t).URL)
			var handled []error
			own := propagation.NewCompositeTextMapPropagator()
			otel.SetTracerProvider(traces)
			otel.SetTextMapPropagator(own)
			otel.SetMeterProvider(meters)
			otel.SetLoggerProvider(loggers)
			otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { handled = append(handled, err) }))
			logger := slog.Default()

			tel, err := tc.make()
			require.NoError(t, err)
			require.NoError(t, TestBridge.Start(t.Context(), tel))
			tel.SetGlobal()
			if tc.want == nil {
				require.Same(t, traces, otel.GetTracerProvider())
				require.Equal(t, own, otel.GetTextMapPropagator())
			} else {
				require.Same(t, tc.want(tel), otel.GetTracerProvider())
				require.Equal(t, tel.propagator, otel.GetTextMapPropagator())
				require.NotEqual(t, own, otel.GetTextMapPropagator())
			}
			require.NoError(t, tel.Shutdown(t.Context()))
			require.Same(t, meters, otel.GetMeterProvider())
			require.Same(t, loggers, otel.GetLoggerProvider())
			require.Same(t, logger, slog.Default())
			otel.Handle(errPrivate)
			require.Equal(t, []error{errPrivate}, handled)
		})
	}
}

// A provider that the program gives makes the spans, whatever the environment says of ours;
// nothing of ours is exported.
func TestSDKDisabledKeepsAGivenProvider(t *testing.T) {
	clearOTel(t)
	c := newCollector(t)
	t.Setenv("OTEL_SDK_DISABLED", "true")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	var ended endedSpans
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&ended))
	tel, err := New(WithTracerProvider(provider))
	require.NoError(t, err)
	require.NoError(t, TestBridge.Start(t.Context(), tel))
	serve(t, tel, call("echo"))
	require.NoError(t, tel.Shutdown(t.Context()))
	require.Equal(t, []string{"tools/call echo"}, ended.names)
	require.Nil(t, c.traces)
	require.Nil(t, c.metrics)
	require.NoError(t, provider.Shutdown(t.Context()), "it was its owner's to shut down")
}

// endedSpans is the processor of a program's own provider.
type endedSpans struct{ names []string }

func (e *endedSpans) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (e *endedSpans) OnEnd(s sdktrace.ReadOnlySpan)                   { e.names = append(e.names, s.Name()) }
func (e *endedSpans) Shutdown(context.Context) error                  { return nil }
func (e *endedSpans) ForceFlush(context.Context) error                { return nil }

// Count counts the limits of the table, and nothing else.
func TestCount(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	tel.Count(MetricLimitReached, limits.NameAdminRequests)
	tel.Count(MetricLimitReached, "made up")
	Disabled().Count(MetricLimitReached, limits.NameAdminRequests)
	families := gather(t, tel.Registry())
	require.EqualValues(t, 1, value(families, MetricLimitReached, "limit", limits.NameAdminRequests))
	require.EqualValues(t, 1, sum(families, MetricLimitReached))
}

package telemetry

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// clearOTel removes all OTEL_* variables that the tests set.
func clearOTel(t *testing.T) {
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
		"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER",
		"OTEL_SDK_DISABLED", "OTEL_PROPAGATORS", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG",
	} {
		t.Setenv(name, "")
	}
}

// TestStartFollowsTheEnvironment: a signal is exported iff a variable asks for it.
func TestStartFollowsTheEnvironment(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string // "URL" is replaced
		want []string
	}{
		"nothing":     {},
		"disabled":    {env: map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}},
		"only traces": {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "URL/v1/traces"}, want: []string{"traces"}},
		"all but logs": {
			env:  map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_LOGS_EXPORTER": "none"},
			want: []string{"metrics", "traces"},
		},
		"metrics are pulled": {
			env:  map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_METRICS_EXPORTER": "prometheus"},
			want: []string{"logs", "traces"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			clearOTel(t)
			c := newCollector(t)
			for k, v := range tc.env {
				t.Setenv(k, strings.ReplaceAll(v, "URL", c.URL))
			}
			var console bytes.Buffer
			tel, err := New(WithLogger(slog.New(slog.NewTextHandler(&console, nil))))
			require.NoError(t, err)
			require.NoError(t, TestBridge.Start(t.Context(), tel))
			if tc.want == nil {
				require.Empty(t, tel.stops)
				require.Nil(t, tel.logs.Load())
			}
			serve(t, tel, call("echo"))
			slog.New(tel.LogHandler(slog.NewTextHandler(io.Discard, nil))).Info("hello")
			require.NoError(t, tel.Shutdown(t.Context()))
			require.Empty(t, console.String())
			got := map[string]bool{}
			if c.traces != nil {
				got["traces"] = true
			}
			if c.metrics != nil {
				got["metrics"] = true
			}
			if c.logs != nil {
				got["logs"] = true
			}
			require.Equal(t, tc.want, keys(got))
			require.EqualValues(t, 1, value(gather(t, tel.Registry()), MetricOperationDuration, "gen_ai_tool_name", "echo"),
				"/metrics works in any case")
		})
	}
}

func TestPropagators(t *testing.T) {
	clearOTel(t)
	t.Setenv("OTEL_PROPAGATORS", "baggage,b3")
	var console bytes.Buffer
	tel, err := New(WithLogger(slog.New(slog.NewTextHandler(&console, nil))))
	require.NoError(t, err)
	require.Equal(t, []string{"baggage"}, tel.propagator.Fields())
	require.Contains(t, console.String(), "b3")
	t.Setenv("OTEL_PROPAGATORS", "none")
	tel, err = New()
	require.NoError(t, err)
	require.Empty(t, tel.propagator.Fields())
}

func TestServiceNameOfTheEnvironmentWins(t *testing.T) {
	clearOTel(t)
	t.Setenv("OTEL_SERVICE_NAME", "from-env")
	tel, err := New(WithService("code", "1"))
	require.NoError(t, err)
	attrs := attrMap(tel.resource.Attributes())
	require.Equal(t, "from-env", attrs["service.name"])
	require.Equal(t, "1", attrs["service.version"])
}

func TestSDKDisabled(t *testing.T) {
	clearOTel(t)
	t.Setenv("OTEL_SDK_DISABLED", "TRUE")
	tel, err := New()
	require.NoError(t, err)
	_, span := tel.provider.Tracer("").Start(t.Context(), "x")
	require.False(t, span.IsRecording())
}

func TestSamplerOfTheEnvironment(t *testing.T) {
	clearOTel(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	tel, err := New()
	require.NoError(t, err)
	_, span := tel.provider.Tracer("").Start(t.Context(), "x")
	require.False(t, span.SpanContext().IsSampled())
}

package otlp

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the environment asks for is exported once, however often it is started, and what
// cannot be exported is named.
func TestStart(t *testing.T) {
	for name, tc := range map[string]struct {
		env      map[string]string // URL stands for the address of the collector
		disabled bool
		wrong    string // in the error
		want     []string
	}{
		"nothing":          {},
		"all":              {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}, want: []string{"/v1/metrics", "/v1/traces"}},
		"one":              {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "URL/v1/traces"}, want: []string{"/v1/traces"}},
		"pulled":           {env: map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}},
		"the SDK disabled": {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_SDK_DISABLED": "true"}},
		"disabled":         {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}, disabled: true},
		"unknown metrics":  {env: map[string]string{"OTEL_METRICS_EXPORTER": "pigeon"}, wrong: `export of metrics: unknown exporter "pigeon"`},
		"unknown traces":   {env: map[string]string{"OTEL_TRACES_EXPORTER": "pigeon"}, wrong: "export of traces"},
		"unknown protocol": {
			env:   map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"},
			wrong: `unknown OTLP protocol "smoke"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			got := map[string]int{}
			collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				mu.Lock()
				defer mu.Unlock()
				got[req.URL.Path]++
			}))
			defer collector.Close()
			defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_METRICS_EXPORTER",
				"OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
				t.Setenv(name, strings.Replace(tc.env[name], "URL", collector.URL, 1))
			}
			tel := telemetry.Disabled()
			if !tc.disabled {
				var err error
				tel, err = telemetry.New(telemetry.WithLogger(slog.New(slog.DiscardHandler)))
				require.NoError(t, err)
			}
			for range 2 {
				if err := Start(t.Context(), tel); tc.wrong == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tc.wrong)
				}
			}
			_, op := tel.Begin(t.Context(), telemetry.Info{Method: "tools/call", Target: "forecast"})
			op.End(telemetry.Outcome{})
			require.NoError(t, tel.Shutdown(t.Context()))
			want := map[string]int{}
			for _, path := range tc.want {
				want[path] = 1
			}
			require.Equal(t, want, got)
		})
	}
}

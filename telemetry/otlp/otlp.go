// Package otlp exports telemetry by the standard OTEL_* variables: with OTLP over HTTP or gRPC, or
// to the console. It links all of these exporters, so programs that only serve metrics should not
// import it.
package otlp

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// Start starts the exports of the standard environment. A signal is exported if
// OTEL_<SIGNAL>_EXPORTER, OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_<SIGNAL>_ENDPOINT is
// set. With none of them, and with OTEL_SDK_DISABLED=true, nothing is exported. The metrics
// exporter "prometheus" starts nothing; see [telemetry.Telemetry.MetricsHandler]. The error names
// each signal that cannot be exported. The others are exported even then.
//
// The exports end with [telemetry.Telemetry.Shutdown], not when ctx is done. Start does not change
// the export of a signal that is exported already.
func Start(ctx context.Context, t *telemetry.Telemetry) error {
	if !t.Enabled() || environment.SDKDisabled() {
		return nil
	}
	var errs []error
	for _, s := range environment.Signals() {
		if err := export(ctx, t, s); err != nil {
			errs = append(errs, fmt.Errorf("telemetry: export of %s: %w", s, err))
		}
	}
	return errors.Join(errs...)
}

// exporterPrometheus is the exporter for scrapes. /metrics exists without it.
const exporterPrometheus = "prometheus"

// export starts the export of one signal, if the environment asks for it.
func export(ctx context.Context, t *telemetry.Telemetry, s environment.Signal) error {
	name := exporterOf(s)
	switch {
	case name == environment.None, s == environment.Metrics && name == exporterPrometheus:
		return nil
	case s == environment.Traces:
		exporter, err := autoexport.NewSpanExporter(ctx)
		return give(ctx, exporter, err, t.ExportSpans)
	case s == environment.Logs:
		exporter, err := autoexport.NewLogExporter(ctx)
		return give(ctx, exporter, err, t.ExportLogs)
	}
	exporter, err := newMetricExporter(ctx, name)
	return give(ctx, exporter, err, t.ExportMetrics)
}

// give gives an exporter to telemetry, and shuts it down if telemetry does not take it.
func give[E interface{ Shutdown(context.Context) error }](ctx context.Context, exporter E, err error, take func(E) bool) error {
	if err != nil || take(exporter) {
		return err
	}
	return exporter.Shutdown(ctx)
}

// newMetricExporter returns the exporter with a name of OTEL_METRICS_EXPORTER. (Package autoexport
// cannot set the producer of telemetry without global state.)
func newMetricExporter(ctx context.Context, name string) (sdkmetric.Exporter, error) {
	switch name {
	case "console":
		return stdoutmetric.New()
	case "otlp":
	default:
		return nil, fmt.Errorf("unknown exporter %q", name)
	}
	switch p := protocolOf(environment.Metrics); p {
	case "grpc":
		return otlpmetricgrpc.New(ctx)
	case "http/protobuf":
		return otlpmetrichttp.New(ctx)
	default:
		return nil, fmt.Errorf("unknown OTLP protocol %q", p)
	}
}

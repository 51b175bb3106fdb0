// Package telemetry makes what happens to requests visible from outside: spans
// and metrics as the OpenTelemetry conventions for MCP name them, counters for
// what only Vitrine knows (causes, drops by reason), exemplars, log correlation,
// and the live picture of the requests in flight.
//
// Metrics are recorded once, into a Prometheus registry. They are served by
// [Telemetry.MetricsHandler], and pushed over OTLP when the standard OTEL_*
// variables ask for it. Spans and log records are exported by the same rule: a
// signal is exported if its exporter variable (such as OTEL_TRACES_EXPORTER) or
// an OTLP endpoint variable is set, and otherwise it is not.
//
// This is the only package of Vitrine that imports OpenTelemetry or client_golang.
package telemetry

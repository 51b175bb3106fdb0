// Package telemetry makes what happens to requests visible from outside: spans
// and metrics as the OpenTelemetry conventions for MCP name them, counters for
// what only Vitrine knows (causes, drops by reason), exemplars, log correlation,
// and the live picture of the requests in flight.
//
// Metrics are recorded once, into a Prometheus registry. They are served by
// [Telemetry.MetricsHandler], and can be pushed; spans and log records can be exported.
// Package telemetry/otlp does that if the standard OTEL_* variables ask for it.
//
// There is one way in for any server: [Telemetry.Begin] begins an operation, the methods of
// the [Operation] say what happens to it, and [Operation.End] ends it. Notifications,
// sessions, tasks and requests to clients have ways in of the same kind. Vitrine's own
// server uses no other.
//
// Only this package and those below it use OpenTelemetry's SDK and client_golang, and
// package servertest, for tests.
package telemetry

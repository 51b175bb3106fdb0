// Package telemetry records requests: spans and metrics with the names of the OpenTelemetry
// conventions for MCP, counters that only Vitrine has (causes, drops by reason), exemplars,
// trace ids in log records, and pages with the requests in flight and the latest ended ones.
//
// Metrics are recorded once, into a Prometheus registry. [Telemetry.MetricsHandler] serves
// them. Package telemetry/otlp pushes them, and exports spans and log records, if the standard
// OTEL_* variables ask for it.
//
// Any server can use it: [Telemetry.Begin] begins an operation, the methods of the [Operation]
// report events, and [Operation.End] ends it. [Telemetry.Notification], [Telemetry.Session],
// [Telemetry.BeginTask] and [Telemetry.Ask] do the same for notifications, sessions, tasks and
// requests to clients. Vitrine's own server uses this API and no other.
//
// Of all packages, only this one, the packages below it and package servertest (for tests) use
// OpenTelemetry's SDK and client_golang.
package telemetry

package telemetry

import (
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/internal/environment"
)

// Catalogue lists every metric that Vitrine records. The caller owns the slice.
func Catalogue() []Metric {
	rows := catalogue()
	metrics := make([]Metric, len(rows))
	for i := range rows {
		metrics[i] = rows[i].Metric
	}
	return metrics
}

// catalogue is the table of all metrics, in the order of docs/telemetry.md.
func catalogue() []*row {
	return slices.Concat(conventionMetrics(), counterMetrics(), stateMetrics(), replicaMetrics(), recordedMetrics(), processMetrics())
}

// conventionMetrics are metrics of the OpenTelemetry conventions.
func conventionMetrics() []*row {
	return []*row{
		histogram(MetricOperationDuration, "mcp.server.operation.duration", "s",
			"Time from the arrival of an MCP request to its outcome.", operationBuckets(),
			append([]Label{
				method(), endType(),
				{Name: "gen_ai_tool_name", Attribute: string(keyToolName), Open: "registered tools, or none"},
				{Name: "gen_ai_prompt_name", Attribute: string(keyPromptName), Open: "registered prompts, or none"},
				{Name: "gen_ai_operation_name", Attribute: string(keyOperation), Values: []string{"", operationExecuteTool}},
				statusCode(),
			}, network()...)...).native(),
		histogram(MetricSessionDuration, "mcp.server.session.duration", "s",
			"Life of an MCP session or connection.", operationBuckets(), append([]Label{errorType()}, network()...)...).native(),
		histogram(MetricClientDuration, "mcp.client.operation.duration", "s",
			"Time that requests to clients (sampling, elicitation, roots, ping) took.", operationBuckets(),
			append([]Label{
				{Name: "mcp_method_name", Attribute: string(keyMethod), Values: askMethods()},
				{Name: "error_type", Attribute: string(keyErrorType), Values: orNone(askErrorTypes()), first: []string{""}},
				statusCode(),
			}, network()...)...).native(),
	}
}

// recordedMetrics are metrics of requests that are recorded.
func recordedMetrics() []*row {
	return []*row{
		histogram(MetricQueueWait, "vitrine.queue.wait", "s",
			"Time that admitted requests waited for a slot.", latencyBuckets(), class("")),
		histogram(MetricCancelUnwind, "vitrine.cancel.unwind", "s",
			"Time from the cancellation of a handler's context to the handler's return.", latencyBuckets(),
			target(""), cause()).native(),
		histogram(MetricValidation, "vitrine.validation", "s",
			"Time that validation against a tool's schemas took.",
			[]float64{1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 1e-1, 1}, target()),
		counter(MetricArgumentsRejected, "vitrine.arguments.rejected", "{call}",
			"Calls whose arguments broke the tool's input schema: answered with a tool error, without the handler.", target("")),
		histogram(MetricWrite, "vitrine.write", "s",
			"Time that a write and its flush took.", latencyBuckets(), transport(ownTransports()...)),
		histogram(MetricRequestBytes, "vitrine.request.size", "By",
			"Size of requests.", sizeBuckets(), ourMethod(), target()),
		histogram(MetricResponseBytes, "vitrine.response.size", "By",
			"Size of answers: what a tool's result costs its model to read.", sizeBuckets(), ourMethod(), target()),
		histogram(MetricSubscriptionDuration, "vitrine.subscription.duration", "s",
			"Life of subscriptions, from the acknowledgement to the end.",
			[]float64{1, 10, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400},
			closed("end", string(keySubscriptionEnd), mcp.SubscriptionEnds())).native(),
		histogram(MetricResourceSubscription, "vitrine.resource_subscription.duration", "s",
			"Life of subscriptions of legacy sessions to resources (resources/subscribe).",
			[]float64{1, 10, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400},
			closed("end", "vitrine.resource_subscription.end", session.ResourceSubscriptionEnds())).native(),
		histogram(MetricStreamDuration, "vitrine.stream.duration", "s",
			"Life of event streams over HTTP, by what they were for and why they ended.",
			[]float64{1, 10, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400},
			later(closed("kind", "vitrine.stream.kind", session.StreamKinds())),
			later(closed("reason", "vitrine.stream.end", session.StreamEnds()))).native(),
		histogram(MetricDisconnectAge, "vitrine.disconnect.age", "s",
			"Age of HTTP exchanges when their peer left before the answer was written, or before the end of the stream.",
			disconnectBuckets()).native(),
		histogram(MetricTaskDuration, "vitrine.task.duration", "s",
			"Time from the creation of a task to the return of its handler, or until that was abandoned.",
			[]float64{0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600, 7200, 21600, 86400},
			target(""), taskStatus(terminalStatuses()...)).native(),
	}
}

// processMetrics are metrics of the process and of telemetry itself.
func processMetrics() []*row {
	return []*row{
		gauge(MetricBuildInfo, "vitrine.build.info", "1",
			"Constant 1, labelled with what was built.",
			opened("version", "vitrine.version", "the version of Vitrine"),
			opened("revision", "vitrine.revision", "the commit of the program"),
			opened("goversion", "process.runtime.version", "the version of Go")),
		counter(MetricReadinessChanges, "vitrine.readiness.changes", "{change}",
			"Changes of whether requests should be sent to the server, by the new state and the check that is to blame.",
			closed("state", "vitrine.readiness.state", session.ReadinessStates()),
			opened("check", "vitrine.readiness.check", "registered readiness checks, or none", "")).counted(),
		counter(MetricSpansExported, "vitrine.telemetry.spans.exported", "{span}", "Spans that their exporter has taken."),
		counter(MetricSpansDropped, "vitrine.telemetry.spans.dropped", "{span}",
			"Spans that were lost: the queue was full, or their export failed.", lossReason()),
		gauge(MetricSpansQueued, "vitrine.telemetry.spans.queued", "{span}", "Spans that wait for their export."),
		counter(MetricLogRecordsExported, "vitrine.telemetry.log_records.exported", "{record}",
			"Log records that their exporter has taken."),
		counter(MetricLogRecordsDropped, "vitrine.telemetry.log_records.dropped", "{record}",
			"Log records that were not exported: the queue was full, or their export failed. They are on standard error.", lossReason()),
		gauge(MetricLogRecordsQueued, "vitrine.telemetry.log_records.queued", "{record}",
			"Log records that wait for their export."),
		counter(MetricScrapeFailures, "vitrine.telemetry.scrape.failures", "{scrape}",
			"Scrapes that were refused as too many at once, could not be gathered in full (also for a push), or were not read to their end.",
			closed("reason", "vitrine.telemetry.reason", []string{scrapeBusy, scrapeGather, scrapeWrite})),
		counter(MetricExportFailures, "vitrine.telemetry.export.failures", "{export}", "Exports that failed.",
			closed("signal", "vitrine.telemetry.signal", environment.Signals())),
		counter(MetricFlightSnapshots, "vitrine.flight.snapshots", "{snapshot}",
			"Snapshots of the flight recorder, by what they were taken for.",
			closed("reason", "vitrine.flight.reason", []string{IncidentSlow, IncidentAbandoned, report.FlightOnDemand})).counted(),
		counter(MetricFlightTriggersDropped, "vitrine.flight.triggers.dropped", "{trigger}",
			"Reasons to take a snapshot for which none was taken, by why not.",
			closed("reason", "vitrine.flight.drop_reason", report.FlightDrops())).counted(),
		counter(MetricTracesEvicted, "vitrine.telemetry.traces.evicted", "{trace}",
			"Ended requests that the ring of recent traces has let go of, or had no room for.",
			closed("class", "vitrine.telemetry.trace.class", recentClasses())),
		counter(MetricTraceSpansLeftOut, "vitrine.telemetry.trace.spans.left_out", "{span}",
			"Spans that the ring of recent traces had no room for, by the limit.",
			closed("limit", "vitrine.telemetry.limit", []string{limitRecentSpans, limitRecentTotalSpans})),
		gauge(MetricLiveListeners, "vitrine.telemetry.live.listeners", "{listener}",
			"Open streams of live frames: consoles that somebody looks at."),
		counter(MetricLiveFramesSkipped, "vitrine.telemetry.live.frames.skipped", "{frame}",
			"Live frames that a listener did not get because it had not read the one before."),
		counter(MetricLiveRefused, "vitrine.telemetry.live.refused", "{listener}",
			"Streams of live frames that were refused because there were too many."),
	}
}

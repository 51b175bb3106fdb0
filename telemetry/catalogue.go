package telemetry

import (
	"github.com/vitrine-mcp/vitrine/internal/report"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Kind is the type of a metric.
type Kind string

// The kinds of metrics.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// A Metric describes one of our metrics. The collectors are built from it.
type Metric struct {
	// Name is what Prometheus sees; OTel is the name in what is pushed over OTLP.
	Name, OTel string
	Kind       Kind
	// Unit is a unit of UCUM, such as "s" or "By".
	Unit   string
	Help   string
	Labels []Label
	// Buckets are the upper bounds of a histogram's classic buckets.
	Buckets []float64
	// Native tells that a histogram is a native one as well: the durations, of which the
	// conventions' buckets see little. The steps of a call have fine buckets of their own,
	// and a native histogram costs three times as much on each observation.
	Native bool
}

// A Label is one label of a metric.
type Label struct {
	// Name is what Prometheus sees; Attribute is the key in what is pushed over OTLP.
	Name, Attribute string
	// Values is the closed set of values, or nil where Open says what they are.
	Values []string
	Open   string
}

// The names of our metrics.
const (
	MetricOperationDuration = "mcp_server_operation_duration_seconds"
	MetricSessionDuration   = "mcp_server_session_duration_seconds"
	MetricClientDuration    = "mcp_client_operation_duration_seconds"

	MetricRequestsAdmitted     = "vitrine_requests_admitted_total"
	MetricResponsesSent        = "vitrine_responses_sent_total"
	MetricResponsesStored      = "vitrine_responses_stored_total"
	MetricResponsesExpired     = "vitrine_responses_expired_total"
	MetricResponsesDropped     = "vitrine_responses_dropped_total"
	MetricRequestsCancelled    = "vitrine_requests_cancelled_total"
	MetricRequestsRejected     = "vitrine_requests_rejected_total"
	MetricMessagesReceived     = "vitrine_messages_received_total"
	MetricNotificationsDropped = "vitrine_notifications_dropped_total"
	MetricFramesIgnored        = "vitrine_frames_ignored_total"
	MetricHandlerPanics        = "vitrine_handler_panics_total"
	MetricHandlersAbandoned    = "vitrine_handlers_abandoned_total"
	MetricAbandonedNow         = "vitrine_handlers_abandoned"
	MetricRequestsInFlight     = "vitrine_requests_in_flight"
	MetricOldestRequestAge     = "vitrine_oldest_request_age_seconds"
	MetricHTTPRefused          = "vitrine_http_refused_total"
	MetricRefusals             = "vitrine_refusals_total"
	MetricStreamsResumed       = "vitrine_streams_resumed_total"
	MetricEventStoreFailures   = "vitrine_event_store_failures_total"
	MetricLimitReached         = "vitrine_limit_reached_total"
	MetricPendingOutbound      = "vitrine_pending_outbound"
	MetricSessionsActive       = "vitrine_sessions_active"
	MetricSessionsClosed       = "vitrine_sessions_closed_total"
	MetricSubscriptionsActive  = "vitrine_subscriptions_active"
	MetricTasks                = "vitrine_tasks"
	MetricTasksCancelled       = "vitrine_tasks_cancelled_total"

	MetricQueueWait         = "vitrine_queue_wait_seconds"
	MetricCancelUnwind      = "vitrine_cancel_unwind_seconds"
	MetricValidation        = "vitrine_validation_seconds"
	MetricArgumentsRejected = "vitrine_arguments_rejected_total"
	MetricWrite             = "vitrine_write_seconds"
	MetricRequestBytes      = "vitrine_request_bytes"
	MetricResponseBytes     = "vitrine_response_bytes"

	MetricSubscriptionDuration = "vitrine_subscription_duration_seconds"
	MetricTaskDuration         = "vitrine_task_duration_seconds"

	MetricReadinessChanges = "vitrine_readiness_changes_total"

	MetricBuildInfo          = "vitrine_build_info"
	MetricSpansExported      = "vitrine_telemetry_spans_exported_total"
	MetricSpansDropped       = "vitrine_telemetry_spans_dropped_total"
	MetricSpansQueued        = "vitrine_telemetry_spans_queued"
	MetricLogRecordsExported = "vitrine_telemetry_log_records_exported_total"
	MetricLogRecordsDropped  = "vitrine_telemetry_log_records_dropped_total"
	MetricLogRecordsQueued   = "vitrine_telemetry_log_records_queued"
	MetricExportFailures     = "vitrine_telemetry_export_failures_total"
	MetricScrapeFailures     = "vitrine_telemetry_scrape_failures_total"
	MetricPanics             = "vitrine_telemetry_panics_total"

	MetricFlightSnapshots       = "vitrine_flight_snapshots_total"
	MetricFlightTriggersDropped = "vitrine_flight_triggers_dropped_total"

	MetricTracesEvicted     = "vitrine_telemetry_traces_evicted_total"
	MetricTraceSpansLeftOut = "vitrine_telemetry_trace_spans_left_out_total"
	MetricLiveListeners     = "vitrine_telemetry_live_listeners"
	MetricLiveFramesSkipped = "vitrine_telemetry_live_frames_skipped_total"
	MetricLiveRefused       = "vitrine_telemetry_live_refused_total"
)

// Catalogue lists every metric that Vitrine records. The caller owns the slice.
func Catalogue() []Metric {
	return append(append(append(conventional(), counters()...), gauges()...), append(histograms(), ownHealth()...)...)
}

// conventional lists the metrics that the conventions of OpenTelemetry fix.
func conventional() []Metric {
	return []Metric{
		{
			Name: MetricOperationDuration, OTel: "mcp.server.operation.duration", Kind: Histogram, Unit: "s", Native: true,
			Help:    "Time from the arrival of an MCP request to its outcome.",
			Buckets: operationBuckets(),
			Labels: append([]Label{
				method(), errorType(),
				{Name: "gen_ai_tool_name", Attribute: string(keyToolName), Open: openTools},
				{Name: "gen_ai_prompt_name", Attribute: string(keyPromptName), Open: "registered prompts, or none"},
				{Name: "gen_ai_operation_name", Attribute: string(keyOperation), Values: []string{"", operationExecuteTool}},
				{Name: "rpc_response_status_code", Attribute: string(keyStatusCode), Values: append([]string{""}, codeLabels()...)},
			}, network()...),
		},
		{
			Name: MetricSessionDuration, OTel: "mcp.server.session.duration", Kind: Histogram, Unit: "s", Native: true,
			Help:    "Life of an MCP session or connection.",
			Buckets: operationBuckets(),
			Labels:  append([]Label{errorType()}, network()...),
		},
		{
			Name: MetricClientDuration, OTel: "mcp.client.operation.duration", Kind: Histogram, Unit: "s", Native: true,
			Help:    "Time that requests to clients (sampling, elicitation, roots, ping) took.",
			Buckets: operationBuckets(),
			Labels: append([]Label{
				{Name: "mcp_method_name", Attribute: string(keyMethod), Values: askMethods()},
				{Name: "error_type", Attribute: string(keyErrorType), Values: append([]string{""}, askErrorTypes()...)},
				{Name: "rpc_response_status_code", Attribute: string(keyStatusCode), Values: append([]string{""}, codeLabels()...)},
			}, network()...),
		},
	}
}

// counters lists what is read from one snapshot of the core.
func counters() []Metric {
	causes := Label{Name: "cause", Attribute: string(keyCancelCause), Values: stringsOf(mcp.Causes())}
	reasons := func(key string, values []string) Label { return Label{Name: "reason", Attribute: key, Values: values} }
	dropped := string(keyDropReason)
	return []Metric{
		counter(MetricPanics, "vitrine.telemetry.panics", "{panic}",
			"Panics in what observes requests: observers, exporters, log handlers. They were contained."),
		counter(MetricRequestsAdmitted, "vitrine.requests.admitted", "{request}",
			"Requests that were admitted. At rest: admitted = sent + stored + dropped.", ourMethod()),
		counter(MetricResponsesSent, "vitrine.responses.sent", "{response}",
			"Answers that were handed to the kernel.", ourMethod()),
		counter(MetricResponsesStored, "vitrine.responses.stored", "{response}",
			"Answers that were kept for replay.", ourMethod()),
		counter(MetricResponsesExpired, "vitrine.responses.expired", "{response}",
			"Stored answers that were let go of before anybody had fetched them."),
		counter(MetricResponsesDropped, "vitrine.responses.dropped", "{response}",
			"Answers that were not sent, by the reason.", ourMethod(), target(),
			reasons(dropped, stringsOf(mcp.ResponseDropReasons()))),
		counter(MetricRequestsCancelled, "vitrine.requests.cancelled", "{request}",
			"Requests whose context was cancelled, by the cause.", ourMethod(), target(), causes),
		counter(MetricTasksCancelled, "vitrine.tasks.cancelled", "{task}",
			"Tasks whose context was cancelled, by the cause. Their requests were answered before.", target(), causes),
		counter(MetricRequestsRejected, "vitrine.requests.rejected", "{request}",
			"Requests and frames that were answered with an error and not admitted.",
			reasons(string(keyRejectReason), stringsOf(mcp.RejectReasons()))),
		counter(MetricMessagesReceived, "vitrine.messages.received", "{message}",
			"Messages that arrived, by kind.",
			Label{Name: "kind", Attribute: "vitrine.message.kind", Values: []string{"request", "notification", "response", "invalid"}}),
		counter(MetricNotificationsDropped, "vitrine.notifications.dropped", "{notification}",
			"Notifications to the client that were not sent.", ourMethod(),
			reasons(dropped, stringsOf(mcp.NotificationDropReasons()))),
		counter(MetricFramesIgnored, "vitrine.frames.ignored", "{frame}",
			"Messages that arrived and had no effect.",
			Label{Name: "kind", Attribute: "vitrine.ignored.kind", Values: stringsOf(ignoredKinds())},
			reasons("vitrine.ignored.reason", ignoreReasons())),
		counter(MetricHandlerPanics, "vitrine.handler.panics", "{panic}",
			"Panics of handlers, all contained.", ourMethod(), target()),
		counter(MetricHandlersAbandoned, "vitrine.handlers.abandoned.total", "{handler}",
			"Handlers that ignored their cancelled context for too long.", target(), causes),
		counter(MetricHTTPRefused, "vitrine.http.refused", "{request}",
			"HTTP exchanges that were refused before they carried a message.",
			reasons("vitrine.http.refuse_reason", stringsOf(mcp.RefuseReasons()))),
		counter(MetricRefusals, "vitrine.refusals", "{refusal}",
			"Requests and callers that the server's own rules did not let through.",
			Label{Name: "reason", Attribute: "vitrine.refusal.reason", Open: "reasons of the program's refusals, at most 64 with by"},
			Label{Name: "by", Attribute: "vitrine.refusal.by", Open: "who refuses: authenticator, admission, or a name of the program's"}),
		counter(MetricStreamsResumed, "vitrine.streams.resumed", "{stream}",
			"Event streams of legacy sessions that a client has gone on reading over another connection."),
		counter(MetricEventStoreFailures, "vitrine.event_store.failures", "{failure}",
			"Operations of the event store that have failed.",
			Label{Name: "operation", Attribute: "vitrine.event_store.operation", Values: session.EventOperations()}),
		counter(MetricLimitReached, "vitrine.limit.reached", "{event}",
			"How often a limit took effect.",
			Label{Name: "limit", Attribute: "vitrine.limit", Values: append(session.LimitNames(), limitTenants)}),
		counter(MetricSessionsClosed, "vitrine.sessions.closed", "{session}",
			"Sessions and connections that ended, by the cause.", causes),
	}
}

// gauges lists the rest of what is read from one snapshot of the core.
func gauges() []Metric {
	return []Metric{
		{
			Name: MetricRequestsInFlight, OTel: "vitrine.requests.in_flight", Kind: Gauge, Unit: "{request}",
			Help:   "Requests whose handler has not returned or whose answer has no known fate.",
			Labels: []Label{{Name: "state", Attribute: "vitrine.request.state", Values: report.States()}},
		},
		{
			Name: MetricOldestRequestAge, OTel: "vitrine.oldest_request.age", Kind: Gauge, Unit: "s",
			Help: "Age of the oldest request in flight.",
		},
		{
			Name: MetricAbandonedNow, OTel: "vitrine.handlers.abandoned", Kind: Gauge, Unit: "{handler}",
			Help: "Abandoned handlers that have not returned yet.",
		},
		{
			Name: MetricPendingOutbound, OTel: "vitrine.outbound.pending", Kind: Gauge, Unit: "{request}",
			Help: "Requests to clients that are not answered yet.",
		},
		{
			Name: MetricSessionsActive, OTel: "vitrine.sessions.active", Kind: Gauge, Unit: "{session}",
			Help:   "Open sessions and connections.",
			Labels: []Label{transport()},
		},
		{
			Name: MetricSubscriptionsActive, OTel: "vitrine.subscriptions.active", Kind: Gauge, Unit: "{subscription}",
			Help: "Open subscriptions (subscriptions/listen).",
		},
		{
			Name: MetricTasks, OTel: "vitrine.tasks", Kind: Gauge, Unit: "{task}",
			Help:   "Tasks that are kept in memory, or with another store those that run here, by status.",
			Labels: []Label{{Name: "status", Attribute: string(keyTaskStatus), Values: stringsOf(mcp.TaskStatuses())}},
		},
	}
}

// histograms lists our own histograms, and what is counted beside one.
func histograms() []Metric {
	return []Metric{
		{
			Name: MetricQueueWait, OTel: "vitrine.queue.wait", Kind: Histogram, Unit: "s",
			Help: "Time that admitted requests waited for a slot.", Buckets: latencyBuckets(),
		},
		{
			Name: MetricCancelUnwind, OTel: "vitrine.cancel.unwind", Kind: Histogram, Unit: "s", Native: true,
			Help:    "Time from the cancellation of a handler's context to the handler's return.",
			Buckets: latencyBuckets(),
			Labels:  []Label{target(), {Name: "cause", Attribute: string(keyCancelCause), Values: stringsOf(mcp.Causes())}},
		},
		{
			Name: MetricValidation, OTel: "vitrine.validation", Kind: Histogram, Unit: "s",
			Help:    "Time that validation against a tool's schemas took.",
			Buckets: []float64{1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 1e-1, 1}, Labels: []Label{target()},
		},
		counter(MetricArgumentsRejected, "vitrine.arguments.rejected", "{call}",
			"Calls whose arguments broke the tool's input schema: answered with a tool error, without the handler.", target()),
		{
			Name: MetricWrite, OTel: "vitrine.write", Kind: Histogram, Unit: "s",
			Help: "Time that a write and its flush took.", Buckets: latencyBuckets(), Labels: []Label{transport()},
		},
		{
			Name: MetricRequestBytes, OTel: "vitrine.request.size", Kind: Histogram, Unit: "By",
			Help: "Size of requests.", Buckets: sizeBuckets(), Labels: []Label{ourMethod(), target()},
		},
		{
			Name: MetricResponseBytes, OTel: "vitrine.response.size", Kind: Histogram, Unit: "By",
			Help: "Size of answers: what a tool's result costs its model to read.", Buckets: sizeBuckets(),
			Labels: []Label{ourMethod(), target()},
		},
		{
			Name: MetricSubscriptionDuration, OTel: "vitrine.subscription.duration", Kind: Histogram, Unit: "s", Native: true,
			Help:    "Life of subscriptions, from the acknowledgement to the end.",
			Buckets: []float64{1, 10, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400},
			Labels: []Label{{
				Name: "end", Attribute: string(keySubscriptionEnd), Values: stringsOf(mcp.SubscriptionEnds()),
			}},
		},
		{
			Name: MetricTaskDuration, OTel: "vitrine.task.duration", Kind: Histogram, Unit: "s", Native: true,
			Help:    "Time from the creation of a task to the return of its handler, or until that was abandoned.",
			Buckets: []float64{0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600, 7200, 21600, 86400},
			Labels:  []Label{target(), {Name: "status", Attribute: string(keyTaskStatus), Values: stringsOf(mcp.TaskStatuses())}},
		},
	}
}

// ownHealth lists the metrics about telemetry itself.
func ownHealth() []Metric {
	return []Metric{
		{
			Name: MetricBuildInfo, OTel: "vitrine.build.info", Kind: Gauge, Unit: "1",
			Help: "Constant 1, labelled with what was built.",
			Labels: []Label{
				{Name: "version", Attribute: "vitrine.version", Open: "the version of Vitrine"},
				{Name: "revision", Attribute: "vitrine.revision", Open: "the commit of the program"},
				{Name: "goversion", Attribute: "process.runtime.version", Open: "the version of Go"},
			},
		},
		counter(MetricReadinessChanges, "vitrine.readiness.changes", "{change}",
			"Changes of whether requests should be sent to the server, by the new state and the check that is to blame.",
			Label{Name: "state", Attribute: "vitrine.readiness.state", Values: session.ReadinessStates()},
			Label{Name: "check", Attribute: "vitrine.readiness.check", Open: "registered readiness checks, or none"}),
		counter(MetricSpansExported, "vitrine.telemetry.spans.exported", "{span}", "Spans that their exporter has taken."),
		counter(MetricSpansDropped, "vitrine.telemetry.spans.dropped", "{span}",
			"Spans that were lost: the queue was full, or their export failed.",
			Label{Name: "reason", Attribute: "vitrine.telemetry.reason", Values: []string{lostQueueFull, lostExportFailed}}),
		{
			Name: MetricSpansQueued, OTel: "vitrine.telemetry.spans.queued", Kind: Gauge, Unit: "{span}",
			Help: "Spans that wait for their export.",
		},
		counter(MetricLogRecordsExported, "vitrine.telemetry.log_records.exported", "{record}",
			"Log records that their exporter has taken."),
		counter(MetricLogRecordsDropped, "vitrine.telemetry.log_records.dropped", "{record}",
			"Log records that were not exported: the queue was full, or their export failed. They are on standard error.",
			Label{Name: "reason", Attribute: "vitrine.telemetry.reason", Values: []string{lostQueueFull, lostExportFailed}}),
		{
			Name: MetricLogRecordsQueued, OTel: "vitrine.telemetry.log_records.queued", Kind: Gauge, Unit: "{record}",
			Help: "Log records that wait for their export.",
		},
		counter(MetricScrapeFailures, "vitrine.telemetry.scrape.failures", "{scrape}",
			"Scrapes that were refused as too many at once, could not be gathered in full (also for a push), or were not read to their end.",
			Label{Name: "reason", Attribute: "vitrine.telemetry.reason", Values: []string{scrapeBusy, scrapeGather, scrapeWrite}}),
		counter(MetricExportFailures, "vitrine.telemetry.export.failures", "{export}", "Exports that failed.",
			Label{
				Name: "signal", Attribute: "vitrine.telemetry.signal",
				Values: []string{string(signalTraces), string(signalMetrics), string(signalLogs)},
			}),
		counter(MetricFlightSnapshots, "vitrine.flight.snapshots", "{snapshot}",
			"Snapshots of the flight recorder, by what they were taken for.",
			Label{Name: "reason", Attribute: "vitrine.flight.reason", Values: flightReasons()}),
		counter(MetricFlightTriggersDropped, "vitrine.flight.triggers.dropped", "{trigger}",
			"Reasons to take a snapshot for which none was taken, by why not.",
			Label{Name: "reason", Attribute: "vitrine.flight.drop_reason", Values: flightDrops()}),
		counter(MetricTracesEvicted, "vitrine.telemetry.traces.evicted", "{trace}",
			"Ended requests that the ring of recent traces has let go of, or had no room for.",
			Label{Name: "class", Attribute: "vitrine.telemetry.trace.class", Values: recentClasses()}),
		counter(MetricTraceSpansLeftOut, "vitrine.telemetry.trace.spans.left_out", "{span}",
			"Spans that the ring of recent traces had no room for, by the limit.",
			Label{
				Name: "limit", Attribute: "vitrine.telemetry.limit", Values: []string{limitRecentSpans, limitRecentTotalSpans},
			}),
		{
			Name: MetricLiveListeners, OTel: "vitrine.telemetry.live.listeners", Kind: Gauge, Unit: "{listener}",
			Help: "Open streams of live frames: consoles that somebody looks at.",
		},
		counter(MetricLiveFramesSkipped, "vitrine.telemetry.live.frames.skipped", "{frame}",
			"Live frames that a listener did not get because it had not read the one before."),
		counter(MetricLiveRefused, "vitrine.telemetry.live.refused", "{listener}",
			"Streams of live frames that were refused because there were too many."),
	}
}

func counter(name, otel, unit, help string, labels ...Label) Metric {
	return Metric{Name: name, OTel: otel, Kind: Counter, Unit: unit, Help: help, Labels: labels}
}

// The labels that several metrics share.

// What labels have that are of no closed set: never anything from the wire.
const (
	openMethods = "the protocol's methods and notifications, those that the program has registered, and `_OTHER`"
	openTools   = "registered tools, or none"
)

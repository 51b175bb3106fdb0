package telemetry

// A Kind is the type of a metric.
type Kind string

// The kinds of metrics.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// A Metric describes one of our metrics.
type Metric struct {
	// Name is the name in Prometheus, OTel the name over OTLP.
	Name, OTel string
	Kind       Kind
	// Unit is a unit of UCUM, such as "s" or "By".
	Unit   string
	Help   string
	Labels []Label
	// Buckets are the upper bounds of a histogram's classic buckets.
	Buckets []float64
	// Native tells that a histogram is also a native one. Those are durations for which the
	// buckets are coarse. An observation of a native histogram costs three times as much.
	Native bool
}

// A Label is one label of a metric.
type Label struct {
	// Name is the name in Prometheus, Attribute the key over OTLP.
	Name, Attribute string
	// Values is the closed set of values. If it is nil, Open describes the values.
	Values []string
	Open   string

	// first are the values for which series exist from the start. nil stands for Values.
	first []string
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

package telemetry

import (
	"maps"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

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

// The names of our metrics.
const (
	MetricOperationDuration = "mcp_server_operation_duration_seconds"
	MetricSessionDuration   = "mcp_server_session_duration_seconds"
	MetricClientDuration    = "mcp_client_operation_duration_seconds"

	MetricRequestsAdmitted     = "vitrine_requests_admitted_total"
	MetricResponsesSent        = "vitrine_responses_sent_total"
	MetricResponsesStored      = "vitrine_responses_stored_total"
	MetricResponsesExpired     = "vitrine_responses_expired_total"
	MetricResponsesFetched     = "vitrine_responses_fetched_total"
	MetricResponsesWaiting     = "vitrine_responses_waiting"
	MetricResponsesDropped     = "vitrine_responses_dropped_total"
	MetricRequestsCancelled    = "vitrine_requests_cancelled_total"
	MetricRequestsRejected     = "vitrine_requests_rejected_total"
	MetricMessagesReceived     = "vitrine_messages_received_total"
	MetricNotificationsSent    = "vitrine_notifications_sent_total"
	MetricNotificationsDropped = "vitrine_notifications_dropped_total"
	MetricFramesIgnored        = "vitrine_frames_ignored_total"
	MetricHandlerPanics        = "vitrine_handler_panics_total"
	MetricHandlersAbandoned    = "vitrine_handlers_abandoned_total"
	MetricAbandonedNow         = "vitrine_handlers_abandoned"
	MetricRequestsInFlight     = "vitrine_requests_in_flight"
	MetricOldestRequestAge     = "vitrine_oldest_request_age_seconds"
	MetricHTTPRefused          = "vitrine_http_refused_total"
	MetricForeignUses          = "vitrine_auth_foreign_uses_total"
	MetricStreamsEnded         = "vitrine_auth_streams_ended_total"
	MetricPolicyDecisions      = "vitrine_policy_decisions_total"
	MetricPolicyReloads        = "vitrine_policy_reloads_total"
	MetricPolicyStale          = "vitrine_policy_stale_files"
	MetricStateKeysReloads     = "vitrine_state_keys_reloads_total"
	MetricStateKeysStale       = "vitrine_state_keys_stale_files"
	MetricCredentialsStale     = "vitrine_credentials_stale_files"
	MetricCertificateExpiry    = "vitrine_tls_certificate_expiry_timestamp_seconds"
	MetricRefusals             = "vitrine_refusals_total"
	MetricAuditRecords         = "vitrine_audit_records_total"
	MetricAuditLost            = "vitrine_audit_records_lost_total"
	MetricAuditFailures        = "vitrine_audit_write_failures_total"
	MetricAuditQueued          = "vitrine_audit_queued_records"
	MetricAuditQueuedBytes     = "vitrine_audit_queued_bytes"
	MetricAuditStalled         = "vitrine_audit_stalled_seconds"
	MetricAuditHead            = "vitrine_audit_head_records"
	MetricRateLimitMessages    = "vitrine_rate_limit_messages_total"
	MetricRateLimitUsed        = "vitrine_rate_limit_used_ratio"
	MetricRateLimitBuckets     = "vitrine_rate_limit_buckets"
	MetricRateLimitLocal       = "vitrine_rate_limit_local_messages_total"
	MetricStreamsResumed       = "vitrine_streams_resumed_total"
	MetricSessionsAdopted      = "vitrine_sessions_adopted_total"
	MetricToolsStreaming       = "vitrine_tools_streaming"
	MetricStoreOperations      = "vitrine_store_operations_total"
	MetricStoreTime            = "vitrine_store_operation_seconds_total"
	MetricStoreAway            = "vitrine_store_away_seconds"
	MetricStoreEvicts          = "vitrine_store_evicts"
	MetricSignals              = "vitrine_signals_total"
	MetricSignalsMissed        = "vitrine_signals_missed_total"
	MetricTasksTakenOver       = "vitrine_tasks_taken_over_total"
	MetricTasksFenced          = "vitrine_tasks_fenced_total"
	MetricTasksLost            = "vitrine_tasks_lost_total"
	MetricEventsFenced         = "vitrine_events_fenced_total"
	MetricStoredEvents         = "vitrine_event_store_events"
	MetricStoredEventsAge      = "vitrine_event_store_oldest_event_age_seconds"
	MetricEventStoreFailures   = "vitrine_event_store_failures_total"
	MetricAdminActions         = "vitrine_admin_actions_total"
	MetricLimitReached         = "vitrine_limit_reached_total"
	MetricPendingOutbound      = "vitrine_pending_outbound"
	MetricOldestOutboundAge    = "vitrine_oldest_outbound_age_seconds"
	MetricQuestionsAsked       = "vitrine_questions_asked_total"
	MetricQuestionsAnswered    = "vitrine_questions_answered_total"
	MetricSessionsActive       = "vitrine_sessions_active"
	MetricSessionsClosed       = "vitrine_sessions_closed_total"
	MetricListChanges          = "vitrine_list_changes_total"
	MetricSubscriptionsActive  = "vitrine_subscriptions_active"
	MetricTasks                = "vitrine_tasks"
	MetricTasksUnstored        = "vitrine_tasks_unstored_total"
	MetricTasksCancelled       = "vitrine_tasks_cancelled_total"

	MetricRequestsDisplaced = "vitrine_requests_displaced_total"
	MetricTurnWaits         = "vitrine_turn_waits_total"
	MetricTurnWait          = "vitrine_turn_wait_seconds_total"
	MetricTurnsLapsed       = "vitrine_turns_lapsed_total"
	MetricSaturation        = "vitrine_saturation_seconds"
	MetricClassRefused      = "vitrine_class_refused_total"
	MetricClassLimit        = "vitrine_class_limit"
	MetricClassInUse        = "vitrine_class_in_use"
	MetricClassQueued       = "vitrine_class_queued"
	MetricShareSize         = "vitrine_share_size"
	MetricShareUsed         = "vitrine_share_used"
	MetricShareCallers      = "vitrine_share_callers"
	MetricShareLargest      = "vitrine_share_largest"
	MetricMemoryHeld        = "vitrine_memory_held_bytes"
	MetricMemoryBound       = "vitrine_memory_bound_bytes"

	MetricAuthVerifications = "vitrine_auth_verifications_total"
	MetricAuthVerification  = "vitrine_auth_verification_seconds"
	MetricAuthKeyRefreshes  = "vitrine_auth_key_refreshes_total"
	MetricAuthKeys          = "vitrine_auth_keys"
	MetricAuthKeysAge       = "vitrine_auth_keys_age_seconds"
	MetricAuthCachedTokens  = "vitrine_auth_cached_tokens"
	MetricAuthEvictions     = "vitrine_auth_cache_evictions_total"

	MetricQueueWait         = "vitrine_queue_wait_seconds"
	MetricCancelUnwind      = "vitrine_cancel_unwind_seconds"
	MetricValidation        = "vitrine_validation_seconds"
	MetricArgumentsRejected = "vitrine_arguments_rejected_total"
	MetricWrite             = "vitrine_write_seconds"
	MetricRequestBytes      = "vitrine_request_bytes"
	MetricResponseBytes     = "vitrine_response_bytes"

	MetricSubscriptionDuration = "vitrine_subscription_duration_seconds"
	MetricResourceSubscription = "vitrine_resource_subscription_duration_seconds"
	MetricStreamDuration       = "vitrine_stream_duration_seconds"
	MetricDisconnectAge        = "vitrine_disconnect_age_seconds"
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
	MetricChangesBytes      = "vitrine_telemetry_changes_bytes"
	MetricChangesKeys       = "vitrine_telemetry_changes_keys"
	MetricChangesAge        = "vitrine_telemetry_changes_age_seconds"
	MetricChangesMerged     = "vitrine_telemetry_changes_merged_total"
)

// A row describes one metric. The instruments, /metrics, the push over OTLP, docs/telemetry.md and
// the dashboards read it. To add a metric, add a row to [catalogue], and record it by its name
// unless the row reads it from a snapshot.
type row struct {
	Metric
	// read takes the value from a snapshot. nil: the value is recorded.
	read func(*Snapshot, reading)
	// series are the label values of the series that exist from the start. nil: all
	// combinations of the first values of the labels.
	series [][]string
	// public tells that [Telemetry.Count] counts it.
	public bool
}

func counter(name, otel, unit, help string, labels ...Label) *row {
	return &row{Metric: Metric{Name: name, OTel: otel, Kind: Counter, Unit: unit, Help: help, Labels: labels}}
}

func gauge(name, otel, unit, help string, labels ...Label) *row {
	return &row{Metric: Metric{Name: name, OTel: otel, Kind: Gauge, Unit: unit, Help: help, Labels: labels}}
}

func histogram(name, otel, unit, help string, buckets []float64, labels ...Label) *row {
	return &row{Metric: Metric{Name: name, OTel: otel, Kind: Histogram, Unit: unit, Help: help, Buckets: buckets, Labels: labels}}
}

// native makes the histogram also a native one.
func (m *row) native() *row {
	m.Native = true
	return m
}

// from sets how the value is read from a snapshot.
func (m *row) from(read func(*Snapshot, reading)) *row {
	m.read = read
	return m
}

// fromSeries sets how the value is read from the counters of each series of a snapshot.
func (m *row) fromSeries(read func(*state.SeriesCounters, reading)) *row {
	return m.from(func(s *Snapshot, r reading) {
		for i := range s.Counters.Series {
			read(&s.Counters.Series[i], r)
		}
	})
}

// counted lets [Telemetry.Count] count the metric.
func (m *row) counted() *row {
	m.public = true
	return m
}

// startsWith sets the series that exist from the start.
func (m *row) startsWith(series [][]string) *row {
	m.series = series
	return m
}

// first returns the label values of the series that exist from the start.
func (m *row) first() [][]string {
	if m.series != nil {
		return m.series
	}
	all := [][]string{nil}
	for _, l := range m.Labels {
		values := l.first
		if values == nil {
			values = l.Values
		}
		var longer [][]string
		for _, labels := range all {
			for _, v := range values {
				longer = append(longer, append(labels[:len(labels):len(labels)], v))
			}
		}
		all = longer
	}
	return all
}

// labelNames returns the names of the labels in Prometheus.
func (m *row) labelNames() []string {
	names := make([]string, len(m.Labels))
	for i, l := range m.Labels {
		names[i] = l.Name
	}
	return names
}

// A point is one series of one metric: its name and its label values.
type point struct {
	metric string
	labels [4]string
	n      int
}

func at(metric string, labels ...string) point { return point{metric: metric}.with(labels...) }

// with returns the point with more label values.
func (p point) with(labels ...string) point {
	p.n += copy(p.labels[p.n:], labels)
	return p
}

// sums adds up the values of points.
type sums map[point]float64

// totals are the values of points that snapshots have.
type totals struct {
	sums      sums
	latencies map[point]auth.Latency // of histograms
}

func newTotals() totals { return totals{sums{}, map[point]auth.Latency{}} }

// clone returns a copy.
func (t totals) clone() totals { return totals{maps.Clone(t.sums), maps.Clone(t.latencies)} }

// A reading takes the values of one metric from a snapshot.
type reading struct {
	totals
	at point
}

// with returns a reading of the series with these values of the first labels.
func (r reading) with(labels ...string) reading { return reading{r.totals, r.at.with(labels...)} }

func (r reading) add(n uint64) { r.sums[r.at] += float64(n) }

func (r reading) addTime(d time.Duration) { r.sums[r.at] += d.Seconds() }

func (r reading) addLatency(l auth.Latency) { r.latencies[r.at] = r.latencies[r.at].Plus(l) }

func (r reading) max(v float64) { r.sums[r.at] = max(r.sums[r.at], v) }

// each adds counts by the value of the next label.
func each[K ~string, N int | uint64](r reading, counts map[K]N) {
	for value, n := range counts {
		r.with(string(value)).add(uint64(n))
	}
}

// eachPair adds counts by the values of the next two labels.
func eachPair[K, L ~string](r reading, counts map[K]map[L]uint64) {
	for value, more := range counts {
		each(r.with(string(value)), more)
	}
}

// The series of a method exist from its registration, with an empty target and all values of the
// other labels.

func readPanics(c *state.SeriesCounters, r reading) {
	if c.Panics > 0 || c.Target == "" {
		r.with(c.Method, c.Target).add(c.Panics)
	}
}

func readDropped(c *state.SeriesCounters, r reading) {
	for _, reason := range mcp.ResponseDropReasons() {
		r.with(c.Method, "", string(reason)).add(0)
	}
	each(r.with(c.Method, c.Target), c.Dropped)
}

func readCancelled(c *state.SeriesCounters, r reading) {
	for _, cause := range mcp.Causes() {
		r.with(c.Method, "", string(cause), phaseQueued).add(0)
		r.with(c.Method, "", string(cause), phaseRunning).add(0)
	}
	// Requests that a shutdown cancels are counted right before the process ends. A rate needs an
	// earlier value, so the series exists from the first request on.
	if c.Admitted > 0 {
		for _, phase := range []string{phaseQueued, phaseRunning, phaseBlocked} {
			r.with(c.Method, c.Target, string(mcp.CauseServerShutdown), phase).add(0)
		}
	}
	for in, n := range c.Cancelled {
		r.with(c.Method, c.Target, string(in.Cause), in.Phase).add(n)
	}
}

func readInFlight(s *Snapshot, r reading) {
	for _, list := range [][]RequestState{s.Requests, s.Subscriptions} {
		for i := range list {
			r.with(list[i].State).add(1)
		}
	}
}

func readAbandoned(s *Snapshot, r reading) {
	for _, list := range [][]RequestState{s.Requests, s.Subscriptions} {
		for i := range list {
			if list[i].Abandoned {
				r.add(1)
			}
		}
	}
	for i := range s.Tasks {
		if s.Tasks[i].Abandoned {
			r.add(1)
		}
	}
}

func readSessions(s *Snapshot, r reading) {
	for i := range s.Sessions {
		r.with(transportLabel(s.Sessions[i].Transport)).add(1)
	}
}

// readAudit returns a function that reads one number of each sink of the audit.
func readAudit(read func(*audit.SinkStats, reading)) func(*Snapshot, reading) {
	return func(s *Snapshot, r reading) {
		for i := range s.Audit {
			read(&s.Audit[i], r.with(s.Audit[i].Sink))
		}
	}
}

// readShares returns a function that reads one number of each shared limit.
func readShares(read func(*state.Share, reading)) func(*Snapshot, reading) {
	return func(s *Snapshot, r reading) {
		for i := range s.Shares {
			read(&s.Shares[i], r.with(s.Shares[i].Limit))
		}
	}
}

// readClasses returns a function that reads one number of each concurrency class. Classes with one name
// count together.
func readClasses(read func(*mcp.ClassState) int) func(*Snapshot, reading) {
	return func(s *Snapshot, r reading) {
		for i := range s.Classes {
			r.with(s.Classes[i].Name).add(uint64(read(&s.Classes[i])))
		}
	}
}

// readClassRefusals counts the refusals of each class. The series of a class exists from its first
// registration.
func readClassRefusals(s *Snapshot, r reading) {
	for i := range s.Classes {
		r.with(s.Classes[i].Name).add(0)
	}
	for limit, n := range s.Counters.LimitsReached {
		if name, ok := strings.CutPrefix(limit, session.ClassPrefix); ok {
			r.with(name).add(n)
		}
	}
}

// readMemory returns a function that reads the memory of each part: a number of its limit times
// what a unit takes.
func readMemory(count func(*state.Share) int) func(*Snapshot, reading) {
	return func(s *Snapshot, r reading) {
		for i := range s.Shares {
			for _, part := range limits.Parts() {
				if part.Limit == s.Shares[i].Limit {
					r.with(part.Name).add(uint64(count(&s.Shares[i]) * part.Cost))
				}
			}
		}
	}
}

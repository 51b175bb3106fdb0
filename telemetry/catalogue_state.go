package telemetry

import (
	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// stateMetrics are gauges that are read from a snapshot, and the counters that belong to them.
func stateMetrics() []*row {
	return []*row{
		gauge(MetricRequestsInFlight, "vitrine.requests.in_flight", "{request}",
			"Requests whose handler has not returned or whose answer has no known fate.",
			closed("state", "vitrine.request.state", report.States())).from(readInFlight),
		gauge(MetricOldestRequestAge, "vitrine.oldest_request.age", "s",
			"Age of the oldest request in flight.").
			from(func(s *Snapshot, r reading) { r.max(s.oldestAge().Seconds()) }),
		gauge(MetricAbandonedNow, "vitrine.handlers.abandoned", "{handler}",
			"Abandoned handlers that have not returned yet.").from(readAbandoned),
		gauge(MetricPendingOutbound, "vitrine.outbound.pending", "{request}",
			"Requests to clients that are not answered yet.").
			from(func(s *Snapshot, r reading) { r.add(uint64(len(s.Outbound))) }),
		gauge(MetricOldestOutboundAge, "vitrine.oldest_outbound.age", "s",
			"Age of the oldest request to a client that is not answered yet.", closed("method", string(keyMethod), askMethods())).
			from(func(s *Snapshot, r reading) {
				for i := range s.Outbound {
					r.with(s.Outbound[i].Method).max(s.Outbound[i].Age.Seconds())
				}
			}),
		counter(MetricQuestionsAsked, "vitrine.questions.asked", "{question}",
			"Questions to clients: those in the results of modern clients, and requests to legacy clients when the wait for their response has ended.",
			closed("method", string(keyMethod), askMethods())),
		counter(MetricQuestionsAnswered, "vitrine.questions.answered", "{question}",
			"Questions to clients that were answered. With replicas a modern client may answer at another one; each request that it makes with a valid state and an answer counts, also the same one again.",
			closed("method", string(keyMethod), askMethods())),
		gauge(MetricSessionsActive, "vitrine.sessions.active", "{session}",
			"Open sessions and connections.", transport()).from(readSessions),
		gauge(MetricResponsesWaiting, "vitrine.responses.waiting", "{response}",
			"Stored answers that a client may still fetch.").
			from(func(s *Snapshot, r reading) {
				for i := range s.Sessions {
					r.add(uint64(s.Sessions[i].Stored))
				}
			}),
		gauge(MetricStoredEvents, "vitrine.event_store.events", "{event}",
			"Events of streams of legacy HTTP clients that are kept in memory. Their bytes are the limit max_event_bytes_total of vitrine_share_used.").
			from(func(s *Snapshot, r reading) {
				if s.Events != nil {
					r.add(uint64(s.Events.Events))
				}
			}),
		gauge(MetricStoredEventsAge, "vitrine.event_store.oldest_event.age", "s",
			"Age of the oldest of these events.").
			from(func(s *Snapshot, r reading) {
				if s.Events != nil {
					r.max(oldestEvent(s.Events, s.At))
				}
			}),
		gauge(MetricSubscriptionsActive, "vitrine.subscriptions.active", "{subscription}",
			"Open subscriptions (subscriptions/listen).").
			from(func(s *Snapshot, r reading) { r.add(uint64(len(s.Subscriptions))) }),
		gauge(MetricPolicyStale, "vitrine.policy.stale", "{file}",
			"Files of rules whose present content is not in use, because it has a mistake.").
			from(func(s *Snapshot, r reading) {
				if s.Policy.Stale {
					r.add(1)
				}
			}),
		gauge(MetricStateKeysStale, "vitrine.state_keys.stale", "{file}",
			"Files of state keys whose present content is not in use, because it has a mistake or cannot be read.").
			from(func(s *Snapshot, r reading) {
				if s.StateKeys.Stale {
					r.add(1)
				}
			}),
		gauge(MetricCredentialsStale, "vitrine.credentials.stale", "{file}",
			"1 for each kind of file with credentials whose present content is not in use, because it has a mistake or cannot be read; 0 if it is in use. Only kinds that are configured are here.",
			credentialsKind()).from(readStaleCredentials),
		gauge(MetricCertificateExpiry, "vitrine.tls.certificate.expiry", "s",
			"When the certificate in use expires, as seconds of Unix time. There is none without TLS.").
			startsWith([][]string{}).from(readCertificateExpiry),
		gauge(MetricAuthKeys, "vitrine.auth.keys", "{key}",
			"Keys of an issuer that verify access tokens.", issuer()).
			from(func(s *Snapshot, r reading) {
				for _, i := range s.Auth.Issuers {
					r.with(i.Issuer).max(float64(i.Keys))
				}
			}),
		gauge(MetricAuthKeysAge, "vitrine.auth.keys.age", "s",
			"Time since the keys of an issuer were fetched. There is none before that.", issuer()).
			from(func(s *Snapshot, r reading) {
				for _, i := range s.Auth.Issuers {
					if !i.Fetched.IsZero() {
						r.with(i.Issuer).max(s.At.Sub(i.Fetched).Seconds())
					}
				}
			}),
		gauge(MetricAuthCachedTokens, "vitrine.auth.cached_tokens", "{token}",
			"Verified access tokens that are remembered.").
			from(func(s *Snapshot, r reading) { r.add(uint64(s.Auth.CachedTokens)) }),
		gauge(MetricRateLimitUsed, "vitrine.rate_limit.used", "1",
			"How near a rate limit is: the share of its tokens that the emptiest bucket has given, from 0 to 1.", rateLimit()).
			from(func(s *Snapshot, r reading) {
				for _, limit := range s.RateLimits {
					r.with(limit.Name).max(limit.Used)
				}
			}),
		gauge(MetricRateLimitBuckets, "vitrine.rate_limit.buckets", "{bucket}",
			"Callers, or other values, that a rate limit tells apart just now.", rateLimit()).
			from(func(s *Snapshot, r reading) {
				for _, limit := range s.RateLimits {
					r.with(limit.Name).add(uint64(limit.Buckets))
				}
			}),
		gauge(MetricTasks, "vitrine.tasks", "{task}",
			"Tasks that this process has created and that are kept, or with a task store of the program those that run here, by status.", taskStatus()).
			from(func(s *Snapshot, r reading) { each(r, s.TaskStatus) }),
		counter(MetricTasksUnstored, "vitrine.tasks.unstored", "{task}",
			"Tasks whose handlers have returned and whose store has lost the task, or could not store its end: their clients get no result.").
			from(func(s *Snapshot, r reading) { r.add(s.TasksUnstored) }),

		gauge(MetricToolsStreaming, "vitrine.tools.streaming", "{tool}",
			"1 for each registered tool that streams: the rules for latency leave it out.",
			Label{Name: "gen_ai_tool_name", Attribute: string(keyToolName), Open: "registered tools that stream"}).
			from(func(s *Snapshot, r reading) {
				for _, tool := range s.Streaming {
					r.with(tool).max(1)
				}
			}),

		counter(MetricTurnWaits, "vitrine.turn.waits", "{wait}",
			"Messages to be decoded, and large answers to be encoded, that have waited for their caller's turn.").
			from(func(s *Snapshot, r reading) { r.add(s.Turns.Waits) }),
		counter(MetricTurnWait, "vitrine.turn.wait", "s",
			"How long all of them together have waited.").
			from(func(s *Snapshot, r reading) { r.addTime(s.Turns.Waited) }),
		counter(MetricTurnsLapsed, "vitrine.turns.lapsed", "{turn}",
			"Turns that were taken away because they took longer than 10 ms while others waited.").
			from(func(s *Snapshot, r reading) { r.add(s.Turns.Lapsed) }),
		gauge(MetricSaturation, "vitrine.saturation", "s",
			"How long all slots have been held and the queue full; 0 if that is not so for saturation_grace.").
			from(func(s *Snapshot, r reading) { r.max(s.Saturated.Seconds()) }),
		counter(MetricClassRefused, "vitrine.class.refused", "{request}",
			"Requests that found no place in the queue, or lost it, while all slots of their concurrency class were taken.", class()).
			from(readClassRefusals),
		gauge(MetricClassLimit, "vitrine.class.limit", "{handler}",
			"Handlers of a concurrency class that may run at once.", class()).
			from(readClasses(func(c *mcp.ClassState) int { return c.Limit })),
		gauge(MetricClassInUse, "vitrine.class.in_use", "{handler}",
			"Slots of a concurrency class that are taken.", class()).
			from(readClasses(func(c *mcp.ClassState) int { return c.InUse })),
		gauge(MetricClassQueued, "vitrine.class.queued", "{request}",
			"Requests of a concurrency class that wait for a slot.", class()).
			from(readClasses(func(c *mcp.ClassState) int { return c.Queued })),
		gauge(MetricShareSize, "vitrine.share.size", "{item}",
			"Size of a limit that callers share.", sharedLimit()).
			from(readShares(func(s *state.Share, r reading) { r.add(uint64(s.Size)) })),
		gauge(MetricShareUsed, "vitrine.share.used", "{item}",
			"What callers have of a limit that they share.", sharedLimit()).
			from(readShares(func(s *state.Share, r reading) { r.add(uint64(s.Used)) })),
		gauge(MetricShareCallers, "vitrine.share.callers", "{caller}",
			"Callers that hold something of a limit, and that wait for it.",
			sharedLimit(), closed("state", "vitrine.share.state", []string{shareHolding, shareWaiting})).
			from(readShares(func(s *state.Share, r reading) {
				r.with(shareHolding).add(uint64(s.Holding))
				r.with(shareWaiting).add(uint64(s.Waiting))
			})),
		gauge(MetricShareLargest, "vitrine.share.largest", "{item}",
			"How much of a limit the largest caller uses. /debug/requests names the caller.", sharedLimit()).
			from(readShares(func(s *state.Share, r reading) { r.max(float64(s.Largest)) })),

		gauge(MetricMemoryHeld, "vitrine.memory.held", "By",
			"Memory of each part: its count times what a unit takes at most.", memoryPart()).
			from(readMemory(func(s *state.Share) int { return s.Used })),
		gauge(MetricMemoryBound, "vitrine.memory.bound", "By",
			"Memory that the limit of each part allows it.", memoryPart()).
			from(readMemory(func(s *state.Share) int { return s.Size })),

		counter(MetricAuditRecords, "vitrine.audit.records", "{record}",
			"Records that a sink of the audit has taken.", auditSink()).
			from(readAudit(func(s *audit.SinkStats, r reading) { r.add(s.Written) })),
		counter(MetricAuditLost, "vitrine.audit.records.lost", "{record}",
			"Records of the audit that were lost, by the reason.", auditSink(), closed("reason", "vitrine.audit.reason", audit.LostReasons())).
			from(readAudit(func(s *audit.SinkStats, r reading) {
				for _, reason := range audit.LostReasons() {
					r.with(reason).add(s.Lost[reason])
				}
			})),
		counter(MetricAuditFailures, "vitrine.audit.write.failures", "{write}",
			"Writes to a sink of the audit that have failed. They are tried again.", auditSink()).
			from(readAudit(func(s *audit.SinkStats, r reading) { r.add(s.Failures) })),
		gauge(MetricAuditQueued, "vitrine.audit.queued", "{record}",
			"Records that wait for a sink of the audit.", auditSink()).
			from(readAudit(func(s *audit.SinkStats, r reading) { r.add(uint64(s.Waiting)) })),
		gauge(MetricAuditQueuedBytes, "vitrine.audit.queued.bytes", "By",
			"About what the records take that wait for a sink of the audit.", auditSink()).
			from(readAudit(func(s *audit.SinkStats, r reading) { r.add(uint64(s.Bytes)) })),
		gauge(MetricAuditStalled, "vitrine.audit.stalled", "s",
			"How long a sink of the audit has taken no record although some wait.", auditSink()).
			from(readAudit(func(s *audit.SinkStats, r reading) { r.max(s.Stalled.Seconds()) })),
		gauge(MetricAuditHead, "vitrine.audit.head", "{record}",
			"Number of the last record in the chain of a sink of the audit.", auditSink()).
			from(readAudit(func(s *audit.SinkStats, r reading) { r.max(float64(s.Head)) })),

		gauge(MetricChangesBytes, "vitrine.telemetry.changes.bytes", "By",
			"Memory of the history in which /debug/changes looks for changes. Its limit is max_change_bytes.").
			from(func(s *Snapshot, r reading) { r.add(uint64(s.changes.Bytes)) }),
		gauge(MetricChangesKeys, "vitrine.telemetry.changes.keys", "{key}",
			"Combinations of client, version, principal, method, target and outcome that the history keeps apart.").
			from(func(s *Snapshot, r reading) { r.add(uint64(s.changes.Keys)) }),
		gauge(MetricChangesAge, "vitrine.telemetry.changes.age", "s",
			"How far back the history reaches.").
			from(func(s *Snapshot, r reading) {
				if oldest := s.changes.Oldest; !oldest.IsZero() {
					r.max(s.At.Sub(oldest).Seconds())
				}
			}),
		counter(MetricChangesMerged, "vitrine.telemetry.changes.merged", "{request}",
			"Requests whose client, version and principal the history does not keep apart, because there are too many.").
			from(func(s *Snapshot, r reading) { r.add(s.changes.Merged) }),
	}
}

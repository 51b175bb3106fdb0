package telemetry

import (
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/resume"
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
func catalogue() []row {
	return []row{
		// Metrics of the OpenTelemetry conventions.
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

		// Counters that are read from a snapshot.
		counter(MetricPanics, "vitrine.telemetry.panics", "{panic}",
			"Panics in what observes requests: observers, exporters, log handlers. They were contained.").
			from(func(s *Snapshot, r reading) { r.add(s.Counters.ObserverPanics) }),
		counter(MetricRequestsAdmitted, "vitrine.requests.admitted", "{request}",
			"Requests that were admitted. At rest: admitted = sent + stored + dropped.", ourMethod(mcp.MethodToolsCall)).
			fromSeries(func(c *SeriesCounters, r reading) { r.with(c.Method).add(c.Admitted) }),
		counter(MetricResponsesSent, "vitrine.responses.sent", "{response}",
			"Answers that were handed to the kernel.", ourMethod(mcp.MethodToolsCall)).
			fromSeries(func(c *SeriesCounters, r reading) { r.with(c.Method).add(c.Sent) }),
		counter(MetricResponsesStored, "vitrine.responses.stored", "{response}",
			"Answers that were kept for replay.", ourMethod(mcp.MethodToolsCall)).
			fromSeries(func(c *SeriesCounters, r reading) { r.with(c.Method).add(c.Stored) }),
		counter(MetricResponsesExpired, "vitrine.responses.expired", "{response}",
			"Stored answers that no client can fetch any more, by the reason. At rest: stored = fetched + expired + waiting.",
			closed("reason", string(keyExpireReason), mcp.ExpireReasons())).
			from(func(s *Snapshot, r reading) { each(r, s.Counters.ResponsesExpired) }),
		counter(MetricResponsesFetched, "vitrine.responses.fetched", "{response}",
			"Stored answers that a client has fetched.").
			from(func(s *Snapshot, r reading) { r.add(s.Counters.ResponsesFetched) }),
		counter(MetricResponsesDropped, "vitrine.responses.dropped", "{response}",
			"Answers that were not sent, by the reason.",
			ourMethod(mcp.MethodToolsCall), target(""), closed("reason", string(keyDropReason), mcp.ResponseDropReasons())).
			fromSeries(readDropped),
		counter(MetricRequestsCancelled, "vitrine.requests.cancelled", "{request}",
			"Requests whose context was cancelled, by the cause and the phase at that moment: the handler of a queued one was not called.",
			ourMethod(mcp.MethodToolsCall), target(""), cause(), cancelPhase()).
			fromSeries(readCancelled),
		counter(MetricTasksCancelled, "vitrine.tasks.cancelled", "{task}",
			"Tasks whose context was cancelled, by the cause. Their requests were answered before.", target(""), cause()).
			fromSeries(func(c *SeriesCounters, r reading) { each(r.with(c.Target), c.TasksCancelled) }),
		counter(MetricRequestsRejected, "vitrine.requests.rejected", "{request}",
			"Requests and frames that were answered with an error and not admitted.",
			closed("reason", string(keyRejectReason), mcp.RejectReasons())).
			from(func(s *Snapshot, r reading) { each(r, s.Counters.Rejected) }),
		counter(MetricRequestsDisplaced, "vitrine.requests.displaced", "{request}",
			"Admitted requests that lost their place in the queue to one of a caller with fewer, and were answered with overload.").
			from(func(s *Snapshot, r reading) { r.add(s.Counters.Displaced) }),
		counter(MetricMessagesReceived, "vitrine.messages.received", "{message}",
			"Messages that arrived, by kind.",
			closed("kind", "vitrine.message.kind", []string{"request", "notification", "response", "invalid"})).
			from(func(s *Snapshot, r reading) { each(r, s.Counters.Received) }).counted(),
		counter(MetricNotificationsDropped, "vitrine.notifications.dropped", "{notification}",
			"Notifications to the client that were not sent.", ourMethod(mcp.NotificationProgress),
			closed("reason", string(keyDropReason), mcp.NotificationDropReasons())).
			from(func(s *Snapshot, r reading) { eachPair(r, s.Counters.NotificationsDropped) }),
		counter(MetricFramesIgnored, "vitrine.frames.ignored", "{frame}",
			"Messages that arrived and had no effect.",
			closed("kind", "vitrine.ignored.kind", ignoredKinds()), closed("reason", "vitrine.ignored.reason", ignoreReasons())).
			from(func(s *Snapshot, r reading) { eachPair(r, s.Counters.Ignored) }).startsWith(ignoredPairs()).counted(),
		counter(MetricHandlerPanics, "vitrine.handler.panics", "{panic}",
			"Panics of handlers, all contained.", ourMethod(mcp.MethodToolsCall), target("")).
			fromSeries(readPanics),
		counter(MetricHandlersAbandoned, "vitrine.handlers.abandoned.total", "{handler}",
			"Handlers that ignored their cancelled context for too long.", target(""), cause()).
			fromSeries(func(c *SeriesCounters, r reading) { each(r.with(c.Target), c.Abandoned) }),
		counter(MetricHTTPRefused, "vitrine.http.refused", "{request}",
			"HTTP exchanges that were refused before they carried a message.",
			closed("reason", "vitrine.http.refuse_reason", mcp.RefuseReasons())).
			from(func(s *Snapshot, r reading) { each(r, s.Counters.HTTPRefused) }).counted(),
		counter(MetricRefusals, "vitrine.refusals", "{refusal}",
			"Requests and callers that the server's own rules did not let through.",
			opened("reason", string(keyRefusalReason), "reasons of the program's refusals, at most 64 with by", ""),
			opened("by", string(keyRefusalBy), "who refuses: authenticator, admission, or a name of the program's", "")).
			from(func(s *Snapshot, r reading) { eachPair(r, s.Counters.Refused) }),
		counter(MetricPolicyDecisions, "vitrine.policy.decisions", "{decision}",
			"Operations that scopes and policies have decided about, by the rule that has decided. Lists are not counted.",
			opened("rule", string(keyPolicyRule), "rules of the program's policies, at most 64 with effect, and scopes", ""),
			closed("effect", string(keyPolicyEffect), session.Effects())).
			from(func(s *Snapshot, r reading) { eachPair(r, s.Counters.Decisions) }),
		counter(MetricPolicyReloads, "vitrine.policy.reloads", "{file}",
			"New contents of the file of rules that came into use, and those with a mistake, which did not.",
			closed("result", "vitrine.policy.reload_result", []string{policyLoaded, policyFailed})).
			from(func(s *Snapshot, r reading) {
				r.with(policyLoaded).add(s.Policy.Loaded)
				r.with(policyFailed).add(s.Policy.Failed)
			}),
		counter(MetricAuthVerifications, "vitrine.auth.verifications", "{token}",
			"Access tokens that were looked at, by how: they were verified before, here, or by their issuer.",
			later(authMethod()), later(closed("result", "vitrine.auth.result", []string{authAccepted, authRefused, authUnavailable}))).
			from(func(s *Snapshot, r reading) {
				for _, v := range s.Auth.Verifications {
					r.with(v.Method, authAccepted).add(v.Accepted)
					r.with(v.Method, authRefused).add(v.Refused)
					r.with(v.Method, authUnavailable).add(v.Unavailable)
				}
			}),
		histogram(MetricAuthVerification, "vitrine.auth.verification", "s",
			"Time that the verification of an access token took that was not verified before.", authBuckets(), later(authMethod())).
			from(func(s *Snapshot, r reading) {
				for _, v := range s.Auth.Verifications {
					if v.Method != auth.MethodCache {
						r.with(v.Method).addLatency(v.Took)
					}
				}
			}),
		counter(MetricAuthKeyRefreshes, "vitrine.auth.key_refreshes", "{fetch}",
			"Fetches of the keys of an issuer, by what they were for and what came of them; too_soon was not fetched.",
			issuer(), closed("cause", "vitrine.auth.cause", []string{"first", "periodic", "unknown_key", "check"}),
			closed("result", "vitrine.auth.refresh_result", []string{"changed", "unchanged", "failed", "too_soon"})).
			from(readKeyRefreshes),
		counter(MetricAuthEvictions, "vitrine.auth.cache.evictions", "{token}",
			"Verified tokens that left the cache before their time, because it was full.").
			from(func(s *Snapshot, r reading) { r.add(s.Auth.Evicted) }),
		counter(MetricForeignUses, "vitrine.auth.foreign_uses", "{use}",
			"Sessions, tasks and states that a caller has named and that belong to another principal. They were answered as if they did not exist.",
			closed("kind", "vitrine.auth.foreign_kind", session.ForeignKinds())).
			from(func(s *Snapshot, r reading) { each(r, s.Counters.Foreign) }).counted(),
		counter(MetricStreamsEnded, "vitrine.auth.streams_ended", "{stream}",
			"Streams of clients that the server has ended because of their credentials.",
			closed("stream", "vitrine.auth.stream", session.ExpiringStreams()),
			closed("reason", "vitrine.auth.end_reason", []string{string(mcp.EndTokenExpired)})).
			from(func(s *Snapshot, r reading) {
				for stream, n := range s.Counters.StreamsExpired {
					r.with(stream, string(mcp.EndTokenExpired)).add(n)
				}
			}).counted(),
		counter(MetricRateLimitMessages, "vitrine.rate_limit.messages", "{message}",
			"Messages that a rate limit has looked at: those that it allowed, and those that it refused.",
			rateLimit(), closed("decision", "vitrine.rate_limit.decision", []string{rateAllowed, rateRefused})).
			from(func(s *Snapshot, r reading) {
				for _, limit := range s.RateLimits {
					r.with(limit.Name, rateAllowed).add(limit.Allowed)
					r.with(limit.Name, rateRefused).add(limit.Refused)
				}
			}),
		counter(MetricListChanges, "vitrine.list.changes", "{change}",
			"Items that were added, replaced by another definition, or removed. Clients are told of each (list_changed).",
			closed("kind", "vitrine.item.kind", []string{auth.KindTool, auth.KindPrompt, auth.KindResource, "resource_template"}),
			closed("change", "vitrine.list.change", session.ListChanges())).
			from(func(s *Snapshot, r reading) { eachPair(r, s.ListChanges) }),
		counter(MetricStreamsResumed, "vitrine.streams.resumed", "{stream}",
			"Event streams of legacy sessions that a client has gone on reading over another connection.").
			from(func(s *Snapshot, r reading) { r.add(s.Counters.StreamsResumed) }),
		counter(MetricSessionsAdopted, "vitrine.sessions.adopted", "{session}",
			"Legacy HTTP sessions that were opened from their sealed ids: another process has begun them, or this one had let go of them.").
			from(func(s *Snapshot, r reading) { r.add(s.Counters.SessionsAdopted) }),
		counter(MetricEventStoreFailures, "vitrine.event_store.failures", "{failure}",
			"Operations of the event store that have failed.",
			closed("operation", "vitrine.event_store.operation", resume.Operations())).
			from(func(s *Snapshot, r reading) { each(r, s.Counters.EventFailures) }),
		counter(MetricAdminActions, "vitrine.admin.actions", "{action}",
			"What operators did on the admin listener, and what was refused to them.",
			closed("action", "vitrine.admin.action", adminActions()),
			closed("outcome", "vitrine.admin.outcome", []string{ActionDone, ActionRefused})).counted(),
		counter(MetricLimitReached, "vitrine.limit.reached", "{event}",
			"How often a limit took effect.",
			closed("limit", "vitrine.limit", slices.Concat(limits.Names(), []string{limitTenants, limitAudit}, authLimits()))).
			from(func(s *Snapshot, r reading) {
				for limit, n := range s.Counters.LimitsReached {
					if !strings.HasPrefix(limit, session.ClassPrefix) {
						r.with(limit).add(n)
					}
				}
				each(r, s.Auth.LimitsReached)
				for i := range s.Audit {
					r.with(limitAudit).add(s.Audit[i].Refused + s.Audit[i].Lost[audit.LostFull])
				}
			}).counted(),
		counter(MetricSessionsClosed, "vitrine.sessions.closed", "{session}",
			"Sessions and connections that ended, by the cause.", cause()).
			from(func(s *Snapshot, r reading) { each(r, s.Counters.SessionsClosed) }),

		// Gauges that are read from a snapshot.
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
		gauge(MetricSessionsActive, "vitrine.sessions.active", "{session}",
			"Open sessions and connections.", transport()).from(readSessions),
		gauge(MetricResponsesWaiting, "vitrine.responses.waiting", "{response}",
			"Stored answers that a client may still fetch.").
			from(func(s *Snapshot, r reading) {
				for i := range s.Sessions {
					r.add(uint64(s.Sessions[i].Stored))
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
			"Tasks that are kept in memory, or with another store those that run here, by status.", taskStatus()).
			from(func(s *Snapshot, r reading) { each(r, s.TaskStatus) }),

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
			from(readShares(func(s *ShareState, r reading) { r.add(uint64(s.Size)) })),
		gauge(MetricShareUsed, "vitrine.share.used", "{item}",
			"What callers have of a limit that they share.", sharedLimit()).
			from(readShares(func(s *ShareState, r reading) { r.add(uint64(s.Used)) })),
		gauge(MetricShareCallers, "vitrine.share.callers", "{caller}",
			"Callers that hold something of a limit, and that wait for it.",
			sharedLimit(), closed("state", "vitrine.share.state", []string{shareHolding, shareWaiting})).
			from(readShares(func(s *ShareState, r reading) {
				r.with(shareHolding).add(uint64(s.Holding))
				r.with(shareWaiting).add(uint64(s.Waiting))
			})),
		gauge(MetricShareLargest, "vitrine.share.largest", "{item}",
			"How much of a limit the largest caller uses. /debug/requests names the caller.", sharedLimit()).
			from(readShares(func(s *ShareState, r reading) { r.max(float64(s.Largest)) })),

		gauge(MetricMemoryHeld, "vitrine.memory.held", "By",
			"Memory of each part: its count times what a unit takes at most.", memoryPart()).
			from(readMemory(func(s *ShareState) int { return s.Used })),
		gauge(MetricMemoryBound, "vitrine.memory.bound", "By",
			"Memory that the limit of each part allows it.", memoryPart()).
			from(readMemory(func(s *ShareState) int { return s.Size })),

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

		// Metrics of requests that are recorded.
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

		// Metrics of the process and of telemetry itself.
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

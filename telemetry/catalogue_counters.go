package telemetry

import (
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// counterMetrics are counters that are read from a snapshot.
func counterMetrics() []*row {
	return []*row{
		counter(MetricPanics, "vitrine.telemetry.panics", "{panic}",
			"Panics in what observes requests: observers, exporters, log handlers. They were contained.").
			from(func(s *Snapshot, r reading) { r.add(s.Counters.ObserverPanics) }),
		counter(MetricRequestsAdmitted, "vitrine.requests.admitted", "{request}",
			"Requests that were admitted. At rest: admitted = sent + stored + dropped.", ourMethod(mcp.MethodToolsCall)).
			fromSeries(func(c *state.SeriesCounters, r reading) { r.with(c.Method).add(c.Admitted) }),
		counter(MetricResponsesSent, "vitrine.responses.sent", "{response}",
			"Answers that were handed to the kernel.", ourMethod(mcp.MethodToolsCall)).
			fromSeries(func(c *state.SeriesCounters, r reading) { r.with(c.Method).add(c.Sent) }),
		counter(MetricResponsesStored, "vitrine.responses.stored", "{response}",
			"Answers that were kept for replay.", ourMethod(mcp.MethodToolsCall)).
			fromSeries(func(c *state.SeriesCounters, r reading) { r.with(c.Method).add(c.Stored) }),
		counter(MetricResponsesExpired, "vitrine.responses.expired", "{response}",
			"Stored answers that no client can fetch any more, by the reason. At rest: stored = fetched + expired + waiting.",
			closed("reason", "vitrine.expire.reason", mcp.ExpireReasons())).
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
			fromSeries(func(c *state.SeriesCounters, r reading) { each(r.with(c.Target), c.TasksCancelled) }),
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
		counter(MetricNotificationsSent, "vitrine.notifications.sent", "{notification}",
			"Notifications to clients that were handed to the kernel.", ourMethod(mcp.NotificationProgress)).
			from(func(s *Snapshot, r reading) { each(r, s.Counters.NotificationsSent) }),
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
			fromSeries(func(c *state.SeriesCounters, r reading) { each(r.with(c.Target), c.Abandoned) }),
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
			closed("result", "vitrine.policy.reload_result", []string{fileLoaded, fileFailed})).
			from(func(s *Snapshot, r reading) {
				r.with(fileLoaded).add(s.Policy.Loaded)
				r.with(fileFailed).add(s.Policy.Failed)
			}),
		counter(MetricStateKeysReloads, "vitrine.state_keys.reloads", "{file}",
			"New contents of the file of state keys that came into use, and those with a mistake, which did not.",
			closed("result", "vitrine.state_keys.reload_result", []string{fileLoaded, fileFailed})).
			from(func(s *Snapshot, r reading) {
				r.with(fileLoaded).add(s.StateKeys.Loaded)
				r.with(fileFailed).add(s.StateKeys.Failed)
			}),
		counter(MetricAuthVerifications, "vitrine.auth.verifications", "{token}",
			"Access tokens that were looked at, by how: they were verified or refused before, here, or by their issuer. Those of callers that have hung up do not count.",
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
		counter(MetricRateLimitLocal, "vitrine.rate_limit.local_messages", "{message}",
			"Messages about which this replica has decided alone, because the store that has the tokens of all replicas did not answer.",
			rateLimit()).
			from(func(s *Snapshot, r reading) {
				for _, limit := range s.RateLimits {
					r.with(limit.Name).add(limit.Local)
				}
			}),
		counter(MetricListChanges, "vitrine.list.changes", "{change}",
			"Items that were added, replaced by another definition, or removed, and lists of which others may see the items since the policies have changed. Clients are told of each (list_changed).",
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
	}
}

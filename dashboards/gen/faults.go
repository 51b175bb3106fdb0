package main

import "github.com/vitrine-mcp/vitrine/telemetry"

// faults is the dashboard about cancelled requests and dropped answers.
func (b board) faults() sheet {
	return sheet{
		"cancellations", "cancellations and drops",
		"Why was work begun and thrown away, how soon did it stop, and what became of each answer?",
		[]row{
			{"Cancellations", b.cancellations()},
			{"Dropped answers", b.dropped()},
			{"What had no effect", b.ignored()},
			{"Access tokens", b.tokens()},
		},
	}
}

func (b board) cancellations() []panel {
	admitted := b.rate("", telemetry.MetricRequestsAdmitted)
	const unwind = telemetry.MetricCancelUnwind
	return []panel{
		number("Calls cut", "Requests that a shutdown has cancelled, of the processes that were seen in the chosen time. Each counts its own in the last moment, and waits for the scrape that shows them with --linger-timeout. One that does not wait, or is hurried, shows what it had at its last scrape: the last push over OTLP and the log records drain.left are complete.",
			"none", above(0.5), latest(sum("")+"("+ended(b.of(telemetry.MetricRequestsCancelled, is("cause", "server_shutdown")))+")", "")),
		graph("Cancellations by cause", "client_cancel and client_disconnect are the client's doing, deadline and server_shutdown the server's. The points are traces.",
			perSecond, above(1), traced(b.rate("cause", telemetry.MetricRequestsCancelled), "{{cause}}")),
		graph("Cancellations by tool", "Calls of each tool that were cancelled, for any cause. The points are traces.",
			perSecond, above(1), traced(b.rate("tool", telemetry.MetricRequestsCancelled), "{{tool}}")),
		graph("Cancellations by phase", "Whether the handler had started: a request that was cancelled while it was queued has done nothing, and can be made again. The points are traces.",
			perSecond, above(1), traced(b.rate("phase", telemetry.MetricRequestsCancelled), "{{phase}}")),
		graph("Cancelled share by cause", "Of the requests that were admitted. VitrineCancelSurge fires above 25 %.",
			percent, rising(0.1, 0.25), query(share(b.rate("cause", telemetry.MetricRequestsCancelled), admitted), "{{cause}}")),
		graph("Time to stop by tool, p95", "From a cancellation to the return of the handler. A long one ignores its context. The points are traces.",
			"s", rising(1, 5), traced(b.quantile(0.95, "tool", unwind), "{{tool}}")),
		graph("Time to stop by cause, p95", "From a cancellation to the return of the handler.", "s", rising(1, 5),
			traced(b.quantile(0.95, "cause", unwind), "{{cause}}")),
		graph("Handlers at work for nobody", "How many handlers, on average, were going on after their cancellation: seconds of work in a second.",
			"none", rising(1, 10), query(b.rate("tool", unwind+"_sum"), "{{tool}}")),
		graph("Abandoned now", "Handlers that have ignored their cancellation for too long and have not returned. Each holds a slot.",
			"none", above(1), query(b.now("instance", telemetry.MetricAbandonedNow), "{{instance}}")),
		list("Abandoned since the start", "Handlers that were given up, by tool and by what had cancelled them.", "none", above(1),
			latest(b.now("instance, tool, cause", telemetry.MetricHandlersAbandoned)+" > 0", "")),
		graph("Panics by tool", "Panics of handlers. All are contained: the caller gets an internal error.", "ops", above(0.01),
			query(b.rate("tool", telemetry.MetricHandlerPanics), "{{tool}}")),
	}
}

// ended returns the value of counters that are counted only at the end of a process, as a whole
// number. Usually that is the largest value, which needs no earlier sample. But several processes
// may have had one address, and then the series was reset, and the increase is the sum of their
// counts. Prometheus extrapolates an increase. Rounding down removes that, unless there were more
// counts than scrapes.
func ended(counters string) string {
	over := counters + "[$__range]"
	return "max_over_time(" + over + ") unless resets(" + over + ") > 0 or floor(increase(" + over + "))"
}

func (b board) dropped() []panel {
	const drops = telemetry.MetricResponsesDropped
	admitted, sent := telemetry.MetricRequestsAdmitted, telemetry.MetricResponsesSent
	faulty := is("reason", "closed_writer", "broken_peer", "write_timeout", "stream_gone", "overload")
	answers := b.rate("", sent, noSubscription) + " + " + b.rate("", telemetry.MetricResponsesStored, noSubscription) + " + " + b.rate("", drops, noSubscription, faulty)
	open := b.now("instance", admitted) + " - " + b.now("instance", sent) + " - " + b.now("instance", telemetry.MetricResponsesStored) + " - " + b.now("instance", drops)
	return []panel{
		graph("Dropped by reason", "Answers that were not sent. Those that are cancelled, the client asked not to get. The points are traces.",
			perSecond, above(1), traced(b.rate("reason", drops), "{{reason}}")),
		graph("Dropped by tool", "Answers of each tool that were not sent, for any reason. The points are traces.", perSecond, above(1),
			traced(b.rate("tool", drops), "{{tool}}")),
		graph("Dropped share", "Of the answers that a client may have waited for: its own cancellations and deletions, and subscriptions, are left out. VitrineAnswersDropped fires above 5 %.",
			percent, rising(0.01, 0.05), query(share(b.rate("reason", drops, noSubscription, faulty), answers), "{{reason}}")),
		stacked("Fates of answers", "Sent, kept for replay, or dropped.", perSecond, never(),
			query(b.rate("", sent), "sent"), query(b.rate("", telemetry.MetricResponsesStored), "stored"), query(b.rate("", drops), "dropped")),
		graph("Expired", "Stored answers that no client can fetch any more, by reason. With the session they end in the usual course of things; VitrineAnswersExpired fires for the other reasons.", perSecond, above(1),
			query(b.rate("reason", telemetry.MetricResponsesExpired), "{{reason}}")),
		graph("Waiting to be fetched", "Stored answers whose client has not come for them, and how many are fetched in a second.", "none", never(),
			query(b.now("instance", telemetry.MetricResponsesWaiting), "{{instance}}: waiting"), query(b.rate("", telemetry.MetricResponsesFetched), "fetched")),
		graph("Without a known fate", "Admitted requests that were neither sent, nor stored, nor dropped. It is at most what is in flight, and never below nothing, or else answers are lost.",
			"none", never(), query(open, "{{instance}}: no fate"), query(b.now("instance", telemetry.MetricRequestsInFlight), "{{instance}}: in flight")).signed(),
	}
}

func (b board) ignored() []panel {
	return []panel{
		graph("Notifications dropped", "Notifications to clients that were not sent, by reason.", "ops", above(10),
			query(b.rate("reason", telemetry.MetricNotificationsDropped), "{{reason}}")),
		graph("Frames ignored", "Messages that had no effect: late cancellations, answers to nothing, what is not JSON-RPC.", "ops", above(10),
			query(b.rate("kind, reason", telemetry.MetricFramesIgnored)+" > 0", "{{kind}} {{reason}}")),
		graph("HTTP refused", "HTTP exchanges that were refused before they carried a message.", "ops", above(10),
			query(b.rate("reason", telemetry.MetricHTTPRefused)+" > 0", "{{reason}}")),
		graph("Refusals", "Requests and callers that the server's own rules did not let through, by reason and by who refuses. They are no errors of the service.", "ops", above(10),
			query(b.rate("reason, by", telemetry.MetricRefusals)+" > 0", "{{reason}} by {{by}}")),
		graph("Decisions", "What scopes and policies decide about operations, by rule. A denied operation is answered as one for an unknown item.", "ops", above(10),
			query(b.rate("rule, effect", telemetry.MetricPolicyDecisions)+" > 0", "{{effect}} by {{rule}}")),
		graph("Credentials", "Uses of what belongs to another principal, which may be theft, and streams that ended with their token.", "ops", above(10),
			query(b.rate("kind", telemetry.MetricForeignUses)+" > 0", "foreign {{kind}}"),
			query(b.rate("stream, reason", telemetry.MetricStreamsEnded)+" > 0", "{{stream}} {{reason}}")),
		graph("Operators", "What operators did on the admin listener (--admin-actions), and what was refused to them.", "ops", above(10),
			query(b.rate("action, outcome", telemetry.MetricAdminActions), "{{action}}: {{outcome}}")),
		graph("Files of rules", "Contents of --policy that came into use (loaded) or have a mistake (failed), and whether the present one is in use. VitrinePolicyStale fires while it is not.", "none", never(),
			query(b.rate("result", telemetry.MetricPolicyReloads), "{{result}} a second"), query(b.now("instance", telemetry.MetricPolicyStale), "{{instance}}: not in use")),
		graph("Files of state keys", "Contents of --state-keys-file that came into use (loaded) or have a mistake (failed), and whether the present one is in use. VitrineStateKeysStale fires while it is not.", "none", never(),
			query(b.rate("result", telemetry.MetricStateKeysReloads), "{{result}} a second"), query(b.now("instance", telemetry.MetricStateKeysStale), "{{instance}}: not in use")),
		graph("Files with credentials", "Whether the present content is not in use, because it has a mistake or cannot be read: the certificate (tls), the admin token, the static tokens. VitrineCredentialsStale fires then.", "none", never(),
			query(b.now("instance, kind", telemetry.MetricCredentialsStale), "{{instance}}: {{kind}}")),
		graph("Validity of the certificate", "How long the certificate in use is valid. VitrineCertificateExpires fires when less than a week is left, or what the rules say.", "s", never(),
			query("min by (instance) ("+b.of(telemetry.MetricCertificateExpiry)+") - time()", "{{instance}}")).signed(),
	}
}

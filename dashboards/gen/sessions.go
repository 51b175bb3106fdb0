package main

import "github.com/vitrine-mcp/vitrine/telemetry"

// sessions is the dashboard about sessions, subscriptions, questions and tasks.
func (b board) sessions() sheet {
	const asks, tasks = telemetry.MetricClientDuration, telemetry.MetricTaskDuration
	return sheet{
		"sessions", "sessions and streams",
		"Who is connected, for how long, in which revision of the protocol, and why did it end? Modern clients have no sessions.",
		[]row{
			{"Sessions", []panel{
				graph("Open sessions", "Legacy sessions over HTTP, and connections over pipes.", "none", never(),
					query(b.now("transport", telemetry.MetricSessionsActive), "{{transport}}")),
				graph("Ends of sessions", "By cause: clients that behave end them with session_delete or transport_close; session_idle and session_evicted are the server's.",
					"ops", above(1), query(b.rate("cause", telemetry.MetricSessionsClosed), "{{cause}}")),
				graph("Life of sessions", "How long sessions were open that have ended.", "s", never(), b.plainQuantiles(telemetry.MetricSessionDuration)...),
				graph("Revisions of the protocol", "Requests by the revision that they are in. _OTHER is one that is not known here.", perSecond, never(),
					query(b.rate("mcp_protocol_version", operation+"_count", requests), "{{mcp_protocol_version}}")),
				graph("Transports", "Requests by transport and version of HTTP.", perSecond, never(),
					query(b.rate("network_transport, network_protocol_name, network_protocol_version", operation+"_count", requests), "{{network_transport}} {{network_protocol_name}} {{network_protocol_version}}")),
				graph("Time to write, p95", "A write and its flush, by transport. A slow one waits for its reader.", "s", rising(0.1, 1),
					query(b.quantile(0.95, "transport", telemetry.MetricWrite), "{{transport}}")),
			}},
			{"Streams and subscriptions", []panel{
				graph("Open subscriptions", "Subscriptions (subscriptions/listen) that are open.", "none", never(),
					query(b.now("instance", telemetry.MetricSubscriptionsActive), "{{instance}}")),
				graph("Ends of subscriptions", "By what has ended them.", "ops", above(1), query(b.rate("end", telemetry.MetricSubscriptionDuration+"_count"), "{{end}}")),
				graph("Life of subscriptions", "How long subscriptions were open that have ended.", "s", never(), b.plainQuantiles(telemetry.MetricSubscriptionDuration)...),
				graph("Ends of resource subscriptions", "Subscriptions of legacy sessions to resources, by what has ended them.", "ops", never(),
					query(b.rate("end", telemetry.MetricResourceSubscription+"_count"), "{{end}}")),
				graph("Ends of streams", "Event streams over HTTP, by what they were for and why they ended.", "ops", above(1),
					query(b.rate("kind, reason", telemetry.MetricStreamDuration+"_count"), "{{kind}} {{reason}}")),
				graph("Life of streams, p95", "How long event streams were open that have ended.", "s", never(),
					query(b.quantile(0.95, "kind", telemetry.MetricStreamDuration), "{{kind}}")),
				graph("Age at disconnect", "Disconnects by the age of their exchange. One band means that something cuts at that age: /debug/requests says which (disconnects).", "ops", never(),
					query("sum by (le) (rate("+b.of(telemetry.MetricDisconnectAge+"_bucket")+"[$__rate_interval]))", "up to {{le}} s")),
				graph("Changes of lists", "Items that were added, replaced or removed. Each change makes clients read a list again. /debug/requests names the items and the code.", "ops", above(0.2),
					query(b.rate("kind, change", telemetry.MetricListChanges), "{{kind}} {{change}}")),
				graph("Notifications sent", "By method. Those of lists (list_changed) make clients read the list again.", "ops", never(),
					query(b.rate("method", telemetry.MetricNotificationsSent), "{{method}}")),
				graph("Streams resumed", "Event streams that a client has gone on reading over another connection.", "ops", never(),
					query(b.rate("", telemetry.MetricStreamsResumed), "resumed")),
				graph("Sessions adopted", "Legacy sessions that were opened from their sealed ids: another replica has begun them, or this one had let go of them.", "ops", never(),
					query(b.rate("", telemetry.MetricSessionsAdopted), "adopted")),
				graph("Event store", "Events that are kept to resume streams, and answers among them that clients may still fetch. /debug/events has the sessions and clients that hold most.", "none", never(),
					query(b.now("", telemetry.MetricStoredEvents), "events"), query(b.now("", telemetry.MetricResponsesWaiting), "answers")),
				graph("Oldest event kept", "Age of the oldest event in the store in memory. If it falls while bytes are at their limit, streams can be resumed for a shorter time.", "s", never(),
					query("max by (instance) ("+b.of(telemetry.MetricStoredEventsAge)+")", "{{instance}}")),
				graph("Failures of the event store", "By operation. What cannot be stored cannot be replayed.", "ops", above(0.01),
					query(b.rate("operation", telemetry.MetricEventStoreFailures), "{{operation}}")),
			}},
			{"Questions to clients, and tasks", []panel{
				graph("Questions open", "Requests to legacy clients (sampling, elicitation, roots, ping) that are not answered yet.", "none", never(),
					query(b.now("instance", telemetry.MetricPendingOutbound), "{{instance}}")),
				graph("Oldest question open", "Age of the oldest request to a client that is not answered yet, by method. /debug/requests has questions by client and version.", "s", rising(60, 600),
					query("max by (method) ("+b.with(telemetry.MetricOldestOutboundAge)+")", "{{method}}")),
				graph("Questions asked and answered", "By method, of clients of both eras. VitrineQuestionsUnanswered fires if less than half are answered.", "ops", never(),
					query(b.rate("method", telemetry.MetricQuestionsAsked), "{{method}} asked"), query(b.rate("method", telemetry.MetricQuestionsAnswered), "{{method}} answered")),
				graph("Time to answer, p95", "How long clients took to answer, by method.", "s", rising(10, 60),
					traced(b.clientQuantile(asks), "{{mcp_method_name}}")),
				graph("Questions without an answer", "By error_type: the client's code, the cause of a cancellation, timeout, peer_gone or request_done.", "ops", above(1),
					query("sum by (error_type) (rate("+b.with(asks+"_count", isNot("error_type", ""))+"[$__rate_interval]))", "{{error_type}}")),
				graph("Tasks", "Tasks that are kept, by status.", "none", never(), query(b.now("status", telemetry.MetricTasks), "{{status}}")),
				graph("Duration of tasks, p95", "From the creation of a task to the return of its handler, by tool and status.", "s", never(),
					query(b.quantile(0.95, "tool, status", tasks), "{{tool}} {{status}}")),
				graph("Tasks cancelled", "By cause. Their requests were answered before, and are not among the cancelled ones.", "ops", above(1),
					query(b.rate("cause", telemetry.MetricTasksCancelled), "{{cause}}")),
				graph("Tasks ended", "By status.", "ops", never(), query(b.rate("status", tasks+"_count"), "{{status}}")),
			}},
		},
	}
}

// clientQuantile does not filter by method, because the variable has no methods of questions.
func (b board) clientQuantile(name string) string {
	return "histogram_quantile(0.95, sum by (mcp_method_name, le) (rate(" + b.with(name+"_bucket") + "[$__rate_interval])))"
}

// plainQuantiles returns the quantiles of a histogram without exemplars.
func (b board) plainQuantiles(name string, matchers ...matcher) (list []target) {
	for _, t := range b.quantiles(name, matchers...) {
		t.Exemplar = false
		list = append(list, t)
	}
	return list
}

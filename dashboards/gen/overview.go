package main

import "github.com/vitrine-mcp/vitrine/telemetry"

// overview is the dashboard to look at first.
func (b board) overview() sheet {
	return sheet{
		"overview", "overview",
		"Is the service what it promises to be, and if not, since when and for whom? The filter by instance does not reach what rules have recorded.",
		[]row{
			{"Service level, without what callers have spoilt", b.serviceLevel()},
			{"Rate, errors, duration", b.red()},
			{"Saturation", b.saturation()},
		},
	}
}

// worst returns the largest value of all tools.
func worst(expr string) string { return "max (" + expr + ")" }

// byService is the legend of recorded series.
const byService = "{{namespace}} {{job}} {{gen_ai_tool_name}}"

// burn returns how fast the budget of failures is spent. 1 is as fast as allowed.
func (b board) burn(window string) string {
	return b.recorded(recordFailing+window) + " / on " + toolLabels + " " + b.recorded(recordBudget)
}

// promised selects a recorded series of requests with an objective of latency. Tools that stream have none.
func (b board) promised(name string) string {
	return b.recorded(name) + " and on " + toolLabels + " " + b.recorded(recordSlowable)
}

func (b board) serviceLevel() []panel {
	const everyone = "$__range"
	list := []panel{
		number("Availability", "Share of the requests in the chosen time that did not fail. Bad requests, cancellations by clients and the like count neither as served nor as failed.",
			percent, falling(0.999, 0.99), latest("1 - sum ("+failed(b.source, everyone)+" or "+served(b.source, everyone)+" * 0) / (sum ("+served(b.source, everyone)+") > 0)", "")),
		number("Error budget left", "What is left of three days' share of failures, of the tool that has the least. Below nothing, more has failed than was allowed.",
			percent, falling(0.5, 0), latest("1 - "+worst(b.burn("3d")), "")),
		number("Burn rate, 1 h", "How fast the tool that fails most spends its budget: at 1 it lasts exactly as long as it should, at 14.4 somebody is woken.",
			"none", rising(1, 6), latest(worst(b.burn("1h")), "")),
	}
	burning := graph("Burn rate by tool, 1 h", "How fast each tool spends its share of failures. VitrineErrorBudgetFast fires above 14.4, and VitrineErrorBudgetSlow at 6 over six hours.",
		"none", rising(6, 14.4), query(b.burn("1h"), byService))
	available := graph("Availability by tool, 5 min", "Requests that are no tool calls are together under no tool.",
		percent, falling(0.999, 0.99), query("1 - "+b.recorded(recordFailing+"5m"), byService))
	if len(latency(b.config)) > 0 {
		list = append(list, number("Fast enough, 1 h", "Share of the requests without an error that took no longer than promised. Calls of tools that stream are left out, unless an objective names them.",
			percent, falling(0.95, 0.8), latest("1 - sum ("+b.promised(recordSlow+"1h")+") / (sum ("+b.promised(recordSucceeded+"1h")+") > 0)", "")))
	}
	list = append(list,
		number("Requests", "Requests a second that were admitted.", perSecond, never(), query(b.rate("", telemetry.MetricRequestsAdmitted), "")),
		number("Instances", "Processes that are scraped.", "none", falling(1, 1), latest("count ("+b.of(telemetry.MetricBuildInfo)+")", "")),
		available, burning)
	if len(latency(b.config)) > 0 {
		list = append(list, graph("Too slow by tool, 5 min", "Share of the requests without an error that took longer than promised. A call that its client gave up later than that is one of them. Tools that stream are left out, unless an objective names them.",
			percent, rising(0.05, 0.3), query(b.promised(recordSlowing+"5m"), byService)))
	}
	return list
}

func (b board) red() []panel {
	const method, tool = "mcp_method_name", "gen_ai_tool_name"
	return []panel{
		graph("Requests by method", "Requests a second.", perSecond, never(), query(b.rate(method, operation+"_count", requests), "{{mcp_method_name}}")),
		graph("Calls by tool", "Calls of tools a second. Under no name: of tools that there are not.", perSecond, never(),
			query(b.rate(tool, operation+"_count", calls), "{{gen_ai_tool_name}}")),
		graph("Errors by type", "Errors of the service and of its tools, by error.type: a code of JSON-RPC, what has ended the request, or tool_error. The points are traces.",
			perSecond, above(1), traced(b.counted("error_type", operation, failing), "{{error_type}}")),
		graph("Errors by tool", "Share of the calls that ended with an error of the service or of the tool.", percent, rising(0.01, 0.05),
			query(b.rate(tool, operation+"_count", calls, failing)+" / "+b.rate(tool, operation+"_count", calls), "{{gen_ai_tool_name}}")),
		graph("Callers' faults by code", "Answers with an error that the caller has caused. They count in no service level.", perSecond, above(10),
			query(b.rate("rpc_response_status_code", operation+"_count", spoilt...), "{{rpc_response_status_code}}")),
		graph("Duration", "From the arrival of a request to its outcome. The points are traces.", "s", rising(1, 5), b.quantiles(operation, requests)...),
		graph("Duration by tool, p95", "The slowest twentieth of the calls takes longer. The points are traces.", "s", rising(1, 5),
			traced(b.quantile(0.95, tool, operation, calls), "{{gen_ai_tool_name}}")),
		heat("Durations", "How many requests a second took how long. The points are traces.", "s",
			traced(b.rate("le", operation+"_bucket", requests), "{{le}}")).wide(16),
	}
}

func (b board) saturation() []panel {
	timeout := b.config.RequestTimeout.Seconds()
	return []panel{
		stacked("In flight", "Requests that are not over, by state: queued ones wait for a slot, blocked ones for their client, writing ones for their reader.",
			"none", never(), query(b.now("state", telemetry.MetricRequestsInFlight), "{{state}}")),
		graph("Wait for a slot", "Time that admitted requests have waited. Where it grows, max_in_flight_total or a class of concurrency is used up.",
			"s", rising(0.1, 1), query(b.quantile(0.95, "class", telemetry.MetricQueueWait), "p95 {{class}}"), query(b.quantile(0.99, "class", telemetry.MetricQueueWait), "p99 {{class}}")),
		graph("Classes of concurrency", "Share of the slots of each class of the program that is taken.", percent, rising(0.8, 1),
			query("max by (instance, class) ("+b.of(telemetry.MetricClassInUse)+" / "+b.of(telemetry.MetricClassLimit)+")", "{{instance}} {{class}}")),
		graph("Requests that wait for a class", "By class. They are in the queue, and their deadline runs.", "none", never(),
			query(b.now("class", telemetry.MetricClassQueued), "{{class}}")),
		graph("Refused for lack of a class", "Requests that found no place in the queue, or lost it, while their class was full.", perSecond, above(0.001),
			query(b.rate("class", telemetry.MetricClassRefused), "{{class}}")),
		graph("Wait for a turn", "Mean time that a message has waited to be decoded, or a large answer to be encoded. Where it grows, the processors are used up: callers take turns.",
			"s", rising(0.05, 0.5), query(b.rate("", telemetry.MetricTurnWait)+" / ("+b.rate("", telemetry.MetricTurnWaits)+" > 0)", "mean")),
		graph("Turns taken away", "Work that took longer than 10 ms, or blocked, while others waited for a turn. It goes on, and another one goes beside it.", perSecond, never(),
			query(b.rate("", telemetry.MetricTurnsLapsed), "turns")),
		graph("Oldest request", "Age of the oldest request in flight, subscriptions left out. No deadline is longer than the upper limit.", "s", rising(timeout/2, timeout),
			query("max by (instance) ("+b.of(telemetry.MetricOldestRequestAge)+")", "{{instance}}")),
		graph("Taken of what callers share", "Share of each limit that is taken. Above 0.94 only callers with a small share get more.", percent, rising(0.8, 0.94),
			query("max by (instance, limit) ("+b.of(telemetry.MetricShareUsed)+" / "+b.of(telemetry.MetricShareSize)+")", "{{instance}} {{limit}}")),
		graph("Largest caller", "How much of each limit the largest caller uses. /debug/requests names the caller.", percent, rising(0.5, 0.9),
			query("max by (instance, limit) ("+b.of(telemetry.MetricShareLargest)+" / "+b.of(telemetry.MetricShareSize)+")", "{{instance}} {{limit}}")),
		graph("Callers that wait", "By limit. No caller waits behind the backlog of another one.", "none", never(),
			query(b.now("limit", telemetry.MetricShareCallers, is("state", "waiting")), "{{limit}}")),
		graph("Saturated", "How long all slots have been held and the queue full: the server is not ready. VitrineSaturated fires.", "s", above(1),
			query("max by (instance) ("+b.of(telemetry.MetricSaturation)+")", "{{instance}}")),
		graph("Limits reached", "How often a limit took effect, by its name in docs/limits.md.", "ops", above(1),
			query(b.rate("limit", telemetry.MetricLimitReached)+" > 0", "{{limit}}")),
		graph("Rejected", "Requests that were answered with an error and not admitted. overload and shutting_down are the server's; the others are the caller's.",
			perSecond, above(1), query(b.rate("reason", telemetry.MetricRequestsRejected), "{{reason}}")),
		graph("Displaced", "Requests that lost their place in the full queue to one of a caller with fewer requests there.", perSecond, above(1),
			query(b.rate("", telemetry.MetricRequestsDisplaced), "displaced")),
		graph("Rate limits used", "How near each rate limit is: the share of its tokens that the busiest caller has used.", percent, rising(0.8, 1),
			query("max by (instance, limit) ("+b.of(telemetry.MetricRateLimitUsed)+")", "{{instance}} {{limit}}")),
		graph("Refused by rate limits", "Share of the messages that each limit has looked at. VitrineRateLimited fires above a tenth.", percent, rising(0.05, 0.1),
			query(b.rate("limit", telemetry.MetricRateLimitMessages, is("decision", "refused"))+" / "+b.rate("limit", telemetry.MetricRateLimitMessages), "{{limit}}")),
		graph("Callers that rate limits tell apart", "Buckets of each limit. At max_rate_buckets those that were not seen for longest are forgotten.", "none", never(),
			query(b.now("limit", telemetry.MetricRateLimitBuckets), "{{limit}}")),
		graph("Messages received", "By kind: requests, notifications, answers to what the server asks, and what is none of these.", "ops", never(),
			query(b.rate("kind", telemetry.MetricMessagesReceived), "{{kind}}")),
	}
}

package main

import "github.com/vitrine-mcp/vitrine/telemetry"

// tool is the dashboard about one tool, or several ones.
func (b board) tool() sheet {
	const method = "tools/call"
	of := is("method", method)
	return sheet{
		"tool", "one tool",
		"Choose a tool above: how it is used, what it takes, how it fails, and what its answers cost to read.",
		[]row{
			{"Use and duration", []panel{
				number("Availability", "Share of the calls in the last hour that did not fail. What their callers have spoilt counts neither as served nor as failed.", percent, falling(0.999, 0.99),
					latest("1 - sum ("+b.recorded(recordFailed+"1h")+") / (sum ("+b.recorded(recordServed+"1h")+") > 0)", "")),
				number("Budget left", "What is left of three days' share of failures, of the tool that has the least.", percent, falling(0.5, 0),
					latest("1 - "+worst(b.burn("3d")), "")),
				number("Calls", "Calls a second.", perSecond, never(), query(b.rate("", operation+"_count", calls), "")),
				number("Duration, p95", "The slowest twentieth of the calls takes longer.", "s", rising(1, 5), query(b.quantile(0.95, "", operation, calls), "")),
				number("Cancelled", "Calls a second that were cancelled.", perSecond, above(1), query(b.rate("", telemetry.MetricRequestsCancelled, of), "")),
				number("Answers dropped", "Answers a second that were not sent.", perSecond, above(1), query(b.rate("", telemetry.MetricResponsesDropped, of), "")),
				graph("Calls by outcome", "Successes; calls that their clients have cancelled; errors of the service or the tool, by error.type; faults of callers, by code.", perSecond, never(),
					query(b.rate("", operation+"_count", calls, is("error_type", ""), is("rpc_response_status_code", "")), "ok"),
					query(b.rate("error_type", operation+"_count", calls, is("error_type", callerCauses...)), "cancelled: {{error_type}}"),
					query(b.rate("error_type", operation+"_count", calls, failing), "{{error_type}}"),
					query(b.rate("rpc_response_status_code", operation+"_count", append([]matcher{calls}, spoilt...)...), "caller's fault: {{rpc_response_status_code}}")),
				graph("Duration", "From the arrival of a call to its outcome. The points are traces.", "s", rising(1, 5), b.quantiles(operation, calls)...),
				list("Tools that stream", "Their calls last as long as there is something to tell the client. Only an objective that names the tool is about their duration.", "none", never(),
					latest(b.now("gen_ai_tool_name", telemetry.MetricToolsStreaming), "{{gen_ai_tool_name}}")),
				heat("Durations", "How many calls a second took how long. The points are traces.", "s",
					traced(b.rate("le", operation+"_bucket", calls), "{{le}}")),
			}},
			{"Failures", []panel{
				graph("Errors by type", "What ended calls with an error of the service or of the tool. The points are traces.", perSecond, above(1),
					traced(b.counted("gen_ai_tool_name, error_type", operation, calls, failing), "{{gen_ai_tool_name}} {{error_type}}")),
				graph("Cancellations by cause", "What ended calls before they were done. The points are traces.", perSecond, above(1),
					traced(b.rate("tool, cause", telemetry.MetricRequestsCancelled, of)+" > 0", "{{tool}} {{cause}}")),
				graph("Time to stop, p95", "From a cancellation to the return of the handler. The points are traces.", "s", rising(1, 5),
					traced(b.quantile(0.95, "tool", telemetry.MetricCancelUnwind), "{{tool}}")),
				graph("Dropped answers by reason", "Why answers were not sent. The points are traces.", perSecond, above(1),
					traced(b.rate("tool, reason", telemetry.MetricResponsesDropped, of)+" > 0", "{{tool}} {{reason}}")),
				graph("Arguments rejected", "Calls whose arguments broke the schema of the tool. The answer is a tool error, which the model can mend. The points are traces.", perSecond, above(1),
					traced(b.rate("tool", telemetry.MetricArgumentsRejected), "{{tool}}")),
				graph("Panics", "Panics of the handler. All are contained.", "ops", above(0.01), query(b.rate("tool", telemetry.MetricHandlerPanics, of), "{{tool}}")),
				list("Abandoned since the start", "Handlers that ignored their cancellation for too long.", "none", above(1),
					latest(b.now("instance, tool, cause", telemetry.MetricHandlersAbandoned)+" > 0", "")),
			}},
			{"What it reads and writes", []panel{
				graph("Size of answers", "What a tool returns, a model reads. The buckets are coarse.", "bytes", rising(65536, 1048576), b.plainQuantiles(telemetry.MetricResponseBytes, of)...),
				graph("Mean size of answers", "Exact, by tool. Where it grows, models run out of context.", "bytes", rising(65536, 1048576),
					query(b.mean("tool", telemetry.MetricResponseBytes, of), "{{tool}}")),
				graph("Mean size of requests", "Exact, by tool.", "bytes", rising(65536, 1048576), query(b.mean("tool", telemetry.MetricRequestBytes, of), "{{tool}}")),
				graph("Validation, p95", "Time that validation against the schemas of the tool took.", "s", rising(0.001, 0.01),
					query(b.quantile(0.95, "tool", telemetry.MetricValidation), "{{tool}}")),
				graph("Duration of tasks, p95", "Of calls that went on as tasks, by status.", "s", never(),
					query(b.quantile(0.95, "tool, status", telemetry.MetricTaskDuration), "{{tool}} {{status}}")),
			}},
		},
	}
}

package main

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// byInstance aggregates by process, with its job and namespace.
const byInstance = "sum by (namespace, job, instance) "

// noSubscription leaves out subscriptions. They end with their connections, so that their answers are
// often dropped.
var noSubscription = isNot("method", "subscriptions/listen")

// faults returns the alerts about single instances.
func faults(c *config) []rule {
	s := c.source()
	list := []rule{unaccounted(c, s), {
		Alert: "VitrineHandlersAbandoned",
		Expr:  byInstance + "(" + s.of(telemetry.MetricAbandonedNow) + ") > 0",
		For:   "10m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("4-a-handler-ignores-its-context",
			"Handlers on {{ $labels.instance }} ignore that they were cancelled", "/debug/requests names them and their age."),
	}, {
		Alert: "VitrineRequestOverdue",
		Expr:  fmt.Sprintf("max by (namespace, job, instance) (%s) > %v", s.of(telemetry.MetricOldestRequestAge), c.RequestTimeout.Seconds()),
		For:   "5m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("4-a-handler-ignores-its-context",
			"A request on {{ $labels.instance }} is older than any deadline",
			"It is {{ $value | humanizeDuration }} old. /debug/requests names it."),
	}}
	list = append(list, callers(c, s)...)
	list = append(list, replicas(c, s)...)
	return append(list, drops(c, s), expired(c, s), rejectedArguments(c, s), surge(c, s), saturated(c, s), memoryFull(c, s), rateLimited(c, s), listStorm(c, s), unanswered(c, s), classFull(c, s), auditLost(c, s), auditStalled(c, s), rule{
		Alert: "VitrineSpansLost",
		Expr:  "sum by (namespace, job, instance, reason) (increase(" + s.of(telemetry.MetricSpansDropped) + "[10m])) > 0",
		For:   "1m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("12-the-collector-is-down",
			"{{ $labels.instance }} loses spans: {{ $labels.reason }}", "{{ $value | humanize }} in ten minutes. Traces are not whole."),
	})
}

// unaccounted checks that every admitted request without a fate is in flight. A request in flight may
// have a fate only if it is cancelled and its handler still runs.
func unaccounted(c *config, s source) rule {
	open := fmt.Sprintf("(%[1]s(%[2]s) - %[1]s(%[3]s) - %[1]s(%[4]s) - %[1]s(%[5]s))", byInstance,
		s.of(telemetry.MetricRequestsAdmitted), s.of(telemetry.MetricResponsesSent),
		s.of(telemetry.MetricResponsesStored), s.of(telemetry.MetricResponsesDropped))
	return rule{
		Alert: "VitrineAnswersUnaccounted",
		Expr: fmt.Sprintf("%[1]s > %[2]s(%[3]s)\nor %[1]s < %[2]s(%[4]s)", open, byInstance,
			s.of(telemetry.MetricRequestsInFlight), s.of(telemetry.MetricRequestsInFlight, isNot("state", "cancelled"))),
		For: "5m", Labels: map[string]string{"severity": page},
		Annotations: c.annotations("by-symptom",
			"Requests on {{ $labels.instance }} have ended without a known fate, or with two",
			"This is a bug of the server. /debug/requests shows what is in flight."),
	}
}

// saturated alerts on servers that are full. A server of which one caller holds all but the reserve,
// perhaps a proxy, is ready for others, and so not saturated.
func saturated(c *config, s source) rule {
	const by = "max by (namespace, job, instance) "
	slots := is("limit", "max_in_flight_total")
	return rule{
		Alert: "VitrineSaturated",
		Expr: fmt.Sprintf("%[1]s(%[2]s) > 0\nor (%[1]s(%[3]s) / %[1]s(%[4]s) > 0.9\n  and %[5]s(increase(%[6]s[5m])) >= 10)", by,
			s.of(telemetry.MetricSaturation), s.of(telemetry.MetricShareUsed, slots), s.of(telemetry.MetricShareSize, slots),
			byInstance, s.of(telemetry.MetricRequestsRejected, is("reason", "overload"))),
		For: "2m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("8-one-tenant-floods-the-server",
			"{{ $labels.instance }} is full and rejects requests", "/debug/requests says which callers hold the most slots and places in the queue."),
	}
}

// memoryFull alerts on parts of the memory that are nearly full and refuse what comes next. The stores
// of events and of tasks are not among them: they let go of what is old.
func memoryFull(c *config, s source) rule {
	const by = "max by (namespace, job, instance, part) "
	parts := isNot("part", "events", "tasks")
	return rule{
		Alert: "VitrineMemoryFull",
		Expr:  fmt.Sprintf("%[1]s(%[2]s)\n  / %[1]s(%[3]s) > 0.9", by, s.of(telemetry.MetricMemoryHeld, parts), s.of(telemetry.MetricMemoryBound, parts)),
		For:   "5m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("8-one-tenant-floods-the-server",
			"The memory that {{ $labels.instance }} has for {{ $labels.part }} is {{ $value | humanizePercentage }} full",
			"/debug/requests says which callers use the most of each limit. Raise --max-memory only if all of them need it."),
	}
}

// rateLimited alerts on callers that a rate limit refuses often. A limit that refuses one caller now and
// then does what it is for.
func rateLimited(c *config, s source) rule {
	by := "sum by (namespace, job, instance, limit) (rate(%s[10m]))"
	refused := fmt.Sprintf(by, s.of(telemetry.MetricRateLimitMessages, is("decision", "refused")))
	return rule{
		Alert: "VitrineRateLimited",
		Expr: fmt.Sprintf("%[1]s\n  / %[2]s > 0.1\nand %[1]s * 600 >= 10", refused,
			fmt.Sprintf(by, s.of(telemetry.MetricRateLimitMessages))),
		For: "10m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("13-callers-are-over-a-rate-limit",
			"{{ $labels.instance }} refuses {{ $value | humanizePercentage }} of the messages that the rate limit {{ $labels.limit }} is for",
			"The log names the callers: request.rejected."),
	}
}

// auditLost alerts on records of the audit that nobody will ever read.
func auditLost(c *config, s source) rule {
	return rule{
		Alert: "VitrineAuditLost",
		Expr:  "sum by (namespace, job, instance, sink, reason) (increase(" + s.of(telemetry.MetricAuditLost) + "[10m])) > 0",
		For:   "1m", Labels: map[string]string{"severity": page},
		Annotations: c.annotations("by-symptom",
			"{{ $labels.instance }} loses records of the audit: {{ $labels.reason }}",
			"{{ $value | humanize }} in ten minutes that were for {{ $labels.sink }}. What these callers did cannot be found out any more."),
	}
}

// auditStalled alerts on sinks that take no records. When the queue is full they are lost, or calls are
// refused.
func auditStalled(c *config, s source) rule {
	return rule{
		Alert: "VitrineAuditStalled",
		Expr:  "max by (namespace, job, instance, sink) (" + s.of(telemetry.MetricAuditStalled) + ") > 60",
		For:   "1m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("by-symptom",
			"The sink {{ $labels.sink }} of the audit of {{ $labels.instance }} has taken no record for {{ $value | humanizeDuration }}",
			"The log says why: audit.failed. When the queue is full, records are lost, or a strict server refuses all calls."),
	}
}

// drops alerts on dropped answers for which a client may have waited. Answers to requests that the
// client cancelled, or whose session it deleted, are not in the ratio.
func drops(c *config, s source) rule {
	faulty := is("reason", "closed_writer", "broken_peer", "write_timeout", "stream_gone", "overload")
	rate := func(selector string) string { return "(rate(" + selector + "[10m]))" }
	dropped := s.of(telemetry.MetricResponsesDropped, noSubscription, faulty)
	return rule{
		Alert: "VitrineAnswersDropped",
		Expr: fmt.Sprintf(`%[1]s
  / on (namespace, job, instance) group_left () (
    %[2]s
    + %[3]s
    + %[4]s
  ) > 0.05
and %[1]s * 600 >= 5`, "sum by (namespace, job, instance, reason) "+rate(dropped), byInstance+rate(s.of(telemetry.MetricResponsesSent, noSubscription)),
			byInstance+rate(s.of(telemetry.MetricResponsesStored, noSubscription)), byInstance+rate(dropped)),
		For: "10m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations(
			`{{ if match "write_timeout|overload" $labels.reason }}3-a-reader-does-not-read{{ else }}5-a-peer-vanishes{{ end }}`,
			"{{ $value | humanizePercentage }} of the answers of {{ $labels.instance }} reach nobody: {{ $labels.reason }}",
			"vitrine_responses_dropped_total says of which tools."),
	}
}

// expired alerts on stored answers that were lost although their sessions are open.
func expired(c *config, s source) rule {
	lost := s.of(telemetry.MetricResponsesExpired, isNot("reason", "session_idle", "session_ended", "left_in_store"))
	return rule{
		Alert: "VitrineAnswersExpired",
		Expr:  "sum by (namespace, job, instance, reason) (increase(" + lost + "[10m])) > 0",
		For:   "1m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("by-symptom",
			"Stored answers of {{ $labels.instance }} are lost: {{ $labels.reason }}",
			"{{ $value | humanize }} in ten minutes that no client can fetch any more. The log names them: response.expired."),
	}
}

// rejectedArguments alerts on tools that reject the arguments of most calls. Models send wrong
// arguments now and then; if most do, the schema is wrong, or clients have an old one.
func rejectedArguments(c *config, s source) rule {
	rejected := "sum by (namespace, job, instance, tool) (rate(" + s.of(telemetry.MetricArgumentsRejected, isNot("tool", "")) + "[10m]))"
	validated := "sum by (namespace, job, instance, tool) (rate(" + s.of(telemetry.MetricValidation+"_count") + "[10m]))"
	return rule{
		Alert: "VitrineArgumentsRejected",
		Expr:  fmt.Sprintf("%s\n  / %s > 0.5\nand %s * 600 >= 10", rejected, validated, rejected),
		For:   "10m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("11-a-schema-rejects-everything",
			"{{ $labels.tool }} of {{ $labels.instance }} rejects the arguments of {{ $value | humanizePercentage }} of its calls",
			"The schema is wrong, or clients send what an older schema allowed. /debug/traces?class=caller_error says what is wrong with the arguments."),
	}
}

// surge alerts on many cancelled requests. Requests that a shutdown cancelled are not in the ratio:
// they are failures, which the alerts about budgets cover.
func surge(c *config, s source) rule {
	causes := is("cause", "deadline", "client_cancel", "client_disconnect", "transport_close", "transport_error", "session_delete")
	cancelled := "sum by (namespace, job, instance, cause) (rate(" + s.of(telemetry.MetricRequestsCancelled, noSubscription, causes) + "[10m]))"
	admitted := byInstance + "(rate(" + s.of(telemetry.MetricRequestsAdmitted, noSubscription) + "[10m]))"
	return rule{
		Alert: "VitrineCancelSurge",
		Expr:  fmt.Sprintf("%[1]s\n  / on (namespace, job, instance) group_left () %[2]s > 0.25\nand %[1]s * 600 >= 10", cancelled, admitted),
		For:   "10m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations(
			`{{ if eq $labels.cause "deadline" }}1-a-tool-hangs{{ else if match "client_.*" $labels.cause }}`+
				`2-a-client-cancels-everything{{ else }}5-a-peer-vanishes{{ end }}`,
			"{{ $value | humanizePercentage }} of the requests of {{ $labels.instance }} are cancelled: {{ $labels.cause }}",
			"vitrine_requests_cancelled_total says of which tools."),
	}
}

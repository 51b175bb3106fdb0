package main

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// unanswered alerts on clients that do not answer what they are asked. The replicas count together, because a
// modern client may answer at another one. A ping has no user who may need time.
func unanswered(c *config, s source) rule {
	noPing := isNot("method", "ping")
	increase := func(metric string) string {
		return "sum by (namespace, job, method) (increase(" + s.of(metric, noPing) + "[30m]))"
	}
	return rule{
		Alert: "VitrineQuestionsUnanswered",
		Expr: fmt.Sprintf("(%[1]s < 0.5 * %[2]s\n  and %[2]s >= 10)\nor max by (namespace, job, method) (%[3]s) > 600",
			increase(telemetry.MetricQuestionsAnswered), increase(telemetry.MetricQuestionsAsked), s.of(telemetry.MetricOldestOutboundAge, noPing)),
		For: "10m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("by-symptom",
			"Clients of {{ $labels.job }} do not answer: {{ $labels.method }}",
			"Less than half of these questions were answered in half an hour, or one is open for more than ten minutes. questions of /debug/requests has the clients and their versions."),
	}
}

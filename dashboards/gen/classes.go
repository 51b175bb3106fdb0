package main

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// classFull alerts on a concurrency class that refuses requests, or for which requests wait all the time.
func classFull(c *config, s source) rule {
	const by = " by (namespace, job, instance, class) "
	return rule{
		Alert: "VitrineClassFull",
		Expr: fmt.Sprintf("sum%[1]s(increase(%[2]s[10m])) >= 10\nor min%[1]s(min_over_time(%[3]s[10m])) > 0",
			by, s.of(telemetry.MetricClassRefused), s.of(telemetry.MetricClassQueued)),
		For: "5m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("by-symptom",
			"The concurrency class {{ $labels.class }} of {{ $labels.instance }} is full",
			"It refuses requests, or some have waited for one of its slots at every moment of ten minutes. classes of /debug/requests has its slots and its queue, and the requests say which tools and callers have them."),
	}
}

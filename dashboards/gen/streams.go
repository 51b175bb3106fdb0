package main

import "github.com/vitrine-mcp/vitrine/telemetry"

// listStorm alerts on lists that change all the time. Each change makes every client read the list
// again. Additions are not counted: a server that grows is none.
func listStorm(c *config, s source) rule {
	changes := s.of(telemetry.MetricListChanges, is("change", "replaced", "removed", "policies"))
	return rule{
		Alert: "VitrineListStorm",
		Expr:  "sum by (namespace, job, instance, kind) (increase(" + changes + "[10m])) > 100",
		For:   "5m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("by-symptom",
			"The list of items of kind {{ $labels.kind }} of {{ $labels.instance }} changes all the time",
			"{{ $value | humanize }} changes in ten minutes. /debug/requests names the items, or the policies, and the code that changes them (registrations), and so does the log: registration.storm."),
	}
}

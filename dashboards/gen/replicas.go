package main

import "github.com/vitrine-mcp/vitrine/telemetry"

// replicas returns the alerts about replicas and the store that they share, and what these alerts need.
func replicas(c *config, s source) []rule {
	return []rule{known(s), down(c, s), replicaDown(c, s), storeAway(c, s), storeRefuses(c, s), storeFailing(c, s), storeEvicts(c, s), tasksLost(c, s), tasksUnstored(c, s), streamsFenced(c, s)}
}

// recordKnown has a series for each namespace and job of which a server can be scraped, or could be before an outage
// that still goes on. The new targets of an orchestrator may never have been scraped, so servers do not tell this.
const recordKnown = "vitrine:service:known"

// byJob aggregates by service.
const byJob = "max by (namespace, job) "

// lately are the services that were known within a day. While their targets cannot be scraped they stay known.
func lately(s source) string {
	return byJob + "(last_over_time(" + s.recorded(recordKnown) + "[1d]))"
}

// unscraped are the services with a target that cannot be scraped. A service that is not wanted any more has no targets.
func unscraped(s source) string {
	return "and on (namespace, job) " + s.plain("up") + " == 0"
}

// known records the services that are known, so that an alert about an outage does not end before the outage.
func known(s source) rule {
	return rule{Record: recordKnown, Expr: byJob + "(" + s.of(telemetry.MetricBuildInfo) + ")\n  or " + lately(s) + " " + unscraped(s)}
}

// down alerts on a service of which no server can be scraped.
func down(c *config, s source) rule {
	return rule{
		Alert: "VitrineDown",
		Expr:  lately(s) + "\n  unless on (namespace, job) " + s.of(telemetry.MetricBuildInfo) + "\n  " + unscraped(s),
		For:   "1m", Labels: map[string]string{"severity": page},
		Annotations: c.annotations("18-a-replica-was-lost",
			"No server of {{ $labels.job }} can be scraped",
			"They have ended, or their admin listeners cannot be reached. What started them, and the ends of their logs, say which."),
	}
}

// replicaDown alerts on targets that cannot be scraped while servers of their service can. A server that was stopped for
// good is no target any more, or should not be. A new one has some minutes to start.
func replicaDown(c *config, s source) rule {
	return rule{
		Alert: "VitrineReplicaDown",
		Expr: "max by (namespace, job, instance) (" + s.plain("up") + ") == 0\n" +
			"  and on (namespace, job) " + s.of(telemetry.MetricBuildInfo),
		For: "5m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("18-a-replica-was-lost",
			"{{ $labels.instance }}, a server of {{ $labels.job }}, cannot be scraped, and others can",
			"It has never served, has ended, hangs or is stopped, or its admin listener cannot be reached. The error of the scrape (/api/v1/targets) and the end of its log say which."),
	}
}

// storeAway alerts on replicas whose store does not answer: what arrives at the wrong one has no effect.
func storeAway(c *config, s source) rule {
	return rule{
		Alert: "VitrineStoreAway",
		Expr:  "max by (namespace, job, instance) (" + s.of(telemetry.MetricStoreAway) + ") > 60",
		For:   "1m", Labels: map[string]string{"severity": page},
		Annotations: c.annotations("19-one-replica-is-cut-off-from-the-store",
			"The store of {{ $labels.instance }} has not answered it for {{ $value | humanizeDuration }}",
			"Calls go on, but not those that become tasks, nor requests about tasks. Cancellations, answers to questions, deleted sessions and changes that arrive at another replica have no effect there: docs/replicas.md. The log has the error: store.away."),
	}
}

// storeRefuses alerts on operations that a store refuses, which is an answer: it does not count as away, and no outage is
// among them.
func storeRefuses(c *config, s source) rule {
	refused := "sum by (namespace, job, instance, operation) (increase(" + s.of(telemetry.MetricStoreOperations, is("outcome", "refused")) + "[5m]))"
	return rule{
		Alert: "VitrineStoreRefuses",
		Expr: refused + "\n" +
			"  / sum by (namespace, job, instance, operation) (increase(" + s.of(telemetry.MetricStoreOperations, isNot("outcome", "skipped")) + "[5m])) > 0.5\n" +
			"and " + refused + " >= 3",
		For: "2m", Labels: map[string]string{"severity": page},
		Annotations: c.annotations("21-the-store-refuses-some-operations",
			"The store of {{ $labels.instance }} refuses {{ $value | humanizePercentage }} of the operations {{ $labels.operation }}",
			"It is full, only reads, or lacks a right for the user of the servers. Tasks, streams that can be resumed, or what is for other replicas fail: docs/replicas.md. The log has the error: store.failing."),
	}
}

// storeFailing alerts on operations that a store fails while it answers others. It does not count as away then, or only
// for a moment at a time. The alert waits for longer than the window, so that an outage that is over is not among them.
func storeFailing(c *config, s source) rule {
	failed := "sum by (namespace, job, instance, operation) (increase(" + s.of(telemetry.MetricStoreOperations, is("outcome", "failed", "timed_out")) + "[5m]))"
	return rule{
		Alert: "VitrineStoreFailing",
		Expr: failed + "\n" +
			"  / sum by (namespace, job, instance, operation) (increase(" + s.of(telemetry.MetricStoreOperations, isNot("outcome", "skipped")) + "[5m])) > 0.5\n" +
			"and " + failed + " >= 3\n" +
			"unless on (namespace, job, instance) " + s.of(telemetry.MetricStoreAway) + " > 60",
		For: "7m", Labels: map[string]string{"severity": page},
		Annotations: c.annotations("21-the-store-refuses-some-operations",
			"{{ $value | humanizePercentage }} of the operations {{ $labels.operation }} of the store of {{ $labels.instance }} fail, and others do not",
			"They take too long, or the store cannot do them. Tasks, streams that can be resumed, or what is for other replicas fail: docs/replicas.md. The log has the error: store.failing."),
	}
}

// storeEvicts alerts on a store that may delete values before their end. Another server may have taken over, which does
// not have the policy of the first one.
func storeEvicts(c *config, s source) rule {
	return rule{
		Alert: "VitrineStoreEvicts",
		Expr:  "max by (namespace, job) (" + s.of(telemetry.MetricStoreEvicts) + ") > 0",
		For:   "1m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("by-symptom",
			"The store of {{ $labels.job }} may delete values before their end",
			"Sessions that have ended may live again, and tasks may be lost: its maxmemory-policy must be noeviction. A new replica does not start. The log has the policy: store.evicts."),
	}
}

// tasksLost alerts on tasks that have failed because the replica that ran them was lost. A replica that is
// drained ends its tasks itself, so that a rollout loses none.
func tasksLost(c *config, s source) rule {
	return rule{
		Alert: "VitrineTasksLost",
		Expr:  "sum by (namespace, job) (increase(" + s.of(telemetry.MetricTasksLost) + "[10m])) > 0",
		For:   "1m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("18-a-replica-was-lost",
			"A replica of {{ $labels.job }} was lost or cut off from the store, and the tasks that it ran have failed",
			"About {{ $value | humanize }} in ten minutes. The log has the replica, the tools and the clients: task.lost."),
	}
}

// tasksUnstored alerts on tasks whose results no store has. One whose client comes too late, or whose handler returns
// after its end, is not among them.
func tasksUnstored(c *config, s source) rule {
	return rule{
		Alert: "VitrineTasksUnstored",
		Expr:  "sum by (namespace, job) (increase(" + s.of(telemetry.MetricTasksUnstored) + "[10m])) > 0",
		For:   "1m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("20-the-store-has-lost-values",
			"Results of tasks of {{ $labels.job }} are lost, because their store has lost the tasks or has failed",
			"About {{ $value | humanize }} in ten minutes. The log has the tools, the clients and the errors: task.store."),
	}
}

// streamsFenced alerts on streams that cannot be resumed, because the store has refused an event of them.
func streamsFenced(c *config, s source) rule {
	return rule{
		Alert: "VitrineStreamsFenced",
		Expr:  "sum by (namespace, job) (increase(" + s.of(telemetry.MetricEventsFenced) + "[10m])) > 0",
		For:   "1m", Labels: map[string]string{"severity": ticket},
		Annotations: c.annotations("20-the-store-has-lost-values",
			"Clients of {{ $labels.job }} cannot resume their streams",
			"About {{ $value | humanize }} streams in ten minutes: the store has lost events, or another replica has ended the streams. The log says which: events.fenced."),
	}
}

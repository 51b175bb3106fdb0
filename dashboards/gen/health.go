package main

import "github.com/vitrine-mcp/vitrine/telemetry"

// health is the dashboard about the process and its telemetry.
func (b board) health() sheet {
	return sheet{
		"health", "runtime and telemetry",
		"Is the process well, and is what the other dashboards show complete?",
		[]row{{"Runtime", b.runtime()}, {"Telemetry", b.telemetry()}, {"Audit", b.audit()}, {"Replicas", b.replicas()}},
	}
}

func (b board) runtime() []panel {
	each := func(expr string) target { return query(expr, "{{instance}}") }
	return []panel{
		graph("Goroutines", "If they grow and requests do not, something leaks.", "none", rising(10000, 100000), each(b.plain("go_goroutines"))),
		graph("CPU", "Cores in use.", "none", never(), each("rate("+b.plain("process_cpu_seconds_total")+"[$__rate_interval])")),
		graph("Memory", "Resident memory of the process, and the heap in use.", "bytes", never(),
			query(b.plain("process_resident_memory_bytes"), "{{instance}} resident"), query(b.plain("go_memstats_heap_inuse_bytes"), "{{instance}} heap")),
		graph("Memory of the limits", "What each part of the memory takes, and what all of them may take. docs/limits.md has the sum.", "bytes", never(),
			query(b.now("part", telemetry.MetricMemoryHeld), "{{part}}"), query("sum("+b.of(telemetry.MetricMemoryBound)+")", "all may take")),
		graph("Allocation", "Bytes a second that are allocated on the heap.", "Bps", never(), each("rate("+b.plain("go_memstats_alloc_bytes_total")+"[$__rate_interval])")),
		graph("Longest pause of the collector", "Of the garbage collections in memory of the runtime.", "s", rising(0.01, 0.1),
			each(b.plain("go_gc_duration_seconds", is("quantile", "1", "1.0")))),
		graph("File descriptors in use", "Of those that the process may open. Each connection takes one.", percent, rising(0.7, 0.9),
			each(b.plain("process_open_fds")+" / "+b.plain("process_max_fds"))),
		graph("Readiness", "Changes of /readyz, by the new state and the check that is to blame. Many of them are a check that comes and goes.", "ops", never(),
			query(b.rate("state, check", telemetry.MetricReadinessChanges), "{{state}} {{check}}")),
		graph("Age of the process", "Where it falls, the process was restarted.", "s", never(), each("time() - "+b.plain("process_start_time_seconds"))),
		list("Builds", "What is running. More than one revision is a release that is rolled out.", "none", never(),
			latest("count by (instance, version, revision, goversion) ("+b.of(telemetry.MetricBuildInfo)+")", "")).wide(16),
	}
}

func (b board) telemetry() []panel {
	return []panel{
		graph("Spans exported", "Spans a second that their exporter has taken. None, if nothing is exported.", "ops", never(),
			query(b.rate("instance", telemetry.MetricSpansExported), "{{instance}}")),
		graph("Spans lost", "By reason: export_failed, or queue_full because exports take too long. VitrineSpansLost fires above nothing.", "ops", above(0.001),
			query(b.rate("reason", telemetry.MetricSpansDropped), "{{reason}}")),
		graph("Spans queued", "Spans that wait for their export.", "none", rising(1024, 2048), query(b.now("instance", telemetry.MetricSpansQueued), "{{instance}}")),
		graph("Log records", "Log records a second that their exporter has taken, and those that were lost, by reason. They are on standard error all the same.", "ops", never(),
			query(b.rate("", telemetry.MetricLogRecordsExported), "exported"), query(b.rate("reason", telemetry.MetricLogRecordsDropped), "lost: {{reason}}")),
		graph("Log records queued", "Log records that wait for their export.", "none", rising(1024, 2048), query(b.now("instance", telemetry.MetricLogRecordsQueued), "{{instance}}")),
		graph("Failed exports", "By signal.", "ops", above(0.001), query(b.rate("signal", telemetry.MetricExportFailures), "{{signal}}")),
		graph("Failed scrapes", "Scrapes that were refused, could not be gathered, or were not read to their end.", "ops", above(0.001),
			query(b.rate("reason", telemetry.MetricScrapeFailures), "{{reason}}")),
		graph("Panics in telemetry", "Panics in the code that observes requests. They are contained, and a bug.", "ops", above(0.001),
			query(b.rate("", telemetry.MetricPanics), "panics")),
		graph("Ring of recent requests", "Ended requests that /debug/traces has let go of, by class.", "ops", never(),
			query(b.rate("class", telemetry.MetricTracesEvicted), "{{class}}"), query(b.rate("limit", telemetry.MetricTraceSpansLeftOut), "spans: {{limit}}")),
		graph("History of changes", "Memory of the history that /debug/changes looks at, how far back it reaches, and requests a second whose callers it does not keep apart.", "none", never(),
			query(b.now("", telemetry.MetricChangesBytes), "bytes"), query(b.now("", telemetry.MetricChangesAge), "seconds"),
			query(b.now("", telemetry.MetricChangesKeys), "keys"), query(b.rate("", telemetry.MetricChangesMerged), "merged")),
		graph("Flight recorder", "Snapshots that were taken, and reasons for one that were passed over.", "ops", never(),
			query(b.rate("reason", telemetry.MetricFlightSnapshots), "taken: {{reason}}"), query(b.rate("reason", telemetry.MetricFlightTriggersDropped), "passed over: {{reason}}")),
		graph("Consoles", "Open consoles, and what they missed or were refused in a second.", "none", never(),
			query(b.now("", telemetry.MetricLiveListeners), "open"), query(b.rate("", telemetry.MetricLiveFramesSkipped), "frames skipped"), query(b.rate("", telemetry.MetricLiveRefused), "refused")),
	}
}

func (b board) audit() []panel {
	return []panel{
		graph("Records", "Records a second that the sinks of the audit have taken.", "ops", never(), query(b.rate("sink", telemetry.MetricAuditRecords), "{{sink}}")),
		graph("Records lost", "By reason. VitrineAuditLost fires above nothing.", "ops", above(0.001),
			query(b.rate("sink, reason", telemetry.MetricAuditLost), "{{sink}}: {{reason}}")),
		graph("Records that wait", "In the queue of each sink, and how long a sink has taken none of them. VitrineAuditStalled fires above a minute.", "none", rising(8192, 16384),
			query(b.now("sink", telemetry.MetricAuditQueued), "{{sink}}"), query(b.now("sink", telemetry.MetricAuditStalled), "{{sink}}: seconds without a write")),
		graph("Bytes that wait", "About what the records in the queues take.", "bytes", rising(16<<20, 24<<20), query(b.now("sink", telemetry.MetricAuditQueuedBytes), "{{sink}}")),
		graph("Failed writes", "They are tried again.", "ops", above(0.001), query(b.rate("sink", telemetry.MetricAuditFailures), "{{sink}}")),
		graph("Last record of the chain", "It only rises. Where it falls, a chain was begun anew, or lines were cut off while the process did not run.", "none", never(),
			query(b.now("instance, sink", telemetry.MetricAuditHead), "{{instance}} {{sink}}")),
	}
}

// replicas is about what the replicas share. Without a store all of it is 0.
func (b board) replicas() []panel {
	return []panel{
		graph("Store", "Operations a second of the store that replicas share, by what became of them. A plain call needs none.", "ops", never(),
			query(b.rate("operation, outcome", telemetry.MetricStoreOperations), "{{operation}}: {{outcome}}")),
		graph("Time of an operation", "The mean. VitrineStoreAway fires when the store has not answered for a minute.", "s", rising(0.05, 0.2),
			query(b.rate("operation", telemetry.MetricStoreTime)+" / ("+b.rate("operation", telemetry.MetricStoreOperations, isNot("outcome", "skipped"))+" > 0)", "{{operation}}"),
			query(b.now("instance", telemetry.MetricStoreAway), "{{instance}}: seconds away")),
		graph("Store that evicts", "It is 1 where the server of the store may delete values before their end: its maxmemory-policy must be noeviction. Sessions that have ended may live again.", "none", above(0.5),
			query(b.now("instance", telemetry.MetricStoreEvicts), "{{instance}}")),
		graph("Signals", "Signals to and from other replicas: unknown ones are about what is not here, because all replicas hear of cancellations.", "ops", never(),
			query(b.rate("outcome", telemetry.MetricSignals), "{{outcome}}"), query(b.rate("", telemetry.MetricSignalsMissed), "connections lost")),
		graph("Lost tasks", "Tasks a second that a replica has ended because the one that ran them has not renewed its lease: they have failed with replica_lost, and VitrineTasksLost fires above nothing. Those of restartable tools begin again. Of results that were not stored the store has lost the task, or has failed: VitrineTasksUnstored.", "ops", above(0.001),
			query(b.rate("", telemetry.MetricTasksLost), "ended for lost replicas"), query(b.rate("", telemetry.MetricTasksTakenOver), "begun again"),
			query(b.rate("", telemetry.MetricTasksFenced), "late ends refused"), query(b.rate("", telemetry.MetricTasksUnstored), "results not stored")),
		graph("Refused events", "Events that the store has refused, because it has lost the one before, or another replica has ended the stream. The stream goes on and cannot be resumed.", "ops", never(),
			query(b.rate("instance", telemetry.MetricEventsFenced), "{{instance}}")),
		graph("Rate limits decided alone", "Messages a second about which a replica has decided by its own buckets, because the store did not answer. Callers may then have the rate at each replica.", "ops", above(0.001),
			query(b.rate("limit", telemetry.MetricRateLimitLocal), "{{limit}}")),
	}
}

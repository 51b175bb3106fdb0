package telemetry

import (
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// replicaMetrics are metrics of what a server shares with other replicas. Without a store they are 0.
func replicaMetrics() []*row {
	operation := func() Label { return closed("operation", "vitrine.store.operation", session.StoreOperations()) }
	return []*row{
		counter(MetricStoreOperations, "vitrine.store.operations", "{operation}",
			"Operations of the store that replicas share, by what became of them.",
			operation(), closed("outcome", "vitrine.store.outcome", session.StoreOutcomes())).
			from(readStore(func(s *state.Store, r reading) {
				for _, op := range session.StoreOperations() {
					for _, outcome := range session.StoreOutcomes() {
						r.with(op, outcome).add(s.Operations[op][outcome])
					}
				}
			})),
		counter(MetricStoreTime, "vitrine.store.operation", "s",
			"How long all operations of the store together took that were made.", operation()).
			from(readStore(func(s *state.Store, r reading) {
				for _, op := range session.StoreOperations() {
					r.with(op).addTime(s.Took[op])
				}
			})),
		counter(MetricSignals, "vitrine.signals", "{signal}",
			"Signals to and from other replicas.", closed("outcome", "vitrine.signal.outcome", session.SignalOutcomes())).
			from(readStore(func(s *state.Store, r reading) {
				for _, outcome := range session.SignalOutcomes() {
					r.with(outcome).add(s.Signals[outcome])
				}
			})),
		counter(MetricSignalsMissed, "vitrine.signals.missed", "{time}",
			"How often signals of other replicas may have been missed, because the connection to the store was lost.").
			from(readStore(func(s *state.Store, r reading) { r.add(s.Missed) })),
		counter(MetricTasksLost, "vitrine.tasks.lost", "{task}",
			"Tasks that this replica has ended because the one that ran them was lost.").
			from(readStore(func(s *state.Store, r reading) { r.add(s.TasksLost) })),
		counter(MetricTasksTakenOver, "vitrine.tasks.taken_over", "{task}",
			"Tasks that this replica has begun again because the one that ran them was lost.").
			from(readStore(func(s *state.Store, r reading) { r.add(s.TasksTakenOver) })),
		counter(MetricTasksFenced, "vitrine.tasks.fenced", "{task}",
			"Ends of tasks that were refused because another replica had begun the tasks again.").
			from(readStore(func(s *state.Store, r reading) { r.add(s.TasksFenced) })),
		counter(MetricEventsFenced, "vitrine.events.fenced", "{event}",
			"Events that the store has refused, because it does not have the one before, or another writer has ended the stream.").
			from(readStore(func(s *state.Store, r reading) { r.add(s.Fenced) })),
		gauge(MetricStoreAway, "vitrine.store.away", "s",
			"For how long the store that replicas share has not answered; 0 if it does.").
			from(func(s *Snapshot, r reading) {
				if s.Store != nil && !s.Store.Away.IsZero() {
					r.max(s.At.Sub(s.Store.Away).Seconds())
				} else if s.Store != nil {
					r.max(0)
				}
			}),
		gauge(MetricStoreEvicts, "vitrine.store.evicts", "1",
			"1 if the store that replicas share may delete values before their end, because of its eviction policy.").
			from(readStore(func(s *state.Store, r reading) {
				if s.Evicts {
					r.max(1)
				} else {
					r.max(0)
				}
			})),
	}
}

// readStore returns a function that reads what there is of a store.
func readStore(read func(*state.Store, reading)) func(*Snapshot, reading) {
	return func(s *Snapshot, r reading) {
		if s.Store != nil {
			read(s.Store, r)
		}
	}
}

package server_test

import (
	"slices"
	"time"
)

// This file has the outages of replicas: when each of them was without the store, or dead.

// A modelOutage is a time in which a replica does not reach the store. That of a replica that was killed does not end.
type modelOutage struct {
	from, to time.Time // to is zero while it lasts
	fault    modelFault
	// bare says that the lease of the replica may have been gone before.
	bare bool
}

// lasts reports whether it has not ended before a time.
func (o modelOutage) lasts(at time.Time) bool { return o.to.IsZero() || !o.to.Before(at) }

// loseStore notes that an outage begins.
func (r *modelReplica) loseStore(w *modelWorld, fault modelFault) {
	if _, gone := r.goneSince(); gone {
		return // one that was cut off is killed
	}
	r.haveStore()
	now := time.Now()
	bare := r.without(now.Add(-recovery)) || now.Sub(w.emptied) < 10*time.Second
	r.outages = append(r.outages, modelOutage{from: now, fault: fault, bare: bare})
}

// haveStore notes that it has ended.
func (r *modelReplica) haveStore() {
	if n := len(r.outages); n > 0 && r.outages[n-1].to.IsZero() {
		r.outages[n-1].to = time.Now()
	}
}

// without reports whether a replica was without the store at any time since from.
func (r *modelReplica) without(from time.Time) bool {
	return slices.ContainsFunc(r.outages, func(o modelOutage) bool { return o.lasts(from) })
}

// settled reports whether a replica has had the store since a time, and had heard then what it had missed.
func (r *modelReplica) settled(since time.Time) bool { return !r.without(since.Add(-recovery)) }

// goneSince returns since when a replica has had no lease that it could renew; false if it may have one.
func (r *modelReplica) goneSince() (since time.Time, gone bool) {
	if len(r.outages) == 0 {
		return since, false
	}
	o := r.outages[len(r.outages)-1]
	return o.from, o.to.IsZero() && o.fault != unanswered
}

// lost reports whether a replica may count as lost at some time after one time and not after another one.
func (r *modelReplica) lost(after, until time.Time) bool {
	return slices.ContainsFunc(r.outages, func(o modelOutage) bool {
		// "A replica that runs tasks has a lease in the store, for 15 s, which it renews every 5 s. … If the lease is gone, it
		// looks again 15 s later."
		least := 25 * time.Second
		if o.bare {
			least = 10 * time.Second
		}
		// "the replicas that still run renew theirs within 11 s"
		return !until.Before(o.from.Add(least)) && o.lasts(after.Add(-12*time.Second))
	})
}

// anyVictim returns a replica for which something goes wrong, often one that runs a task.
func (w *modelWorld) anyVictim() *modelReplica {
	if open := w.openTasks(); len(open) > 0 && w.random.IntN(2) == 0 {
		if r := pick(w, open).lastRun().at; !r.killed {
			return r
		}
	}
	return w.anyReplica()
}

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
	gone     time.Time // when the lease of the replica has lapsed, at the earliest
	first    time.Time // when the first outage began after which it has not renewed its lease
}

// lasts reports whether it has not ended before a time.
func (o modelOutage) lasts(at time.Time) bool { return o.to.IsZero() || !o.to.Before(at) }

// renewal is how long a replica may take after an outage until it has its lease: "the replicas that still run renew theirs within 11 s".
const renewal = 12 * time.Second

// loseStore notes that an outage begins.
func (r *modelReplica) loseStore(w *modelWorld, fault modelFault) {
	if _, gone := r.goneSince(); gone {
		return // one that was cut off is killed
	}
	r.haveStore()
	now := time.Now()
	gone := now.Add(10 * time.Second) // "a lease in the store, for 15 s, which it renews every 5 s"
	first := now
	if n := len(r.outages); n > 0 && r.outages[n-1].lasts(now.Add(-renewal)) {
		gone, first = r.outages[n-1].gone, r.outages[n-1].first
	}
	if first.Sub(w.emptied) < 10*time.Second && w.emptied.Before(gone) {
		gone = w.emptied
	}
	r.outages = append(r.outages, modelOutage{from: now, fault: fault, gone: gone, first: first})
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

// lost reports whether one of some others may have found a replica lost at some time after one time and not after another
// one: "If the lease is gone, it looks again 15 s later."
func (r *modelReplica) lost(after, until time.Time, finders ...*modelReplica) bool {
	return slices.ContainsFunc(r.outages, func(o modelOutage) bool {
		last := until
		if end := o.to.Add(renewal); !o.to.IsZero() && end.Before(last) {
			last = end
		}
		return last.After(after) && slices.ContainsFunc(finders, func(f *modelReplica) bool { return f != r && f.looked(o.gone, last.Add(-15*time.Second)) })
	})
}

// looked reports whether a replica may have asked the store for something between two times.
func (r *modelReplica) looked(from, to time.Time) bool {
	return !from.After(to) && !slices.ContainsFunc(r.outages, func(o modelOutage) bool { return o.from.Before(from) && o.lasts(to) })
}

// foundLost reports whether another replica may have found it lost at a time: the other one has looked 15 s before, too.
func (r *modelReplica) foundLost(by *modelReplica, at time.Time) bool {
	first := at.Add(-15 * time.Second)
	return r.lost(at.Add(-1), at, by) && by.looked(first.Add(-time.Second), first)
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

// loseStoreEverywhere has the store be away from all replicas, until it is back at all of them.
func (w *modelWorld) loseStoreEverywhere() bool {
	w.rest()
	if w.calm || w.storeAway {
		return false
	}
	w.storeAway = true
	fault := pick(w, []modelFault{refuses, hangs, unanswered})
	for _, r := range w.alive() {
		if !r.cut {
			w.cutOffReplica(r, fault)
		}
	}
	return true
}

// healAll gives the store back to all replicas.
func (w *modelWorld) healAll() {
	w.storeAway = false
	for _, r := range w.alive() {
		if r.cut {
			w.note("heal %s", r.name)
			w.healReplica(r)
		}
	}
}

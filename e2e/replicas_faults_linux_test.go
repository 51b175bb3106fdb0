package e2e

import (
	"flag"
	"syscall"
	"testing"
	"time"
)

var faultsFor = flag.Duration("faults", 0, "how long TestReplicasThroughFaults goes on; 0 is once through its table")

// A fault is what goes wrong while clients work. While the store is away, clients begin no questions, streams and
// tasks. Those that are under way may be lost in the ways that docs/replicas.md has in a table.
type fault struct {
	name string
	away bool // the store is away, of a server at least
	kill bool // it kills the first server
	stop bool // it stops the second server for a while
	// deaf is how many servers, from the last one, do not hear each other until they have subscribed again.
	deaf int
	do   func(t *testing.T, f *fleet, lasts time.Duration)
}

// faults are in groups, each of which has a fleet of its own.
var faults = map[string][]fault{
	"servers": {
		{name: "SIGTERM", do: func(t *testing.T, f *fleet, lasts time.Duration) {
			f.end(t, 0)
			time.Sleep(lasts)
			f.replace(t, 0)
		}},
		{name: "SIGSTOP", stop: true, do: func(t *testing.T, f *fleet, lasts time.Duration) {
			s := f.servers[1]
			during(lasts, func() { s.signal(t, syscall.SIGSTOP) }, func() { s.signal(t, syscall.SIGCONT) })
		}},
		{name: "rolling restart with another key", do: func(t *testing.T, f *fleet, _ time.Duration) {
			f.keys = append(f.keys, newStateKey()) // all before stay: there are sessions of each
			f.roll(t)
		}},
		{name: "rolling restart with that key first", do: func(t *testing.T, f *fleet, _ time.Duration) {
			last := len(f.keys) - 1
			f.keys = append(f.keys[last:], f.keys[:last]...)
			f.roll(t)
		}},
	},
	"store": {
		{name: "slow store", do: func(_ *testing.T, f *fleet, lasts time.Duration) {
			for _, store := range f.stores {
				store.Slow(30 * time.Millisecond)
				defer store.Heal()
			}
			time.Sleep(lasts)
		}},
		{name: "store cut off from a server", away: true, deaf: 1, do: func(_ *testing.T, f *fleet, lasts time.Duration) {
			during(lasts, f.stores[2].Cut, f.stores[2].Heal)
		}},
		{name: "silent store", away: true, do: func(_ *testing.T, f *fleet, lasts time.Duration) {
			during(lasts, f.redis.Freeze, f.redis.Thaw)
		}},
		{name: "restarted store", away: true, deaf: 3, do: func(_ *testing.T, f *fleet, lasts time.Duration) {
			during(lasts, f.redis.Stop, f.redis.Start)
		}},
		// Another server knows of sessions that have been deleted before only what the restarted store has kept.
		{name: "SIGTERM after a restart of the store", do: func(t *testing.T, f *fleet, _ time.Duration) {
			f.end(t, 0)
			f.replace(t, 0)
		}},
	},
	"death": {
		{name: "SIGKILL", kill: true, do: func(t *testing.T, f *fleet, lasts time.Duration) {
			f.servers[0].kill(t)
			time.Sleep(lasts)
			f.replace(t, 0)
		}},
	},
}

// Three servers are killed, ended, stopped and replaced, and lose their store, while clients call, ask, listen,
// resume streams and run tasks. No call is lost but those that ran on a server that was killed, and those that need
// the store on one that was stopped. None runs or is answered twice, no session is lost, and no listener misses a
// last change. No other request fails, but at a server that was killed, and for want of the store at one that was
// stopped, or, at any server, of the events that one has not stored. A session that was deleted has ended where that was
// done, and soon at all servers, also at those that have started since.
func TestReplicasThroughFaults(t *testing.T) {
	for name, group := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFleet(t)
			l := newLoad(t, f.front, f.watched)
			l.awaitWork(t, time.Now())
			lasts := 2 * time.Second
			for began := time.Now(); ; lasts = 8 * time.Second {
				for _, fault := range group {
					if f.suffer(t, l, fault, lasts); t.Failed() {
						t.Fatalf("after %s", fault.name)
					}
				}
				if time.Since(began) > *faultsFor {
					break
				}
			}
			l.stop()
			t.Logf("%d servers have done %s", len(f.audits), l.counts())
			for i := range f.servers {
				f.end(t, i)
			}
		})
	}
}

// suffer lets the fleet have a fault while the load works, and then checks what has become of all calls.
func (f *fleet) suffer(t *testing.T, l *load, fault fault, lasts time.Duration) {
	defer l.explain(t)
	if fault.away {
		l.leaveStore(t)
	}
	began, killed, stopped := time.Now(), "", ""
	if fault.kill {
		killed = f.servers[0].address()
	}
	if fault.stop {
		stopped = f.servers[1].address()
	}
	hear := missed(t, f.servers[len(f.servers)-fault.deaf:])
	changed := l.lastChange(t)
	defer func() {
		if t.Failed() {
			l.end() // nobody waits for the rest of what clients are about
		}
		changed.release()
	}()
	fault.do(t, f, lasts)
	ended := time.Now()
	awaitStore(t, f.servers)
	hear()
	if fault.away {
		l.enterStore()
	}
	l.awaitWork(t, ended)
	normal := time.Now()
	changed.await(t)

	l.working.Lock()
	defer l.working.Unlock()
	noted := l.take()
	for _, failure := range noted.failures {
		t.Error(failure)
	}
	calls, requests := f.recorded(t, noted.sent, killed), f.recordedRequests(t, noted.failed, noted.deleted)
	refused, asked := requests.checkFailed(t, noted.sent, noted.failed, killed, stopped), requests.checkDeleted(t, noted.deleted)
	lost := calls.check(t, noted.sent, killed, stopped)
	f.checkEnded(t, noted.deleted)
	if t.Failed() {
		f.logSignals(t)
	}
	for _, call := range noted.sent {
		if call.outage && call.lost != "" {
			f.abandoned++
		}
	}
	f.conserved(t)
	t.Logf("%s: %d calls; lost at a server that was killed or stopped: %v, and other requests: %v; "+
		"%d sessions deleted, %d of them asked for at once where that was done; back to normal %v after the fault, which took %v",
		fault.name, len(noted.sent), lost, refused, len(noted.deleted), asked,
		normal.Sub(ended).Round(time.Millisecond), ended.Sub(began).Round(time.Millisecond))
}

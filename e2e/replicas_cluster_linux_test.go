package e2e

import (
	"fmt"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// sharingCluster starts three servers whose store is a cluster of three masters.
func sharingCluster(t *testing.T, adjusts ...adjust) (all []*server, store *redistest.Cluster) {
	t.Helper()
	store = redistest.StartCluster(t, "e2e/redis", 3)
	return replicas(t, 3, append(adjusts, sealed, withStoreURL(store.URL()))...), store
}

// signals is a name in the slot of the channels.
const signals = "{vitrine:}"

// Replicas share over a cluster all that they share over one server, and what they share is at all of its masters.
func TestReplicasShareACluster(t *testing.T) {
	t.Parallel()
	all, store := sharingCluster(t, sharesAll...)
	shareAll(t, all)
	for _, master := range store.Masters {
		shell := redistest.Dial(t, master.Addr())
		eventually(t, func() error {
			all[0].initialize(t).ask(t, request{id: 1, method: "logging/setLevel", params: object{"level": "error"}})
			if shell.Number("DBSIZE") == 0 {
				return fmt.Errorf("%s has no values", master.Addr())
			}
			return nil
		})
	}
}

// An answer arrives although the replica that has asked for it has just lost its subscription: the other replicas hear
// from the cluster that nobody listens to its channel, and publish the answer again.
func TestAnswerWhileAClusterIsNotListenedTo(t *testing.T) {
	t.Parallel()
	all, store := sharingCluster(t)
	session := all[0].initializeWith(t, object{"elicitation": object{}})
	own := session.listens(t)
	defer own.out.drop()
	calling := session.asks(t, 1)
	published := func() float64 { return all[1].metrics(t).sum("vitrine_store_operations_total", "operation", "publish") }

	shell := redistest.Dial(t, store.Owner(signals).Addr())
	hear := missed(t, all)
	shell.Do("ACL SETUSER default -ssubscribe")
	if n := shell.Number("CLIENT KILL TYPE pubsub"); n != len(all) {
		t.Errorf("%d servers have listened, want %d", n, len(all))
	}
	before := published()
	own.answer(t, all[1])
	eventually(t, func() error {
		if published() == before {
			return fmt.Errorf("the answer was not published")
		}
		return nil
	})
	shell.Do("ACL SETUSER default +ssubscribe")
	hear()
	if a := calling.wait(t); a.text() == "" || a.Error != nil {
		t.Errorf("the call that asked: %d %s", a.status, a.body)
	}
}

// A master of the cluster dies. Plain calls go on, and the store counts as away, because the cluster then serves no values.
// When the master is back, the replicas hear each other and share their work as before.
func TestReplicasWithoutAMasterOfTheirCluster(t *testing.T) {
	t.Parallel()
	all, store := sharingCluster(t)
	session := all[0].initialize(t)
	session.at(all[1]).where(t)
	hear := missed(t, all)
	master := store.Owner(signals)
	impatience := func(ms int) {
		for _, other := range store.Masters {
			if other != master {
				redistest.Dial(t, other.Addr()).Do(fmt.Sprint("CONFIG SET cluster-node-timeout ", ms))
			}
		}
	}
	impatience(2000)
	master.Kill()
	for i, s := range all {
		session.at(s).where(t)
		eventually(t, func() error {
			s.initialize(t).at(all[(i+1)%len(all)]).where(t) // which looks that session up
			if all[(i+1)%len(all)].metrics(t).sum("vitrine_store_away_seconds") == 0 {
				return fmt.Errorf("the store is not away")
			}
			return nil
		})
	}
	master.Start()
	store.AwaitOK()
	impatience(15_000)
	awaitStore(t, all)
	hear()
	shareWork(t, all[0], all[1])
	shareWork(t, all[2], all[0])
}

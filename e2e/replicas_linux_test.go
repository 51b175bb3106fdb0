package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// startStore starts a Redis server with the configuration of deploy/replicas.
func startStore(t *testing.T) *redistest.Server {
	t.Helper()
	conf, err := filepath.Abs("../deploy/replicas/redis.conf")
	if err != nil {
		t.Fatal(err)
	}
	return redistest.Start(t, "e2e/redis", "--include", conf)
}

// storeUser and storePassword are those of the configuration.
const storeUser, storePassword = "vitrine", "vitrine-on-this-machine"

// withStore gives a server the store at an address.
func withStore(addr string) adjust {
	return withStoreURL("redis://" + storeUser + ":" + storePassword + "@" + addr + "/0?")
}

// withStoreURL gives a server the store with a URL, which has a query. Its patience with it is that of a machine on which
// much else runs.
func withStoreURL(url string) adjust {
	timeouts := "&dial_timeout=3s&read_timeout=3s&write_timeout=3s&pool_timeout=3s"
	return func(p *program) {
		p.env = append(p.env, "VITRINE_STORE="+url+timeouts)
		p.args = append(p.args, "--store-timeout", "3s", "--event-timeout", "3s")
	}
}

// sharing starts three servers with one store, which is behind a proxy.
func sharing(t *testing.T, adjusts ...adjust) (all []*server, store *redistest.Proxy) {
	t.Helper()
	store = redistest.StartProxy(t, startStore(t).Addr())
	return replicas(t, 3, append(adjusts, sealed, withStore(store.Addr()))...), store
}

// All clients use all features behind a real balancer that sends each request, each answer to a question and each
// cancel to the replica that comes next.
func TestClientsInTurns(t *testing.T) {
	t.Parallel()
	elsewhere, played := 0.0, 0
	for _, p := range peers() {
		if p.transport != "http" {
			continue
		}
		t.Run(p.library+"/"+p.mode, func(t *testing.T) {
			all, _ := sharing(t)
			driver := command(t, p.library, p.mode, p.transport)
			c := &client{peer: p, name: "e2e-" + p.library, server: inTurns(t, all)}
			driver.args = append(driver.args, c.server.mcp)
			var connected reply
			c.driver, connected = drive(t, driver)
			c.version, c.session = connected.Version, connected.Session
			for _, f := range features {
				t.Run(f.name, func(t *testing.T) { f.check(t, c) })
			}
			for range 2 { // the balancer has taken another number of turns
				checkSampling(t, c)
				checkElicitation(t, c)
			}
			played++
			c.must(t, "end", nil)
			c.exit(t)
			c.server.awaitSubscriptions(t, 0)
			if rep := c.server.settled(t); len(rep.Sessions) > 0 {
				t.Errorf("sessions that are left: %+v", rep.Sessions)
			}
			elsewhere += c.server.metrics(t).sum("vitrine_signals_total", "outcome", "received")
			for _, s := range all {
				if s.metrics(t).sum("vitrine_requests_admitted_total") == 0 {
					t.Errorf("%s has got no request", s.mcp)
				}
			}
		})
	}
	if played > 0 && elsewhere == 0 {
		t.Error("no answer has reached another replica than its own")
	}
}

// The balancer of deploy/replicas sends the requests of one session to all replicas, and to those that are
// left when one has died.
func TestBalancerNeedsNoAffinity(t *testing.T) {
	t.Parallel()
	all, _ := sharing(t)
	front := inTurns(t, all)
	session := front.initialize(t)
	inner := session.place(t).Session
	served := func() map[string]int {
		t.Helper()
		at := map[string]int{}
		for range 12 {
			p := session.place(t)
			if at[p.Replica]++; p.Session != inner || inner == "" {
				t.Errorf("%s serves session %q, and another one %q", p.Replica, p.Session, inner)
			}
		}
		return at
	}
	if at := served(); len(at) != 3 {
		t.Errorf("the session was served by %v, want all three replicas", at)
	}
	all[1].kill(t)
	if at := served(); len(at) != 2 {
		t.Errorf("after one of three has died the session was served by %v", at)
	}
}

// A place is what the tool where says.
type place struct{ Replica, Session string }

// place returns which replica serves a request of the session, and as which session.
func (l *legacySession) place(t *testing.T) (at place) {
	t.Helper()
	a := l.ask(t, call(1, "where", object{}))
	if a.status != http.StatusOK || a.Result == nil {
		t.Fatalf("%s: %d %s", l.mcp, a.status, a.body)
	}
	if err := json.Unmarshal(a.Result.StructuredContent, &at); err != nil {
		t.Fatal(err)
	}
	return at
}

// where returns the replica that serves a request of the session.
func (l *legacySession) where(t *testing.T) (replica string) {
	t.Helper()
	return l.place(t).Replica
}

// What arrives at the wrong replica has its effect at the right one.
func TestReplicasShareASession(t *testing.T) {
	t.Parallel()
	all, _ := sharing(t, sharesAll...)
	shareAll(t, all)
}

// Calls go on while the store is cut off, and a replica that dies takes no session along. When the store
// is back, what was deleted meanwhile has ended for all.
func TestReplicasWithoutTheirStore(t *testing.T) {
	t.Parallel()
	all, store := sharing(t)
	session, deleted := all[0].initialize(t), all[0].initialize(t)
	where := func(l *legacySession) string { return l.where(t) }
	where(deleted.at(all[1]))
	store.Cut()
	for _, s := range all {
		for range 10 {
			where(session.at(s))
			where(s.initialize(t))
		}
	}
	if a := deleted.send(t, http.MethodDelete, deleted.headers(), ""); a.status != http.StatusNoContent {
		t.Fatalf("DELETE: %d %s", a.status, a.body)
	}
	where(deleted.at(all[1])) // which does not know
	for range 10 {            // each of these sessions is looked up
		where(all[1].initialize(t).at(all[0]))
	}
	eventually(t, func() error {
		if all[0].metrics(t).sum("vitrine_store_away_seconds") == 0 {
			return fmt.Errorf("the store is not away")
		}
		return nil
	})
	store.Heal()
	eventually(t, func() error {
		if n := all[0].metrics(t).sum("vitrine_store_away_seconds"); n > 0 {
			return fmt.Errorf("the store has been away for %v s", n)
		}
		if a := deleted.at(all[1]).ask(t, call(2, "where", object{})); a.status != http.StatusNotFound {
			return fmt.Errorf("what was deleted while the store was away: %d", a.status)
		}
		return nil
	})
	first := where(session)
	all[0].kill(t)
	if second := where(session.at(all[2])); second == first {
		t.Errorf("%s serves after its death", first)
	}
}

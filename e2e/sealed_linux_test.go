package e2e

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// legacyPeers returns the clients that have a session over HTTP.
func legacyPeers() (legacy []peer) {
	for _, p := range peers() {
		if p.transport == "http" && !p.modern() {
			legacy = append(legacy, p)
		}
	}
	return legacy
}

// Clients use all features in a session with a sealed id.
func TestClientsInSealedSessions(t *testing.T) {
	for _, p := range legacyPeers() {
		t.Run(p.library, func(t *testing.T) {
			driver := command(t, p.library, p.mode, p.transport)
			t.Parallel()
			c := connectClient(t, driver, p, sealed)
			for _, f := range features {
				t.Run(f.name, func(t *testing.T) { f.check(t, c) })
			}
			checkEnd(t, c)
		})
	}
}

// Any replica serves a session with a sealed id: a balancer need not know where it began.
func TestSealedSessionsNeedNoAffinity(t *testing.T) {
	needs.Long(t, "e2e/nginx")
	needs.Tool(t, "e2e/nginx", "nginx")
	all := replicas(t, 2, sealed)
	front := proxy(t, all, "~^a\\.   mcp_a;", "", "~^b\\.   mcp_b;", "")
	for _, p := range legacyPeers() {
		t.Run(p.library, func(t *testing.T) {
			driver := command(t, p.library, p.mode, p.transport)
			t.Parallel()
			driver.args = append(driver.args, front.mcp)
			c := &client{peer: p, name: "e2e-" + p.library}
			var connected reply
			c.driver, connected = drive(t, driver)
			c.version = connected.Version
			served, sessions := map[string]int{}, map[string]int{}
			for range 6 {
				checkList(t, c)
				checkEcho(t, c)
				for range 2 { // one after the other: nginx takes turns
					var at struct{ Replica, Session string }
					r := c.call(t, "where", object{})
					if err := json.Unmarshal([]byte(r.text()), &at); err != nil {
						t.Fatalf("where: %v: %s", err, r.text())
					}
					served[at.Replica]++
					sessions[at.Session]++
				}
				checkFailures(t, c)
				checkPrompts(t, c)
				checkCompletion(t, c)
				checkPing(t, c)
			}
			if len(served) != 2 || len(sessions) != 1 {
				t.Errorf("served by %v in the sessions %v, want both replicas and one session", served, sessions)
			}
			c.must(t, "end", nil)
			c.exit(t)
		})
	}
}

// A process goes on with the sessions of another one.
func TestSealedSessionIsAdopted(t *testing.T) {
	t.Parallel()
	first := serveHTTP(t, sealed)
	session := first.initialize(t)
	second := serveHTTP(t, sealed)
	a := second.send(t, http.MethodPost, session.headers(), call(2, "where", object{}).inLegacy().frame())
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if n := second.metrics(t).sum("vitrine_sessions_adopted_total"); n != 1 {
		t.Errorf("%v sessions were adopted, want 1", n)
	}
}

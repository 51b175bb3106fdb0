package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A listener is a client that reads the session's own stream, and takes no event stream for its answers.
type listener struct {
	*interrupted
}

// listens opens the session's own stream.
func (l *legacySession) listens(t *testing.T) *listener {
	t.Helper()
	c := &listener{&interrupted{legacySession: l, out: l.openWith(t, http.MethodGet, l.headers(), "")}}
	if c.out.status != http.StatusOK {
		t.Fatalf("GET: %d %s", c.out.status, c.out)
	}
	return c
}

// asks begins a call whose tool asks its user.
func (l *legacySession) asks(t *testing.T, id int) *pending {
	t.Helper()
	header := l.headers()
	header.Set("Accept", "application/json")
	return l.begin(t, header, call(id, "test_elicitation", object{"message": "Who?"}).inLegacy().frame())
}

// answers expects the question of a call on its own stream, answers it at a server, and expects the end of the
// call.
func (c *listener) answers(t *testing.T, calling *pending, at *server) {
	t.Helper()
	c.answer(t, at)
	if a := calling.wait(t); !strings.Contains(a.text(), "action=decline") {
		t.Fatalf("the call that asked: %d %s", a.status, a.body)
	}
}

// answer expects a question on its own stream, and answers it at a server.
func (c *listener) answer(t *testing.T, at *server) {
	t.Helper()
	asked := c.read(t)
	for strings.HasSuffix(asked.Method, "/list_changed") { // of replicas that began later
		asked = c.read(t)
	}
	if asked.Method != "elicitation/create" {
		t.Fatalf("the own stream carries %s", asked)
	}
	c.at(at).tell(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, asked.ID))
}

// A client that reads its own stream is asked there, whichever replicas serve the stream, its calls and its
// answers.
func TestOwnStreamInTurns(t *testing.T) {
	t.Parallel()
	all, _ := sharing(t)
	front := inTurns(t, all)
	client := front.initializeWith(t, object{"elicitation": object{}}).listens(t)
	defer client.out.drop()
	for id := range 12 {
		client.answers(t, client.asks(t, id), front)
	}
	asked := 0
	for _, s := range all {
		if s.metrics(t).sum("vitrine_questions_asked_total") > 0 {
			asked++
		}
		s.settled(t)
	}
	if asked < 2 {
		t.Errorf("%d replicas have asked, want several", asked)
	}
}

// A client whose replica has died is asked on its next stream, at another one. Without a stream, and while the
// store is away, a question fails.
func TestOwnStreamOfALostReplica(t *testing.T) {
	t.Parallel()
	all, store := sharing(t)
	session := all[0].initializeWith(t, object{"elicitation": object{}})
	fails := func(id int) {
		t.Helper()
		if a := session.at(all[1]).asks(t, id).wait(t); !strings.Contains(a.body, `"isError":true`) {
			t.Fatalf("a question without a way to the client: %d %s", a.status, a.body)
		}
	}
	fails(1)
	client := session.listens(t)
	client.answers(t, session.at(all[1]).asks(t, 2), all[2])
	hear := missed(t, all)
	store.Cut()
	eventually(t, func() error {
		fails(3)
		if all[1].metrics(t).sum("vitrine_store_away_seconds") == 0 {
			return fmt.Errorf("the store is not away")
		}
		return nil
	})
	store.Heal()
	for _, s := range all {
		eventually(t, func() error {
			if n := s.metrics(t).sum("vitrine_store_away_seconds"); n > 0 {
				return fmt.Errorf("the store has been away for %v s", n)
			}
			return nil
		})
	}
	hear()
	client.answers(t, session.at(all[1]).asks(t, 4), all[2])
	all[0].kill(t)
	client.out.drained(t)
	client = session.at(all[2]).listens(t)
	defer client.out.drop()
	client.answers(t, session.at(all[1]).asks(t, 5), all[1])
}

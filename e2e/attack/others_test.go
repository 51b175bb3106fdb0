package attack

import (
	"net/http"
	"testing"
)

// others watches what must not change for other callers while something is attacked. They have
// an address and a name of their own: one waits for a call in the modern era, and one for a call
// in its session. The returned function checks that both calls still wait, that the session still
// answers, and that a new caller is served, in both eras.
func (s *target) others(t *testing.T) (undisturbed func()) {
	t.Helper()
	c := s.caller(t, bystanders, "olga")
	c.initialize(t)
	sleep := call{tool: "sleep", arguments: `{"ms":600000}`}
	modern := c.begin(t, sleep.header(), sleep.frame(1, true))
	legacy := c.begin(t, c.sessionHeader(), sleep.frame(1, false))
	s.awaitInFlight(t, "sleep", 2)
	return func() {
		t.Helper()
		echo := call{tool: "echo", arguments: `{"text":"still here"}`}
		if r := c.legacy(t, 2, echo); r.text() != "still here" {
			t.Errorf("the session of another caller: %d %s", r.status, r.body)
		}
		if r := c.modern(t, 1, echo); r.text() != "still here" {
			t.Errorf("a modern call of another caller: %d %s", r.status, r.body)
		}
		fresh := s.caller(t, bystanders, "")
		if s.identify != nil {
			fresh.name = "otto" // everybody must say who they are
		}
		fresh.initialize(t)
		if r := fresh.legacy(t, 1, echo); r.text() != "still here" {
			t.Errorf("a new session: %d %s", r.status, r.body)
		}
		if r := fresh.must(t, http.MethodDelete, fresh.sessionHeader(), ""); r.status != http.StatusNoContent {
			t.Errorf("DELETE of a new session: %d %s", r.status, r.body)
		}
		if !modern.unanswered() || !legacy.unanswered() {
			t.Error("a waiting call of another caller has ended")
		}
		c.notify(t, `"notifications/cancelled","params":{"requestId":1}`)
		modern.cancel()
		if r := legacy.wait(t); r.code() != codeCancelled {
			t.Errorf("the cancelled call of another caller: %d %s", r.status, r.body)
		}
		if r := c.must(t, http.MethodDelete, c.sessionHeader(), ""); r.status != http.StatusNoContent {
			t.Errorf("DELETE of another caller's session: %d %s", r.status, r.body)
		}
	}
}

// Codes of errors.
const (
	codeInvalidParams  = -32602
	codeCancelled      = -32800
	codeHeaderMismatch = -32020
)

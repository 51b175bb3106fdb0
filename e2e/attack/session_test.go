package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A server never takes a session id from a client, and its own cannot be guessed.
func TestSessionIDsCannotBeFixed(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	c := s.caller(t, attacker, "")
	for _, id := range []string{"chosen", strings.Repeat("A", 26), "00000000000000000000000000", "../x", "' OR 1=1"} {
		h := plainHeader()
		h.Set("Mcp-Session-Id", id)
		r := c.must(t, http.MethodPost, h, initializeFrame)
		if got := r.header.Get("Mcp-Session-Id"); got == id || r.status == http.StatusOK && got == "" {
			t.Errorf("initialize with the session %q: %d, session %q", id, r.status, got)
		}
		if r := c.must(t, http.MethodPost, h, call{tool: "echo", arguments: `{"text":"x"}`}.frame(1, false)); r.status != http.StatusNotFound {
			t.Errorf("the session %q exists: %d %s", id, r.status, r.body)
		}
	}
	seen := map[string]bool{}
	for range 200 {
		c.initialize(t)
		if seen[c.session] || len(c.session) < 22 { // 22 letters of base64 have 128 bits
			t.Fatalf("the session id %q is not unguessable", c.session)
		}
		for other := range seen {
			if other[:8] == c.session[:8] {
				t.Fatalf("the session ids %q and %q begin alike", other, c.session)
			}
		}
		seen[c.session] = true
		c.must(t, http.MethodDelete, c.sessionHeader(), "")
	}
	undisturbed()
}

// A stolen session id is worth nothing to another principal: every use looks as if there were no
// such session, and the owner notices nothing.
func TestStolenSessionsAreUnknown(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	ann := s.caller(t, attacker, "ann")
	ann.initialize(t)
	running := ann.begin(t, ann.sessionHeader(), call{tool: "sleep", arguments: `{"ms":600000}`}.frame("deep", false))
	s.awaitInFlight(t, "sleep", 3)
	echo := call{tool: "echo", arguments: `{"text":"mine"}`}
	for _, thief := range []*caller{s.caller(t, attacker, "bob"), s.caller(t, attacker, "")} {
		unknown := thief.must(t, http.MethodPost, withSession("NOSUCHSESSIONNOSUCHSESSION"), echo.frame(1, false))
		for name, use := range map[string]struct{ method, body string }{
			"a call":     {http.MethodPost, echo.frame(1, false)},
			"a cancel":   {http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"deep"}}`},
			"a response": {http.MethodPost, `{"jsonrpc":"2.0","id":1,"result":{}}`},
			"initialize": {http.MethodPost, initializeFrame},
			"a stream":   {http.MethodGet, ""},
			"DELETE":     {http.MethodDelete, ""},
		} {
			r := thief.must(t, use.method, withSession(ann.session), use.body)
			if r.status != http.StatusNotFound || r.Result != nil || r.code() != unknown.code() || r.Error.Message != unknown.Error.Message {
				t.Errorf("%s of %q in the session of another: %d %s; an unknown session: %d %s", name, thief.name, r.status, r.body, unknown.status, unknown.body)
			}
		}
	}
	for name, id := range map[string]string{
		"in small letters": strings.ToLower(ann.session), "cut": ann.session[:len(ann.session)-1], "with more": ann.session + "A",
		"in quotes": `"` + ann.session + `"`, "encoded": "%" + fmt.Sprintf("%x", ann.session[0]) + ann.session[1:], "twice": ann.session + "," + ann.session,
	} {
		if r := ann.must(t, http.MethodPost, withSession(id), echo.frame(1, false)); r.status == http.StatusOK {
			t.Errorf("the id %s is accepted: %s", name, r.body)
		}
	}
	if r := ann.legacy(t, 2, echo); r.text() != "mine" || !running.unanswered() {
		t.Errorf("the owner's session afterwards: %d %s", r.status, r.body)
	}
	ann.must(t, http.MethodDelete, ann.sessionHeader(), "")
	undisturbed()
}

func withSession(id string) http.Header {
	h := plainHeader()
	h.Set("Mcp-Session-Id", id)
	return h
}

// Cancels, answers and resumptions with the ids of another session reach nothing, although the
// ids are those of requests that run.
func TestNothingReachesAnotherSession(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	ann, bob := s.caller(t, attacker, ""), s.caller(t, attacker, "") // not even another principal
	ann.initialize(t)
	bob.initialize(t)
	sleeping := ann.begin(t, ann.sessionHeader(), call{tool: "sleep", arguments: `{"ms":600000}`}.frame(1, false))
	asking := ann.openStream(t, http.MethodPost, ann.sessionHeader(), call{tool: "ask"}.frame(2, false))
	question := asking.next(t)
	if question.Method != "elicitation/create" {
		t.Fatalf("the first event is %+v", question)
	}
	s.awaitInFlight(t, "sleep", 3)

	for _, id := range []string{"1", "2", `"1"`, string(question.ID)} {
		bob.notify(t, `"notifications/cancelled","params":{"requestId":`+id+`}`)
		cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,` + fmt.Sprintf(modernMeta, "") + `}}`
		bob.must(t, http.MethodPost, call{method: "notifications/cancelled"}.header(), cancel)
		for _, answer := range []string{`"result":{"action":"accept","content":{"ok":true}}`, `"error":{"code":1,"message":"no"}`} {
			bob.must(t, http.MethodPost, bob.sessionHeader(), `{"jsonrpc":"2.0","id":`+id+`,`+answer+`}`)
		}
	}
	for _, last := range []string{asking.lastID, asking.lastID + "0", "1", "0", strings.Repeat("9", 30), "-1", "../" + asking.lastID} {
		h := bob.sessionHeader()
		h.Set("Last-Event-Id", last)
		h.Set("Accept", "text/event-stream")
		if r := bob.openStream(t, http.MethodGet, h, ""); r.status == http.StatusOK {
			r.silent(t)
		}
	}
	if !sleeping.unanswered() || !asking.open() {
		t.Error("a request of another session has ended")
	}
	ann.must(t, http.MethodPost, ann.sessionHeader(), `{"jsonrpc":"2.0","id":`+string(question.ID)+`,"result":{"action":"accept","content":{"ok":true}}}`)
	if a := asking.next(t); a.text() != "true" {
		t.Errorf("the owner's answer: %+v", a)
	}
	// An answer twice, and one to a question of nobody, change nothing.
	for _, id := range []string{string(question.ID), "12345", `"x"`} {
		ann.must(t, http.MethodPost, ann.sessionHeader(), `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept"}}`)
	}
	if !sleeping.unanswered() {
		t.Error("a call was ended by a response")
	}
	bob.must(t, http.MethodDelete, bob.sessionHeader(), "")
	if r := ann.legacy(t, 3, call{tool: "echo", arguments: `{"text":"mine"}`}); r.text() != "mine" {
		t.Errorf("after the DELETE of another session: %d %s", r.status, r.body)
	}
	ann.must(t, http.MethodDelete, ann.sessionHeader(), "")
	undisturbed()
}

// A session that its client has ended stays ended, whatever is replayed of it.
func TestEndedSessionsStayEnded(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	ann := s.caller(t, attacker, "ann")
	ann.initialize(t)
	asking := ann.openStream(t, http.MethodPost, ann.sessionHeader(), call{tool: "ask"}.frame(1, false))
	question := asking.next(t)
	if r := ann.must(t, http.MethodDelete, ann.sessionHeader(), ""); r.status != http.StatusNoContent {
		t.Fatalf("DELETE: %d %s", r.status, r.body)
	}
	s.awaitInFlight(t, "ask", 0)
	before := s.admitted(t)
	resume := ann.sessionHeader()
	resume.Set("Last-Event-Id", asking.lastID)
	resume.Set("Accept", "text/event-stream")
	for name, use := range map[string]struct {
		method, body string
		header       http.Header
	}{
		"a call":         {http.MethodPost, echo("x").frame(1, false), ann.sessionHeader()},
		"an answer":      {http.MethodPost, `{"jsonrpc":"2.0","id":` + string(question.ID) + `,"result":{"action":"accept","content":{"ok":true}}}`, ann.sessionHeader()},
		"a cancel":       {http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, ann.sessionHeader()},
		"the handshake":  {http.MethodPost, initializeFrame, ann.sessionHeader()},
		"its end":        {http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized","params":{}}`, ann.sessionHeader()},
		"a stream":       {http.MethodGet, "", ann.sessionHeader()},
		"a resumption":   {http.MethodGet, "", resume},
		"another DELETE": {http.MethodDelete, "", ann.sessionHeader()},
	} {
		if r := ann.must(t, use.method, use.header, use.body); r.status != http.StatusNotFound || r.Result != nil {
			t.Errorf("%s in an ended session: %d %s", name, r.status, r.body)
		}
	}
	if after := s.admitted(t); after != before {
		t.Errorf("%d requests were admitted in an ended session", after-before)
	}
	undisturbed()
}

// A modern request has no session: a cancel by POST, whatever it says, cancels nobody's call.
func TestModernCancelsReachNobody(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	bob := s.caller(t, attacker, "bob")
	for _, id := range []string{"1", `"1"`, "2", "null", "[1]", `{"id":1}`} {
		params, err := json.Marshal(map[string]json.RawMessage{"requestId": json.RawMessage(id)})
		if err != nil {
			t.Fatal(err)
		}
		body := strings.TrimSuffix(string(params), "}") + "," + fmt.Sprintf(modernMeta, "") + "}"
		r := bob.must(t, http.MethodPost, call{method: "notifications/cancelled"}.header(),
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":`+body+`}`)
		if r.status/100 == 5 {
			t.Errorf("%s: %d %s", id, r.status, r.body)
		}
	}
	undisturbed()
}

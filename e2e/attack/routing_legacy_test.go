package attack

import (
	"net/http"
	"testing"
)

// A legacy request with routing headers of the modern era is held to them, and it has one session.
func TestConflictingHeadersOfALegacyRequestAreRefused(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	ann, bob := s.caller(t, attacker, ""), s.caller(t, attacker, "")
	ann.initialize(t)
	bob.initialize(t)
	before := s.admitted(t)
	post := s.rawEcho(1).without("MCP-Protocol-Version").without("Mcp-Method").without("Mcp-Name")
	post.body = call{tool: "echo", arguments: `{"text":"hello"}`}.frame(1, false)
	in := func(session string) string { return "Mcp-Session-Id: " + session }
	for name, raw := range map[string]rawRequest{
		"another method":         post.with(in(ann.session)).with("Mcp-Method: tools/list"),
		"another name":           post.with(in(ann.session)).with("Mcp-Method: tools/call").with("Mcp-Name: paid"),
		"two sessions":           post.with(in(ann.session)).with(in(bob.session)),
		"the same session twice": post.with(in(ann.session)).with(in(ann.session)),
		"sessions in a list":     post.with(in(ann.session + ", " + bob.session)),
		"an unknown one second":  post.with(in(ann.session)).with(in("unknown")),
	} {
		all := s.exchange(t, raw.String())
		if len(all) != 1 || all[0].Result != nil || all[0].status != http.StatusBadRequest && all[0].status != http.StatusNotFound {
			t.Errorf("%s: %+v", name, all)
		}
	}
	if after := s.admitted(t); after != before {
		t.Errorf("%d refused requests were admitted", after-before)
	}
	good := post.with(in(ann.session)).with("Mcp-Method: tools/call").with("Mcp-Name: echo")
	if all := s.exchange(t, good.String()); len(all) != 1 || all[0].text() != "hello" {
		t.Errorf("headers that agree are refused: %+v", all)
	}
	undisturbed()
}

// An era that is turned off is not served, in whatever form its requests come.
func TestErasThatAreTurnedOffAreNotServed(t *testing.T) {
	t.Parallel()
	echo := call{tool: "echo", arguments: `{"text":"hello"}`}
	modern := attacked(t, "--eras", "modern")
	c := modern.caller(t, attacker, "")
	for name, r := range map[string]response{
		"initialize":             c.must(t, http.MethodPost, plainHeader(), initializeFrame),
		"a call without headers": c.must(t, http.MethodPost, plainHeader(), echo.frame(1, false)),
		"a call in a session":    c.must(t, http.MethodPost, withSession("NOSUCHSESSION"), echo.frame(1, false)),
		"a batch":                c.must(t, http.MethodPost, plainHeader(), "["+initializeFrame+"]"),
		"a stream":               c.must(t, http.MethodGet, withSession("NOSUCHSESSION"), ""),
	} {
		if r.Result != nil || r.status/100 != 4 || r.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if r := c.modern(t, 1, echo); r.text() != "hello" {
		t.Errorf("the other era: %d %s", r.status, r.body)
	}
	legacy := attacked(t, "--eras", "legacy")
	c = legacy.caller(t, attacker, "")
	if r := c.modern(t, 1, echo); r.Result != nil || r.status != http.StatusBadRequest {
		t.Errorf("a modern call: %d %s", r.status, r.body)
	}
	c.initialize(t)
	if r := c.legacy(t, 1, echo); r.text() != "hello" {
		t.Errorf("the other era: %d %s", r.status, r.body)
	}
}

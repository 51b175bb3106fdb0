package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The traffic of a server that is well: whatever clients do on an ordinary day, some of
// which looks like trouble if it is taken out of proportion.

// checkSilence runs a query for a server without trouble, which must have no answer. If the query is
// a share, its total must not be zero, or the silence would show nothing.
func (p *prometheus) checkSilence(t *testing.T, well *server, query string) {
	t.Helper()
	itself := map[string]string{well.instance(): thisInstance}
	got, err := p.series(query, itself)
	if err != nil || len(got) > 0 {
		t.Errorf("of a server that is well %s answers %v, %v", query, got, err)
	}
	if !strings.Contains(query, "clamp_min(") || strings.Contains(query, "session_evicted") { // no session was evicted
		return
	}
	share := query[:strings.LastIndex(query, " > ")]
	got, err = p.series(share, itself)
	if err != nil || !slices.ContainsFunc(got, func(s sample) bool { return s.value > 0 }) {
		t.Errorf("a server that is well has nothing of %s: %v, %v", share, got, err)
	}
}

// behave lets a server have an ordinary time.
func behave(t *testing.T, s *server) {
	for i := range 40 { // many, so that errors are a small share
		s.answers(t, call(i, "sleep", object{"ms": 0}))
	}
	for i := range 10 {
		s.answers(t, call(i, "echo", object{"text": "all is well"}))
		s.answers(t, call(i, "big", object{"bytes": 200 + 20*i}))
	}
	var together []*pending
	for i := range 10 {
		r := call(i, "sleep", object{"ms": 50})
		together = append(together, s.begin(t, r.headers(), r.frame()))
	}
	for _, p := range together {
		p.wait(t)
	}
	for range 3 {
		session := s.initialize(t)
		session.visit(t)
		session.close(t)
	}
	s.initialize(t).visit(t) // and is still there at the end
	changeMinds(t, s)
	makeMistakes(t, s)
}

// answers expects a result.
func (s *server) answers(t *testing.T, r request) {
	t.Helper()
	if a := s.post(t, r); a.Result == nil || a.Result.IsError {
		t.Errorf("%s: %d %s", r.frame(), a.status, a.body)
	}
}

// visit uses a session as clients do.
func (l *legacySession) visit(t *testing.T) {
	t.Helper()
	for i, r := range []request{
		{method: "tools/list"}, call(0, "echo", object{"text": "hello"}), call(0, "sleep", object{"ms": 0}), {method: "ping"},
	} {
		r.id = fmt.Sprint("visit ", i)
		if a := l.send(t, http.MethodPost, l.headers(), r.inLegacy().frame()); a.status != http.StatusOK || a.Error != nil {
			t.Errorf("%s: %d %s", r.frame(), a.status, a.body)
		}
	}
}

// close ends a session as clients should.
func (l *legacySession) close(t *testing.T) {
	t.Helper()
	if a := l.send(t, http.MethodDelete, l.headers(), ""); a.status >= 300 {
		t.Errorf("DELETE: %d %s", a.status, a.body)
	}
}

// changeMinds gives calls up in each way that clients have.
func changeMinds(t *testing.T, s *server) {
	r := sleeping("not wanted")
	p := s.begin(t, r.headers(), r.frame())
	s.awaitRunning(t, "sleep")
	p.drop()
	s.settled(t)

	told := s.initialize(t)
	s.begin(t, told.headers(), r.inLegacy().frame())
	s.awaitRunning(t, "sleep")
	told.send(t, http.MethodPost, told.headers(), request{
		method: "notifications/cancelled", legacy: true, params: object{"requestId": r.id, "reason": "the user has stopped it"},
	}.frame())
	s.settled(t)
	told.close(t)

	left := s.initialize(t)
	p = s.begin(t, left.headers(), r.inLegacy().frame())
	s.awaitRunning(t, "sleep")
	p.drop() // a lid was closed
	left.close(t)
	s.settled(t)
}

// makeMistakes makes the mistakes that clients and models make.
func makeMistakes(t *testing.T, s *server) {
	for _, r := range []request{
		call(1, "no_such_tool", object{}),
		{id: 1, method: "no/such"},
		{id: 1, method: "resources/read", params: object{"uri": "test://no-such"}},
	} {
		if a := s.post(t, r); a.Error == nil {
			t.Errorf("%s: %d %s", r.frame(), a.status, a.body)
		}
	}
	for _, r := range []request{
		call(1, "json_schema_2020_12_tool", object{"nam": "x"}),
		call(1, "test_error_handling", object{}),
	} {
		if a := s.post(t, r); a.Result == nil || !a.Result.IsError {
			t.Errorf("%s: %d %s", r.frame(), a.status, a.body)
		}
	}
	// A client that begins with its newest revision, and falls back.
	newer := call(1, "echo", object{"text": "x"}).with("io.modelcontextprotocol/protocolVersion", "2031-01-01")
	h := newer.headers()
	h.Set("MCP-Protocol-Version", "2031-01-01")
	if a := s.send(t, http.MethodPost, h, newer.frame()); a.code() != codeVersion {
		t.Errorf("the revision of tomorrow: %d %s", a.status, a.body)
	}
	if a := s.send(t, http.MethodPost, plainHeaders(), "{"); a.status != http.StatusBadRequest {
		t.Errorf("no JSON: %d %s", a.status, a.body)
	}
	forgotten := &legacySession{server: s, id: "gone"}
	if a := s.send(t, http.MethodPost, forgotten.headers(), request{id: 1, method: "ping", legacy: true}.frame()); a.status != http.StatusNotFound {
		t.Errorf("a session that is gone: %d %s", a.status, a.body)
	}
}

// subscribe opens a subscription, which stays until the test ends.
func subscribe(t *testing.T, s *server) {
	t.Helper()
	r := request{id: "news", method: "subscriptions/listen", params: object{"notifications": object{"toolsListChanged": true}}}
	s.begin(t, r.headers(), r.frame())
	s.awaitSubscriptions(t, 1)
}

package attack

import (
	"net/http"
	"testing"
)

// rateLimits are what the attacked servers of this file allow each address.
const rateLimits = "calls 50/1d per address methods tools/call; connects 20/1d per address methods initialize; " +
	"nudges 10/1d per address methods notifications/progress"

// A caller over its rate limit is refused with the name of the limit and the time after which to
// retry, in both eras, and uses up nothing of the limit of others.
func TestCallersOverARateLimitTakeNothingFromOthers(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--rate-limits", rateLimits)
	undisturbed := s.others(t)
	c := s.caller(t, attacker, "")
	c.initialize(t)
	echo := call{tool: "echo", arguments: `{"text":"x"}`}
	statuses := map[int]int{}
	for i := range 100 {
		send := c.modern
		if i%2 == 1 {
			send = c.legacy
		}
		r := send(t, i, echo)
		statuses[r.status]++
		if r.status == http.StatusTooManyRequests {
			overTheLimit(t, r, "calls")
		}
	}
	if statuses[http.StatusOK] != 50 || statuses[http.StatusTooManyRequests] != 50 {
		t.Errorf("of 100 calls %v; want 50 with the status 200, and 50 with 429", statuses)
	}
	for range 200 { // a session that is refused is no session
		if r := c.must(t, http.MethodPost, plainHeader(), initializeFrame); r.status == http.StatusTooManyRequests {
			overTheLimit(t, r, "connects")
			statuses[-1]++
		}
	}
	if statuses[-1] != 181 {
		t.Errorf("%d handshakes were refused, want 181", statuses[-1])
	}
	for i := range 20 {
		r := c.must(t, http.MethodPost, c.sessionHeader(),
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
		if want := map[bool]int{true: http.StatusAccepted, false: http.StatusTooManyRequests}[i < 10]; r.status != want {
			t.Errorf("notification %d: %d, want %d", i, r.status, want)
		}
	}
	undisturbed()
}

// Each principal has tokens of its own for each tool, whatever others of its address have used up.
func TestPrincipalsHaveTokensForEachTool(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--rate-limits", "each 10/1d per principal,tool methods tools/call")
	undisturbed := s.others(t)
	for _, name := range []string{"bob", "ann"} {
		for _, tool := range []string{"echo", "fail"} {
			c, served := s.caller(t, attacker, name), 0
			for i := range 15 {
				if r := c.modern(t, i, call{tool: tool, arguments: `{"text":"x"}`}); r.Result != nil {
					served++
				} else {
					overTheLimit(t, r, "each")
				}
			}
			if served != 10 {
				t.Errorf("%s was served %d times by %s, want 10", name, served, tool)
			}
		}
	}
	undisturbed()
}

// overTheLimit checks the form of a refusal.
func overTheLimit(t *testing.T, r response, limit string) {
	t.Helper()
	if r.code() != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" {
		t.Fatalf("over the limit: %s, Retry-After %q", r.body, r.header.Get("Retry-After"))
	}
	if data := r.Error.Data; data.Limit != limit || data.Reason != "rate_limited" {
		t.Errorf("over the limit %s the data are %+v", limit, data)
	}
}

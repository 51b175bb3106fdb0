package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// limited starts three servers that share a store and have one rate limit, whose tokens do not come back while a
// test runs.
func limited(t *testing.T, limit string) (all []*server, store *redistest.Proxy) {
	t.Helper()
	return sharing(t, withEnv("VITRINE_RATE_LIMITS=calls "+limit+" methods tools/call"))
}

// logged returns how often a message is in the log.
func (s *server) logged(message string) int {
	return strings.Count(s.stderr.text(), `"`+message+`"`)
}

// passes sends so many calls at the same time, and returns how many pass.
func (s *server) passes(t *testing.T, calls int) (passed int) {
	t.Helper()
	statuses := make([]answer, calls)
	var each sync.WaitGroup
	for i := range statuses {
		each.Go(func() {
			r := call(i+1, "echo", object{"text": "x"})
			statuses[i] = s.send(t, http.MethodPost, r.headers(), r.frame())
		})
	}
	each.Wait()
	for _, a := range statuses {
		switch {
		case a.status == http.StatusOK && a.Result != nil:
			passed++
		case a.status != http.StatusTooManyRequests:
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	return passed
}

// Three replicas behind a balancer share a limit: a small one is exact, and of a large one each may have spent a
// twentieth before it hears that the others have spent the rest.
func TestReplicasShareARateLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit       string
		calls       int
		least, most int
	}{
		{"12/100h", 40, 12, 12},
		{"100/1000h", 300, 100, 115},
	} {
		t.Run(fmt.Sprint(tt.most), func(t *testing.T) {
			t.Parallel()
			all, _ := limited(t, tt.limit)
			if passed := inTurns(t, all).passes(t, tt.calls); passed < tt.least || passed > tt.most {
				t.Errorf("%d calls of %d pass, want %d to %d", passed, tt.calls, tt.least, tt.most)
			}
			for _, s := range all {
				m := s.metrics(t)
				if m.sum("vitrine_rate_limit_messages_total") == 0 { // whose calls pass is a matter of luck
					t.Errorf("%s was asked about no call", s.mcp)
				}
				if n := m.sum("vitrine_rate_limit_local_messages_total"); n > 0 {
					t.Errorf("%s has decided alone about %v calls", s.mcp, n)
				}
			}
		})
	}
}

// While the store is away each replica goes by its own bucket. When it is back they share one again.
func TestRateLimitWithoutTheStore(t *testing.T) {
	t.Parallel()
	all, store := limited(t, "10/100h")
	store.Cut()
	for _, s := range all {
		if passed := s.passes(t, 30); passed != 10 {
			t.Errorf("%d calls pass at one replica while the store is away, want 10", passed)
		}
		if n := s.metrics(t).sum("vitrine_rate_limit_local_messages_total"); n != 30 {
			t.Errorf("%s has decided alone about %v calls, want 30", s.mcp, n)
		}
	}
	store.Heal()
	passed := 0
	for _, s := range all {
		eventually(t, func() error {
			passed += s.passes(t, 1) // the store is asked beside a call
			if s.logged("rates.shared") == 0 {
				return fmt.Errorf("%s has not found the store again", s.mcp)
			}
			return nil
		})
	}
	for _, s := range all {
		passed += s.passes(t, 20)
	}
	if passed != 10 {
		t.Errorf("%d calls pass when the store is back, want the 10 that it has", passed)
	}
	for _, s := range all {
		if local, shared := s.logged("rates.local"), s.logged("rates.shared"); local != 1 || shared != 1 {
			t.Errorf("%s has logged rates.local %d times and rates.shared %d times, want each once", s.mcp, local, shared)
		}
	}
}

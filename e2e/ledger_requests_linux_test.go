package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// maxTold is how many requests that have failed a test tells of.
const maxTold = 10

// checkFailed checks that the plain requests that have failed were allowed to, and returns how many there are, by name. A
// stream of a server that was stopped cannot be resumed if its event was on its way to the store.
func (l *ledger) checkFailed(t *testing.T, calls map[string]*sentCall, failed []failedRequest, killed, stopped string) (allowed map[string]int) {
	t.Helper()
	allowed, bad := map[string]int{}, 0
	for _, r := range failed {
		at, call := l.balanced[r.trace], calls[r.call]
		ofStopped := call != nil && stopped != "" && l.balanced[call.trace].last() == stopped
		if r.mayFail(at.last(), killed, stopped) || ofStopped && r.noEvent() {
			allowed[r.name]++
			continue
		}
		if bad++; bad <= maxTold {
			t.Errorf("%s: %+v", r, at)
		}
	}
	if bad > maxTold {
		t.Errorf("%d more requests have failed", bad-maxTold)
	}
	return allowed
}

// mayFail reports whether a request that has ended at a server was allowed to fail. One that was killed has not
// answered. For one that was stopped an operation of the store has taken too long. Both may be "".
func (r failedRequest) mayFail(at, killed, stopped string) bool {
	switch at {
	case "": // the balancer had no server, or nothing reached it
		return false
	case killed:
		return r.err != nil || r.status == http.StatusBadGateway
	case stopped:
		return r.noStore()
	}
	return r.outage && (r.noStore() || r.noEvent())
}

// noStore reports whether a request has failed because its server has no store.
func (r failedRequest) noStore() bool {
	return r.name == resumes && r.status == http.StatusTooManyRequests || r.name == "tasks/get" && strings.Contains(r.answer, noTaskStore)
}

// noEvent reports whether a stream was not resumed because the store does not have its events.
func (r failedRequest) noEvent() bool {
	return r.name == resumes && r.status == http.StatusBadRequest && strings.Contains(r.answer, "event_unknown")
}

// recordedRequests waits until the balancer has a record of the plain requests that have failed, and of those that are
// about deleted sessions.
func (f *fleet) recordedRequests(t *testing.T, failed []failedRequest, deleted []deletedSession) (l *ledger) {
	t.Helper()
	eventually(t, func() error {
		l = f.readLedger(t)
		for _, r := range failed {
			if _, ok := l.balanced[r.trace]; !ok {
				return fmt.Errorf("not in the log of the balancer: %s", r)
			}
		}
		for _, d := range deleted {
			for _, trace := range []string{d.deleted, d.asked} {
				if _, ok := l.balanced[trace]; !ok {
					return fmt.Errorf("not in the log of the balancer: a request about a deleted session (trace %s)", trace)
				}
			}
		}
		return nil
	})
	return l
}

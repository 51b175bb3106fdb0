package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
)

// A deletedSession is a session that its client has deleted, and has asked in once more right away. What asked there
// may have been another server, which did not know yet: then it was served.
type deletedSession struct {
	headers http.Header
	// deleted and asked are the traces of the two requests.
	deleted, asked string
	served         bool
}

// pinging is a request in a session for which no server needs more than the session.
var pinging = request{id: "ping", method: "ping", legacy: true}

// deleteSession deletes a session, and asks in it once more, at whichever server comes next.
func (l *load) deleteSession(client *http.Client, session http.Header) bool {
	d := deletedSession{headers: session, deleted: newTrace(), asked: newTrace()}
	if _, ok := l.ask(l.ctx, client, plainRequest{
		name: "DELETE", method: http.MethodDelete, headers: session, trace: d.deleted, want: []int{http.StatusNoContent},
	}); !ok {
		return false
	}
	late := plain(session, pinging)
	late.name, late.trace, late.want = "ping after DELETE", d.asked, []int{http.StatusNotFound, http.StatusOK}
	a, ok := l.ask(l.ctx, client, late)
	d.served = ok && a.status == http.StatusOK
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleted = append(l.deleted, d)
	return ok
}

// checkDeleted checks sessions that have been deleted since the last fault: the server that has ended one does not
// serve it any more, from then on. It returns how many were asked for there.
func (l *ledger) checkDeleted(t *testing.T, deleted []deletedSession) (asked int) {
	t.Helper()
	for _, d := range deleted {
		by, at := l.balanced[d.deleted], l.balanced[d.asked]
		if by.last() != at.last() {
			continue
		}
		if asked++; d.served {
			t.Errorf("the server that has ended a session has served it: DELETE %+v, ping %+v", by, at)
		}
	}
	return asked
}

// maxDeleted bounds the deleted sessions that a fleet remembers from one fault to the next.
const maxDeleted = 100

// checkEnded waits until no server knows the deleted sessions any more, those of earlier faults included. It needs the
// store, and that the load pauses.
func (f *fleet) checkEnded(t *testing.T, deleted []deletedSession) {
	t.Helper()
	f.deleted = append(f.deleted, deleted...)
	client := httpClient(t)
	defer client.CloseIdleConnections()
	for _, s := range f.servers {
		for _, d := range f.deleted {
			eventually(t, func() error {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				a, err := s.trySend(ctx, client, http.MethodPost, d.headers, pinging.frame())
				if err == nil && a.status != http.StatusNotFound {
					err = fmt.Errorf("status %d, body %q", a.status, a.body)
				}
				if err != nil {
					return fmt.Errorf("%s knows a session that was deleted (trace %s): %w", s.mcp, d.deleted, err)
				}
				return nil
			})
		}
	}
	rand.Shuffle(len(f.deleted), func(i, j int) { f.deleted[i], f.deleted[j] = f.deleted[j], f.deleted[i] })
	f.deleted = f.deleted[:min(len(f.deleted), maxDeleted)]
}

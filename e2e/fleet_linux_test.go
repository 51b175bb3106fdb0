package e2e

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// A fleet is three servers that share a store, behind a balancer that sends each request to the next one. Each
// server reaches the store through a proxy of its own. Servers are replaced in their places.
type fleet struct {
	redis   *redistest.Server
	stores  []*redistest.Proxy // of the places
	servers []*server          // of the places
	front   *server
	keys    []string // of the servers that start from now on
	watched string   // the file with the content of the resource that clients watch
	audits  []string // the records of all servers that have been started
	records ledger
	ended   storedAnswers // of the servers that have ended
	// abandoned are stored answers that no client can fetch: it has lost its stream in an outage of the store.
	abandoned float64
	deleted   []deletedSession // some of those of earlier faults
}

// newStateKey returns a key for sessions and states.
func newStateKey() string { return base64.StdEncoding.EncodeToString([]byte(randomHex(32))) }

// startFleet starts the servers with the configuration of deploy/replicas.
func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{redis: startStore(t), keys: []string{newStateKey()}, servers: make([]*server, 3)}
	f.watched = filepath.Join(t.TempDir(), "watched")
	for i := range f.servers {
		f.stores = append(f.stores, redistest.StartProxy(t, f.redis.Addr()))
		f.start(t, i, replicaAddress())
	}
	f.front = inTurns(t, f.servers)
	return f
}

// start starts a server in a place. It refuses requests at its end for longer than the balancer keeps a
// connection, and waits until its last figures have been read.
func (f *fleet) start(t *testing.T, i int, addr string) {
	t.Helper()
	record := filepath.Join(t.TempDir(), "audit.jsonl")
	f.audits = append(f.audits, record)
	f.servers[i] = serveHTTP(t,
		// The ledger reads each record once, so that the file must not be rotated.
		withArgs("--addr", addr, "--audit-file", record, "--audit-max-size", "100000", "--refuse-time", "1500ms", "--linger-timeout", "20s"),
		withArgs("--watched-file", f.watched),
		withEnv("VITRINE_STATE_KEYS="+strings.Join(f.keys, ",")),
		withStore(f.stores[i].Addr()))
}

// end ends the server of a place in order, and adds its last figures to those of the servers that have ended.
func (f *fleet) end(t *testing.T, i int) {
	t.Helper()
	s := f.servers[i]
	s.metrics(t) // a server waits for those who have scraped it before
	s.signal(t, syscall.SIGTERM)
	s.stderr.await(t, "record linger.begin", 0, isRecord("linger.begin"))
	m := s.metrics(t)
	s.exited(t, 0)
	f.ended = f.ended.plus(storedAnswersOf(m))
	admitted := m.sum("vitrine_requests_admitted_total")
	known := m.sum("vitrine_responses_sent_total") + m.sum("vitrine_responses_stored_total") + m.sum("vitrine_responses_dropped_total")
	if admitted == 0 || admitted != known {
		t.Errorf("%s has ended with %v admitted requests, and %v whose fate is known", s.mcp, admitted, known)
	}
	left := m.sum("vitrine_responses_expired_total", "reason", "left_in_store")
	if expired := m.sum("vitrine_responses_expired_total"); expired-left > f.abandoned {
		t.Errorf("%s has lost %v stored answers, of which no client could fetch %v, and has left %v for others", s.mcp, expired-left, f.abandoned, left)
	}
}

// replace starts another server in the place of one that has ended, and waits until it is at work.
func (f *fleet) replace(t *testing.T, i int) {
	t.Helper()
	f.start(t, i, f.servers[i].address())
	eventually(t, func() error {
		if f.servers[i].calls(t) < 3 {
			return fmt.Errorf("%s gets no calls", f.servers[i].mcp)
		}
		return nil
	})
}

// roll replaces all servers, one after the other.
func (f *fleet) roll(t *testing.T) {
	t.Helper()
	for i := range f.servers {
		f.end(t, i)
		f.replace(t, i)
	}
}

// missed returns a function that waits until servers have subscribed again, which they count as a time in which they
// may have missed signals.
func missed(t *testing.T, servers []*server) (wait func()) {
	t.Helper()
	count := func(s *server) float64 { return s.metrics(t).sum("vitrine_signals_missed_total") }
	before := map[*server]float64{}
	for _, s := range servers {
		before[s] = count(s)
	}
	return func() {
		t.Helper()
		for _, s := range servers {
			eventually(t, func() error {
				if count(s) == before[s] {
					return fmt.Errorf("%s has not subscribed again", s.mcp)
				}
				return nil
			})
		}
	}
}

// conserved checks, while nothing is in flight, that each server knows what has become of its requests. Each stored
// answer counts once among all servers, where it was stored: as fetched, wherever its client has fetched it, unless that
// has lost its stream.
func (f *fleet) conserved(t *testing.T) {
	t.Helper()
	for _, s := range f.servers {
		s.settled(t)
	}
	eventually(t, func() error { // the signal of an answer that was fetched elsewhere takes a moment
		var now storedAnswers
		for _, s := range f.servers {
			now = now.plus(storedAnswersOf(s.metrics(t)))
		}
		sum := now.plus(f.ended)
		if now.waiting+now.expired > f.abandoned || sum.stored != sum.fetched+sum.expired+sum.waiting {
			return fmt.Errorf("the servers count %+v, and all stored answers but %v were fetched; with those that have ended %+v", now, f.abandoned, sum)
		}
		return nil
	})
}

// during does something for a while.
func during(d time.Duration, begin, end func()) {
	begin()
	time.Sleep(d)
	end()
}

// logSignals logs what each server has made of its signals and of answers: one that was lost may be why a call is.
func (f *fleet) logSignals(t *testing.T) {
	t.Helper()
	for _, s := range f.servers {
		m, signals, ignored := s.metrics(t), map[string]float64{}, map[string]float64{}
		for _, outcome := range []string{"sent", "received", "unknown", "lost"} {
			signals[outcome] = m.sum("vitrine_signals_total", "outcome", outcome)
		}
		for _, reason := range []string{"unknown_id", "duplicate", "late", "wrong_session"} {
			ignored[reason] = m.sum("vitrine_frames_ignored_total", "kind", "response", "reason", reason)
		}
		t.Logf("%s: signals %v, missed %v times; answers that were ignored %v", s.address(), signals, m.sum("vitrine_signals_missed_total"), ignored)
	}
}

package e2e

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// percentage is the share of ordinary traces in the policy of tail sampling.
var percentage = regexp.MustCompile(`sampling_percentage: (\d+)`)

// withPercentage returns a copy of the policy in which only the share differs. It is large enough to
// distinguish it from zero in a test.
func withPercentage(t *testing.T, percent int) string {
	t.Helper()
	policy, err := os.ReadFile(tailSamplingConfig)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(percentage.FindAll(policy, -1)); n != 1 {
		t.Fatalf("%s has %d shares, want one", tailSamplingConfig, n)
	}
	file := filepath.Join(t.TempDir(), "tail-sampling.yaml")
	text := percentage.ReplaceAllString(string(policy), fmt.Sprint("sampling_percentage: ", percent))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// slowness is the duration from which on the policy keeps all traces.
func slowness(t *testing.T) time.Duration {
	t.Helper()
	policy, err := os.ReadFile(tailSamplingConfig)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`threshold_ms: (\d+)`).FindSubmatch(policy)
	if m == nil {
		t.Fatalf("%s has no threshold", tailSamplingConfig)
	}
	ms, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(ms) * time.Millisecond
}

// A mixture sends calls of several kinds, and records their traces.
type mixture struct {
	mu     sync.Mutex
	traces map[string][]string // by kind
}

// traced gives a request a new trace.
func (s *mixture) traced(kind string, r request) request {
	trace, span := randomHex(16), randomHex(8)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traces[kind] = append(s.traces[kind], trace)
	return r.with("traceparent", "00-"+trace+"-"+span+"-01")
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// The kinds of calls. Exactly one part of the policy keeps each kind but the ordinary one: a cancel
// over legacy HTTP has an answer, and a disconnect during the write of the answer cancels nothing.
const (
	kindOrdinary  = "ordinary"
	kindFailed    = "failed"
	kindCancelled = "cancelled"
	kindDropped   = "dropped"
	kindSlow      = "slow"
	nOrdinary     = 400
	nOther        = 30
	nSlow         = 10
	testPercent   = 20
)

// send sends everything and waits until it is over.
func (s *mixture) send(t *testing.T, to *server, slowness time.Duration) {
	for i := range nOrdinary {
		to.post(t, s.traced(kindOrdinary, call(i, "echo", object{"text": "x"})))
	}
	for i := range nOther {
		to.post(t, s.traced(kindFailed, call(i, "test_error_handling", object{})))
	}
	session := to.initialize(t)
	headers := session.headers()
	for i := range nOther {
		r := s.traced(kindCancelled, sleeping(fmt.Sprint("c", i)).inLegacy())
		p := to.begin(t, headers, r.frame())
		to.awaitCount(t, "sleep", 1)
		cancel := request{method: "notifications/cancelled", params: object{"requestId": r.id}, legacy: true}
		to.send(t, http.MethodPost, headers, cancel.frame())
		p.wait(t)
	}
	for i := range nOther {
		resetOnAnswer(t, to, s.traced(kindDropped, much(i)))
	}
	to.settled(t)
	var calls []*pending
	for i := range nSlow {
		r := s.traced(kindSlow, call(i, "sleep", object{"ms": slowness.Milliseconds() + 100}))
		calls = append(calls, to.begin(t, r.headers(), r.frame()))
	}
	for _, p := range calls {
		p.wait(t)
	}
	to.settled(t)
}

// Jaeger runs the policy in deploy. It keeps all traces that may be needed, and about the
// configured share of the others.
func TestTailSamplingKeepsTracesOfTrouble(t *testing.T) {
	jaegerProgram(t)
	t.Parallel()
	j := storeTraces(t, jaegerConfig, withPercentage(t, testPercent))
	s := serveHTTP(t, j.env())
	sent := &mixture{traces: map[string][]string{}}
	threshold := slowness(t)
	sent.send(t, s, threshold)

	// Every message has a trace of its own. All are decided when as many are decided as
	// the server has received.
	var stored map[string]storedTrace
	eventually(t, func() error {
		m := s.metrics(t)
		want := m.sum("vitrine_requests_admitted_total") + m.sum("vitrine_messages_received_total", "kind", "notification")
		received, kept, gone, err := j.decisions()
		if err != nil {
			return err
		}
		if received != want || kept+gone != want {
			return fmt.Errorf("of %v traces %v have arrived, %v are kept and %v are not", want, received, kept, gone)
		}
		if stored, err = j.traces("everything"); err != nil {
			return err
		}
		if float64(len(stored)) != kept {
			return fmt.Errorf("%d traces are stored, want the %v that are kept", len(stored), kept)
		}
		return nil
	})

	for _, kind := range []string{kindFailed, kindCancelled, kindDropped, kindSlow} {
		missing := slices.DeleteFunc(slices.Clone(sent.traces[kind]), func(id string) bool { _, ok := stored[id]; return ok })
		if len(missing) > 0 {
			t.Errorf("%d of %d traces of %s calls are missing", len(missing), len(sent.traces[kind]), kind)
		}
	}
	n, kept := nOrdinary, 0
	for _, id := range sent.traces[kindOrdinary] {
		if trace, ok := stored[id]; ok {
			if trace.Spans[0].duration() >= threshold {
				n-- // a slow machine has made it another kind
			} else {
				kept++
			}
		}
	}
	least, most := binomialRange(n, testPercent/100., 1e-6)
	t.Logf("%d of %d traces of ordinary calls are kept; %d to %d would do", kept, n, least, most)
	if kept < least || kept > most {
		t.Errorf("%d of %d traces of ordinary calls are kept, want %d to %d", kept, n, least, most)
	}
}

// binomialRange returns the numbers of successes among n that are not too few and not
// too many for a probability p. It excludes the true ones with at most the probability
// alarm.
func binomialRange(n int, p, alarm float64) (least, most int) {
	exactly := func(k int) float64 {
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(k + 1))
		c, _ := math.Lgamma(float64(n - k + 1))
		return math.Exp(a - b - c + float64(k)*math.Log(p) + float64(n-k)*math.Log(1-p))
	}
	least, most = 0, n
	for sum := exactly(least); sum <= alarm/2; sum += exactly(least) {
		least++
	}
	for sum := exactly(most); sum <= alarm/2; sum += exactly(most) {
		most--
	}
	return least, most
}

package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

// at returns the caller with its session at another server.
func (c *caller) at(t *testing.T, s *target, address string) *caller {
	t.Helper()
	other := s.caller(t, address, c.name)
	other.session = c.session
	if r := other.legacy(t, "here", call{method: "ping"}); r.Result == nil { // from now on the server knows the session
		t.Fatalf("the session of %s at another replica: %d %s", c.name, r.status, r.body)
	}
	return other
}

// sayNothing sends n cancellations of unknown requests, and n answers to questions that nobody has asked: half of
// them are for a replica, and half for one that does not exist.
func (c *caller) sayNothing(t *testing.T, n int, replica string) {
	t.Helper()
	for i := range n {
		c.notify(t, fmt.Sprintf(`"notifications/cancelled","params":{"requestId":"nothing %d"}`, i))
		to := []string{replica, strings.Repeat("x", len(replica))}[i%2]
		c.answer(t, fmt.Sprintf(`"%s-nobodys2-%d"`, to, i))
	}
}

// answer answers the question with an id, which is JSON.
func (c *caller) answer(t *testing.T, id string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":{"ok":true}}}`
	if r := c.must(t, http.MethodPost, c.sessionHeader(), body); r.status != http.StatusAccepted {
		t.Fatalf("the answer to %s: %d %s", id, r.status, r.body)
	}
}

// signals are the counts of the signals of a replica.
type signals struct{ sent, received, unknown, lost, limited, published float64 }

// signals reads the counts since others were read.
func (s *target) signals(t *testing.T, before signals) signals {
	t.Helper()
	m := s.metrics(t)
	count := func(outcome string) float64 { return m.sum("vitrine_signals_total", "outcome", outcome) }
	return signals{
		count("sent") - before.sent, count("received") - before.received, count("unknown") - before.unknown, count("lost") - before.lost,
		m.sum("vitrine_limit_reached_total", "limit", "max_pending_signals") - before.limited,
		m.sum("vitrine_store_operations_total", "operation", "publish") - before.published,
	}
}

// awaitSignals waits until each of n messages was sent to the other replicas or is lost, and returns the counts since then.
func (s *target) awaitSignals(t *testing.T, n float64, before signals) (now signals) {
	t.Helper()
	eventually(t, func() error {
		if now = s.signals(t, before); now.sent+now.lost < n {
			return fmt.Errorf("of %v messages the replica counts %+v", n, now)
		}
		return nil
	})
	return now
}

// signalFlood is how many cancellations about nothing, and how many answers, a caller sends at a time.
const signalFlood = 1000

// An answer for a replica that does not listen is published again: a quarter of those that may be on their way, twenty
// times each at most.
const repeatedShare, repeats = 4, 20

// costsLittle lets the caller say nothing while the store answers. Each message is one operation of the store at most, but
// for those that are published again, and those that come nowhere are counted. The first replica only says that it has got the
// answers that are for it.
func (c *caller) costsLittle(t *testing.T, first *target, replica string, pending int) {
	t.Helper()
	at, other := c.s.signals(t, signals{}), first.signals(t, signals{})
	c.sayNothing(t, signalFlood, replica)
	now := c.s.awaitSignals(t, 2*signalFlood, at)
	eventually(t, func() error { // messages of the program may be among them
		now = c.s.signals(t, at)
		if nobody := now.lost - now.limited; nobody > signalFlood/2 || nobody < signalFlood/2-now.limited {
			return fmt.Errorf("of %d messages, of which a quarter is for no replica, the replica counts %+v", 2*signalFlood, now)
		}
		return nil
	})
	if now.published > float64(2*signalFlood+pending/repeatedShare*repeats+10) {
		t.Errorf("%d messages have cost %v operations of the store", 2*signalFlood, now.published)
	}
	eventually(t, func() error {
		there := first.signals(t, other)
		if there.published > signalFlood/2+10 || there.received > 10 { // one receipt for each answer that was for it, at most
			t.Fatalf("messages about nothing have moved the other replica: %+v", there)
		}
		if there.unknown < signalFlood+signalFlood/2-now.limited {
			return fmt.Errorf("the other replica counts %+v", there)
		}
		return nil
	})
}

// Thousands of cancellations and answers that are about nothing cost the store one operation each at most, and the
// other replica one receipt for each of these answers. While the store does not answer, those of one caller that wait are bounded, the rest is
// counted as lost, and what another caller cancels and answers gets through.
func TestSignalFloodsLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	const pending = 256
	store := redistest.Start(t, "e2e/attack/redis")
	link := redistest.StartProxy(t, store.Addr())
	first := replicaOf(t, store.Addr()+"/0")
	second := replicaOf(t, link.Addr()+"/0?pool_timeout=10m&read_timeout=10m&write_timeout=10m&dial_timeout=10m",
		"--store-timeout", "5m", "--max-pending-signals", fmt.Sprint(pending)) // so that nothing fails because it waits
	undisturbed := first.others(t)
	ann, bob := first.caller(t, bystanders, "ann"), first.caller(t, attacker, "bob")
	ann.initialize(t)
	bob.initialize(t)
	running := ann.begin(t, ann.sessionHeader(), call{tool: "sleep", arguments: `{"ms":600000}`}.frame("deep", false))
	first.awaitInFlight(t, "sleep", 3)
	asking := ann.openStream(t, http.MethodPost, ann.sessionHeader(), call{tool: "ask"}.frame(2, false))
	question := string(asking.next(t).ID)
	replica, _, _ := strings.Cut(strings.Trim(question, `"`), "-")
	annThere, bobThere := ann.at(t, second, bystanders), bob.at(t, second, attacker)

	bobThere.costsLittle(t, first, replica, pending)
	at := second.signals(t, signals{})
	link.Freeze()
	bobThere.sayNothing(t, signalFlood, replica)
	eventually(t, func() error {
		if now := second.signals(t, at); now.lost < 2*signalFlood-pending || now.lost >= 2*signalFlood || now.limited != now.lost {
			return fmt.Errorf("while the store does not answer the replica counts %+v of %d messages, of which %d may wait", now, 2*signalFlood, pending)
		}
		return nil
	})
	annThere.notify(t, `"notifications/cancelled","params":{"requestId":"deep"}`)
	annThere.answer(t, question)
	link.Heal()
	if r := running.wait(t); r.code() != codeCancelled {
		t.Errorf("the call that its caller has cancelled at another replica: %d %s", r.status, r.body)
	}
	if a := asking.next(t); a.text() != "true" {
		t.Errorf("the call whose question was answered at another replica: %+v", a)
	}
	if now := second.awaitSignals(t, 2*signalFlood+2, at); now.published > 2*pending+pending/repeatedShare*repeats {
		t.Errorf("the store was asked %v times for a flood of which %d may wait", now.published, pending)
	}
	undisturbed()
}

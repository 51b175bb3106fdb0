package attack

import (
	"sync"
	"sync/atomic"
	"testing"
)

// An answer to a question that nobody has asked is not consent: the tool asks.
func TestAnswersWithoutAQuestionAreNotConsent(t *testing.T) {
	t.Parallel()
	s := attacked(t)
	undisturbed := s.others(t)
	ann := s.caller(t, attacker, "ann")
	ann.asked(t, pay(5).with(accepted))
	ann.asked(t, pay(5).with(`"requestState":null,`+accepted))
	if r := ann.modern(t, 1, pay(5).with(`"requestState":"",`+accepted)); r.text() == "paid" {
		t.Errorf("an empty state is consent: %s", r.body)
	}
	ann.paid(t, 0)
	if r := ann.modern(t, 1, pay(5).with(consent(ann.asked(t, pay(5))))); r.text() != "paid" {
		t.Errorf("consent to a question: %d %s", r.status, r.body)
	}
	ann.paid(t, 1)
	undisturbed()
}

// With --single-use-states consent is worth one payment, also for those who spend it many times at
// once.
func TestConsentIsSpentOnce(t *testing.T) {
	t.Parallel()
	s := attacked(t, "--single-use-states")
	undisturbed := s.others(t)
	ann := s.caller(t, attacker, "ann")
	state := ann.asked(t, pay(5))
	var paid atomic.Int64
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			what := pay(5).with(consent(state))
			if r := ann.begin(t, what.header(), what.frame(1, true)).wait(t); r.text() == "paid" {
				paid.Add(1)
			} else if r.Result != nil || r.code() != codeInvalidParams {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	all.Wait()
	if paid.Load() != 1 {
		t.Errorf("one consent has paid %d times", paid.Load())
	}
	ann.paid(t, 1)
	undisturbed()
}

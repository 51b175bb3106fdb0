package rates

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Reason is the reason of the refusals of a [Limiter].
const Reason = "rate_limited"

// A Limiter holds the buckets of some rules. It is safe for concurrent use.
type Limiter struct {
	mu      sync.Mutex // guards the buckets: a message takes a token of all its rules, or of none
	rules   []*limit
	max     int // buckets
	evicted func()
	latest  time.Time // that a message had
	sharing *sharing  // nil without a store
}

// A limit is one rule with its buckets.
type limit struct {
	Rule
	buckets          buckets
	allowed, refused uint64
	local            uint64 // of these, see [State]
}

// New returns a limiter, or nil if there are no rules. All rules together have at most maxBuckets
// buckets, which must be positive. evicted is called when a bucket that is not full had to go; it
// must not block. The error says what is wrong with the rules.
func New(rules []Rule, maxBuckets int, evicted func()) (*Limiter, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	var faults []error
	l := &Limiter{max: maxBuckets, evicted: evicted}
	for i, rule := range rules {
		if slices.ContainsFunc(rules[:i], func(other Rule) bool { return other.Name == rule.Name }) {
			faults = append(faults, fmt.Errorf("rate limit %.64q: there are two of this name", rule.Name))
		}
		if err := rule.check(); err != nil {
			faults = append(faults, err)
			continue
		}
		l.rules = append(l.rules, &limit{Rule: rule, buckets: newBuckets(
			float64(rule.Requests)/rule.Window.Seconds(), rule.tokens())})
	}
	if len(rules) > maxRules {
		faults = append(faults, fmt.Errorf("there are %d rate limits, %d are allowed", len(rules), maxRules))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return l, nil
}

// Check takes a token for a message from each rule that is about it. If one of the buckets is empty
// it takes none, and returns the refusal with the longest wait; nil is yes. A time before that of an
// earlier call counts as that one: a bucket that was set back would earn the same tokens again. With a
// store it may wait for that, see [Limiter.Share]. l may be nil.
func (l *Limiter) Check(m *Message, now time.Time) *mcp.Refusal {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	refused, unanswered := l.decide(m, now, true)
	l.mu.Unlock()
	if unanswered == nil {
		return refused
	}
	return l.await(m, unanswered)
}

// decide decides about a message. If the store must be asked for some of its buckets, and the message is
// patient, it asks for them and returns them instead. The caller must hold l.mu.
func (l *Limiter) decide(m *Message, now time.Time, patient bool) (refused *mcp.Refusal, unanswered []asked) {
	now = l.tick(now)
	var few [8]asked // on the stack
	taken := few[:0]
	var refuses asked
	var wait time.Duration
	ask := false
	for _, rule := range l.rules {
		if !rule.limits(m) {
			continue
		}
		a := asked{rule: rule, bucket: l.bucket(rule, m, now)}
		taken = append(taken, a)
		if d := rule.buckets.wait(a.bucket, now); d > wait {
			refuses, wait = a, d
		}
		ask = ask || a.bucket.debt.atLimit(rule)
	}
	if l.sharing != nil {
		l.probe(taken, now)
	}
	switch {
	case refuses.rule != nil:
		refuses.rule.refused++
		if refuses.bucket.debt != nil && l.sharing.local {
			refuses.rule.local++
		}
		return refuses.rule.refusal(wait), nil
	case ask && patient && !l.sharing.local && !l.queueFull():
		return nil, l.ask(taken)
	}
	for _, a := range taken {
		a.rule.buckets.take(a.bucket, now)
		a.rule.allowed++
		if a.bucket.debt != nil {
			l.owe(a)
		}
	}
	return nil, nil
}

// tick returns the time of a message. The caller must hold l.mu.
func (l *Limiter) tick(now time.Time) time.Time {
	if now.Before(l.latest) {
		now = l.latest
	}
	l.latest = now
	return now
}

// bucket returns the bucket of a rule for a message. For a new one the fullest bucket of the rule with
// most may have to go, of those that were not used for long: its key gets a full one the next time. An
// attacker who makes up keys gains nothing by it, because each of his keys has a full bucket anyway.
// A key that is refused is used all the time, or its bucket is emptier than those that he makes up.
func (l *Limiter) bucket(rule *limit, m *Message, now time.Time) *bucket {
	k := rule.key(m)
	if of := rule.buckets.get(k, now); of != nil {
		return of
	}
	rule.buckets.removeFull(now)
	sum, largest := 0, rule
	for _, other := range l.rules {
		n := len(other.buckets.byKey)
		if sum += n; n > len(largest.buckets.byKey) {
			largest = other
		}
	}
	if sum >= l.max && !largest.buckets.removeFullest(now) {
		l.evicted()
	}
	added := rule.buckets.add(k, now)
	if l.sharing != nil && k.conn == nil { // no other replica has that connection
		added.debt = &debt{}
	}
	return added
}

// asked is a bucket of which a message needs a token.
type asked struct {
	rule    *limit
	bucket  *bucket
	settled <-chan struct{} // closed when the store was asked for it
}

// refusal returns the refusal of a message that may come again after some time.
func (r *limit) refusal(wait time.Duration) *mcp.Refusal {
	return &mcp.Refusal{
		Status: int(mcp.CodeTooManyRequests), Reason: Reason, By: r.Name, Limit: r.Name, RetryAfter: wait,
		Message: fmt.Sprintf("there are too many requests: the limit %s is %d in %v", r.Name, r.Requests, r.Window),
	}
}

// A State describes one rule at one moment.
type State struct {
	Name string
	// Used is the share of its tokens that the emptiest bucket has given, from 0 to 1.
	Used float64
	// Allowed and Refused count messages. One that several rules are about is counted as refused
	// by the rule with the longest wait, and by no other.
	Allowed, Refused uint64
	Buckets          int
	// Local counts those of them that this replica has decided alone, because the store did not answer.
	Local uint64
}

// States describes the rules, in their order. l may be nil.
func (l *Limiter) States(now time.Time) (states []State) {
	if l == nil {
		return nil
	}
	for _, rule := range l.rules {
		l.mu.Lock() // for each rule anew: messages wait no longer than for one
		states = append(states, State{
			Name: rule.Name, Allowed: rule.allowed, Refused: rule.refused,
			Buckets: len(rule.buckets.byKey), Used: rule.buckets.mostUsed(now), Local: rule.local,
		})
		l.mu.Unlock()
	}
	return states
}

// Rules returns the rules, in their order. l may be nil.
func (l *Limiter) Rules() (rules []Rule) {
	if l == nil {
		return nil
	}
	for _, rule := range l.rules {
		rules = append(rules, rule.Rule)
	}
	return rules
}

// Has reports whether there is a rule with a name. l may be nil.
func (l *Limiter) Has(name string) bool {
	return l != nil && slices.ContainsFunc(l.rules, func(rule *limit) bool { return rule.Name == name })
}

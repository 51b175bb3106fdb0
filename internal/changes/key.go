package changes

import (
	"hash/maphash"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
)

// Other is the value of a field of a [Key] for requests whose own value is not kept.
const Other = "_OTHER"

// StepSeconds is the length of a step in seconds.
const StepSeconds = 10

// stepLength is the length of a step in nanoseconds.
const stepLength = StepSeconds * int64(time.Second)

// clock is not nil in tests of whole programs that cannot wait for minutes.
var clock func() time.Time

// SetClock sets the clock of all stores, for tests. It must be called before the first store is made.
func SetClock(now func() time.Time) { clock = now }

// Now returns the time by which steps are counted.
func Now() time.Time {
	if clock != nil {
		return clock()
	}
	return time.Now()
}

// stepsTime returns how long so many steps take.
func stepsTime(steps int64) time.Duration { return time.Duration(steps * stepLength) }

// The outcomes of requests that end as they should. All other outcomes are the classes of recent
// traces, and [OutcomeExpired].
const (
	OutcomeAnswered = "answered"
	OutcomeEnded    = "ended" // a subscription
)

// OutcomeExpired is the outcome of an observation that is no request of its own: the stored answer of an
// earlier request, which has an observation as well, was lost.
const OutcomeExpired = "expired"

// PhaseMiddleware is the start of the phases that name a middleware.
const PhaseMiddleware = "middleware "

// A Key says who made a request, what it called, and how it ended. Fields may be empty.
type Key struct {
	Client, Version, Principal string
	Method, Target             string
	Outcome                    string // OutcomeAnswered, OutcomeEnded, OutcomeExpired, or a class of recent traces
	Reason                     string // the cause of a cancellation, or the reason of another outcome
	// Phase is the one in which the request was when its end was decided: queued, running, blocked, writing.
	// Of other requests it is PhaseMiddleware and a name if they were in this middleware for long.
	Phase string
}

// An Observation is one request that has ended, or one stored answer that was lost. Its texts may be part of a frame: the store copies
// those that it keeps.
type Observation struct {
	Client, Version         string
	Issuer, Subject, Tenant string // of the principal
	Method, Target          string
	Outcome, Reason, Phase  string
	// At is when the request ended or the answer was lost, in nanoseconds since 1970.
	At int64
	// Took is the time from the arrival to the outcome. The phases are parts of it; Running does not
	// include Blocked.
	Took, Queued, Running, Blocked, Writing time.Duration
	RequestBytes, AnswerBytes               int
}

// key returns the key of an observation, without texts of a frame.
func (o *Observation) key() Key {
	return Key{
		Client: strings.Clone(o.Client), Version: strings.Clone(o.Version), Principal: strings.Clone(o.principal()),
		Method: o.Method, Target: o.Target, Outcome: o.Outcome, Reason: o.Reason, Phase: o.Phase,
	}
}

func (o *Observation) principal() string {
	p := auth.Principal{Issuer: o.Issuer, Subject: o.Subject, Tenant: o.Tenant}
	return p.String()
}

// withoutCaller is an observation for requests of callers that are not kept apart.
func (o *Observation) withoutCaller() Observation {
	rest := *o
	rest.Client, rest.Version, rest.Issuer, rest.Subject, rest.Tenant = Other, Other, "", Other, ""
	return rest
}

// withoutAll is an observation of which the outcome alone is kept.
func (o *Observation) withoutAll() Observation {
	rest := o.withoutCaller()
	rest.Method, rest.Target, rest.Reason, rest.Phase = Other, "", Other, ""
	return rest
}

// hash returns a hash of the key of an observation. Texts that callers choose have a hash with a secret.
// The others come from closed sets and from registrations, and a few of their bytes are enough.
func (o *Observation) hash(seed maphash.Seed) uint64 {
	h := maphash.String(seed, o.Client)
	h = h*hashFactor ^ maphash.String(seed, o.Version)
	h = h*hashFactor ^ maphash.String(seed, o.Subject)
	if o.Issuer != "" || o.Tenant != "" {
		h = h*hashFactor ^ maphash.String(seed, o.Issuer)
		h = h*hashFactor ^ maphash.String(seed, o.Tenant)
	}
	h = h*hashFactor ^ digest(o.Method)<<32 ^ digest(o.Target)
	h = h*hashFactor ^ digest(o.Outcome)<<32 ^ digest(o.Reason)
	h = h*hashFactor ^ digest(o.Phase)
	h ^= h >> 32
	return h * hashFactor
}

const hashFactor = 0x9e3779b97f4a7c15

// digest returns the length and three bytes of a text.
func digest(text string) uint64 {
	n := len(text)
	if n == 0 {
		return 0
	}
	return uint64(n&255)<<24 | uint64(text[0])<<16 | uint64(text[n/2])<<8 | uint64(text[n-1])
}

// withoutClient is a key for the requests of a principal whose clients are not kept apart.
func (k Key) withoutClient() Key {
	k.Client, k.Version = Other, Other
	return k
}

// withoutCaller is a key for requests of callers that are not kept apart.
func (k Key) withoutCaller() Key {
	k.Client, k.Version, k.Principal = Other, Other, Other
	return k
}

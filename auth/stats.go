package auth

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// A Reporter is an [Authenticator] that counts what it does. A server shows the counts as metrics.
type Reporter interface {
	// Stats returns the totals since the start. It is called for each scrape, and must be safe for
	// concurrent use.
	Stats() Stats
}

// Stats has the totals of an authenticator since its start. What it has refused is not in it: the
// server counts refusals by their reason.
type Stats struct {
	Verifications []VerificationStats // one method may be listed several times
	Issuers       []IssuerStats
	// CachedTokens are the verified tokens that are remembered, CachedBytes what they take in memory.
	CachedTokens, CachedBytes int
	// Evicted are tokens that had to leave the cache before their time.
	Evicted uint64
	// LimitsReached counts how often a limit took effect, by its name.
	LimitsReached map[string]uint64
	// Limits are the limits in force. They must not be changed.
	Limits []Limit
}

// A Limit is a limit of what decides about callers.
type Limit struct {
	Name, Unit, About string // About says what it bounds
	Value, Default    int
}

// plus returns the sum of two.
func (s Stats) plus(other Stats) Stats {
	s.Verifications = slices.Concat(s.Verifications, other.Verifications)
	s.Issuers = slices.Concat(s.Issuers, other.Issuers)
	s.CachedTokens += other.CachedTokens
	s.CachedBytes += other.CachedBytes
	s.Evicted += other.Evicted
	limits := maps.Clone(other.LimitsReached)
	for name, n := range s.LimitsReached {
		if limits == nil {
			limits = map[string]uint64{}
		}
		limits[name] += n
	}
	s.LimitsReached = limits
	s.Limits = slices.Concat(s.Limits, other.Limits)
	return s
}

// The ways to verify a token: it was verified before, here, or by its issuer.
const (
	MethodCache         = "cache"
	MethodJWT           = "jwt"
	MethodIntrospection = "introspection"
)

// VerificationStats counts one way to verify tokens.
type VerificationStats struct {
	Method string // such as [MethodJWT]
	// Unavailable counts tokens that could not be judged, because the issuer could not be asked.
	Accepted, Refused, Unavailable uint64
	Took                           Latency
}

// IssuerStats describes one issuer.
type IssuerStats struct {
	Issuer string
	// Keys are the keys of the issuer that can be used, and Fetched the time at which they were
	// fetched; zero if that has not succeeded yet.
	Keys      int
	Fetched   time.Time
	Refreshes map[Refresh]uint64
}

// A Refresh is a fetch of an issuer's keys.
type Refresh struct {
	// Cause is first, periodic, unknown_key or check.
	Cause string
	// Result is changed, unchanged or failed; too_soon if nothing was fetched, because unknown key
	// ids have caused too many fetches.
	Result string
}

// LatencyBounds are the upper bounds of the buckets of a [Latency].
var LatencyBounds = [...]time.Duration{
	20 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	2 * time.Second, 10 * time.Second,
}

// A Latency is a histogram of durations. Counts has one count for each of LatencyBounds, and a last
// one for longer durations.
type Latency struct {
	Counts [len(LatencyBounds) + 1]uint64
	Sum    time.Duration
}

// Plus returns the sum of two histograms.
func (l Latency) Plus(other Latency) Latency {
	for i, n := range other.Counts {
		l.Counts[i] += n
	}
	l.Sum += other.Sum
	return l
}

// A LatencyRecorder records a [Latency]. The zero value is ready. It must not be copied, and is safe
// for concurrent use.
type LatencyRecorder struct {
	counts [len(LatencyBounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

// Record records a duration.
func (r *LatencyRecorder) Record(took time.Duration) {
	i := 0
	for i < len(LatencyBounds) && took > LatencyBounds[i] {
		i++
	}
	r.counts[i].Add(1)
	r.sum.Add(int64(took))
}

// Latency returns what was recorded.
func (r *LatencyRecorder) Latency() (l Latency) {
	for i := range r.counts {
		l.Counts[i] = r.counts[i].Load()
	}
	l.Sum = time.Duration(r.sum.Load())
	return l
}

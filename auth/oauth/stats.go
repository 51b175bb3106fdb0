package oauth

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
)

// counters count what the resource server does.
type counters struct {
	cacheHits, cacheRefused atomic.Uint64
	jwt, introspection      verifications

	mu     sync.Mutex // guards limits
	limits map[string]uint64
}

// reached counts that a limit took effect.
func (c *counters) reached(limit string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limits == nil {
		c.limits = map[string]uint64{}
	}
	c.limits[limit]++
}

// verifications count one way to verify tokens.
type verifications struct {
	accepted, refused, unavailable atomic.Uint64
	took                           auth.LatencyRecorder
}

// add counts a verification. An operator is paged if the issuer is not available. So a caller that has hung up does not count. A
// caller that a limit has refused does: it was not served because the issuer is slow.
func (v *verifications) add(took time.Duration, r *refusal) {
	switch {
	case r == nil:
		v.accepted.Add(1)
	case r.Reason == reasonUnavailable && errors.Is(r.Err, errAbandoned):
	case r.Reason == reasonUnavailable:
		v.unavailable.Add(1)
	default:
		v.refused.Add(1)
	}
	v.took.Record(took)
}

func (v *verifications) stats(method string) auth.VerificationStats {
	return auth.VerificationStats{
		Method: method, Accepted: v.accepted.Load(), Refused: v.refused.Load(), Unavailable: v.unavailable.Load(), Took: v.took.Latency(),
	}
}

// Stats returns what the server has counted since its start. It implements [auth.Reporter].
func (s *ResourceServer) Stats() auth.Stats {
	out := auth.Stats{
		Verifications: []auth.VerificationStats{
			{Method: auth.MethodCache, Accepted: s.counts.cacheHits.Load(), Refused: s.counts.cacheRefused.Load()},
			s.counts.jwt.stats(auth.MethodJWT), s.counts.introspection.stats(auth.MethodIntrospection),
		},
		Evicted: s.cache.evicted.Load(), Limits: s.cfg.Limits.list(),
	}
	out.CachedTokens, out.CachedBytes = s.cache.size()
	s.counts.mu.Lock()
	out.LimitsReached = maps.Clone(s.counts.limits)
	s.counts.mu.Unlock()
	for _, name := range s.cfg.Issuers {
		out.Issuers = append(out.Issuers, s.issuers[name].stats())
	}
	return out
}

func (i *issuer) stats() auth.IssuerStats {
	out := auth.IssuerStats{Issuer: i.name, Refreshes: map[auth.Refresh]uint64{}}
	if set := i.keys.Load(); set != nil {
		out.Keys, out.Fetched = len(set.all), set.fetched
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for r, n := range i.refreshes {
		out.Refreshes[auth.Refresh{Cause: r.cause, Result: r.result}] = n
	}
	return out
}

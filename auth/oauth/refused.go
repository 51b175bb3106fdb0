package oauth

import (
	"errors"
	"sync"
	"time"
)

const (
	// refusedFor is for how long the answer of an issuer that a token is bad is believed. It is short, because the issuer may
	// know a moment later a token that it does not know yet.
	refusedFor = 5 * time.Second
	// maxRefused bounds the refused tokens that are remembered.
	maxRefused = 1024
	// refusedBytes is what a refused token takes that is remembered.
	refusedBytes = 256
)

var errRefusedBefore = errors.New("the issuer was asked about this token a moment ago, and the token was refused")

// refusedTokens remembers for a few seconds the tokens that were refused after the issuer was asked. A client that repeats a
// bad token causes one introspection in that time, and its address has one failure.
type refusedTokens struct {
	mu       sync.RWMutex // guards the rest
	byDigest map[digest]refusedToken
}

type refusedToken struct {
	reason string
	until  time.Time
}

// reason returns why a token was refused a moment ago, or "".
func (r *refusedTokens) reason(d digest, now time.Time) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t := r.byDigest[d]; now.Before(t.until) {
		return t.reason
	}
	return ""
}

// add remembers that a token was refused for a reason. If there is no room, it forgets those whose time is over, or else any.
func (r *refusedTokens) add(d digest, reason string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byDigest) >= maxRefused {
		for old, t := range r.byDigest {
			if !now.Before(t.until) {
				delete(r.byDigest, old)
			}
		}
		for old := range r.byDigest {
			if len(r.byDigest) < maxRefused {
				break
			}
			delete(r.byDigest, old)
		}
	}
	r.byDigest[d] = refusedToken{reason, now.Add(refusedFor)}
}

package mcp

import "time"

// A CacheHint tells a modern client how long a list, a resource or the discovery
// result stays fresh. The server fills in its defaults, and leaves the hint out
// for legacy clients.
type CacheHint struct {
	TTL   *int64     `json:"ttlMs,omitzero"` // milliseconds; 0 is stale at once
	Scope CacheScope `json:"cacheScope,omitempty"`
}

// CacheHinted gives access to the hint of a cacheable result.
func (h *CacheHint) CacheHinted() *CacheHint { return h }

// CacheFor returns the hint that a result stays fresh for ttl, rounded down to milliseconds,
// for the callers of a scope. If the scope is empty, the server fills in its default.
func CacheFor(ttl time.Duration, scope CacheScope) CacheHint {
	ms := ttl.Milliseconds()
	return CacheHint{TTL: &ms, Scope: scope}
}

// A CacheScope says who may share a cached result.
type CacheScope string

const (
	// CachePublic: every user may get the cached result.
	CachePublic CacheScope = "public"
	// CachePrivate: only the caller may get it. This is the safe choice whenever the result
	// depends on the caller.
	CachePrivate CacheScope = "private"
)

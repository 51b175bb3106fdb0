package oauth

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
)

// A tokenCache remembers verified tokens. It belongs to one resource server: what another one has
// verified, for another audience or by other rules, says nothing here.
type tokenCache struct {
	max int // bytes

	mu      sync.RWMutex // guards the rest
	entries map[digest]*cached
	bytes   int
	evicted atomic.Uint64 // entries that had to go before their time
}

// cached is a verified token.
type cached struct {
	verified
	until time.Time
	cost  int // bytes
}

// valid reports whether an entry may still be used: its time is not over, and its issuer still has
// the keys that have verified it.
func (c *cached) valid(now time.Time) bool { return now.Before(c.until) && c.known(now) }

// known reports whether nothing has happened since that makes the token bad: it has not expired, and its issuer still has the
// keys that have verified it.
func (c *cached) known(now time.Time) bool {
	if !now.Before(c.expires) {
		return false
	}
	for _, k := range c.keys {
		if k.gone.Load() {
			return false
		}
	}
	return true
}

// get returns the principal of a token, or nil. An entry whose time is over remains while there is room, see ranOut.
func (t *tokenCache) get(d digest, now time.Time) *auth.Principal {
	t.mu.RLock()
	c := t.entries[d]
	t.mu.RUnlock()
	switch {
	case c == nil:
		return nil
	case c.valid(now):
		return c.principal
	case c.known(now):
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.entries[d] == c {
		t.remove(d, c)
	}
	return nil
}

// ranOut reports whether a token was good when it was verified, which must be done again now.
func (t *tokenCache) ranOut(d digest, now time.Time) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	c := t.entries[d]
	return c != nil && c.known(now)
}

// drop removes a token that has turned out to be bad.
func (t *tokenCache) drop(d digest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.entries[d]; c != nil {
		t.remove(d, c)
	}
}

// add adds an entry. If there is no room, entries in the random order of maps go: a caller cannot
// choose whose. full tells that one of them could have been used on.
func (t *tokenCache) add(d digest, c *cached, now time.Time) (full bool) {
	if c.cost > t.max {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.entries[d]; old != nil {
		t.remove(d, old)
	}
	for key, old := range t.entries {
		if t.bytes+c.cost <= t.max {
			break
		}
		t.remove(key, old)
		if old.valid(now) {
			t.evicted.Add(1)
			full = true
		}
	}
	t.entries[d] = c
	t.bytes += c.cost
	return full
}

// remove removes an entry. The caller must hold t.mu.
func (t *tokenCache) remove(d digest, c *cached) {
	delete(t.entries, d)
	t.bytes -= c.cost
}

// size returns the number of entries, and what they take in bytes.
func (t *tokenCache) size() (entries, bytes int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.entries), t.bytes
}

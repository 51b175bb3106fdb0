package oauth

import "time"

// vainKeys are the key ids that an issuer does not have: they were asked for in vain. For a while they
// cause no fetch: clients that go on with the token of a key that was withdrawn take little from the
// budget for new keys. It needs a lock of its owner's.
type vainKeys map[string]time.Time // until when

const (
	maxVainKeys = 256
	maxVainID   = 128 // bytes; longer ids are not remembered
)

// add remembers a key id until a time.
func (v vainKeys) add(id string, until, now time.Time) {
	if len(id) > maxVainID {
		return
	}
	if len(v) >= maxVainKeys {
		for old, end := range v {
			if !now.Before(end) {
				delete(v, old)
			}
		}
	}
	if len(v) < maxVainKeys {
		v[id] = until
	}
}

// has reports whether a key id is remembered.
func (v vainKeys) has(id string, now time.Time) bool {
	until, ok := v[id]
	return ok && now.Before(until)
}

package oauth

import (
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// An addressKey is an address, or a network of IPv6.
type addressKey = share.Key

// failures bounds what each address can make the server ask an issuer in vain.
type failures struct {
	perMinute float64
	max       int // addresses

	mu        sync.Mutex // guards the rest
	byAddress map[addressKey]*bucket
}

// take counts an attempt of an address. succeeded must be called if the attempt was not in vain.
// If the address has had too many failures, wait is the time until it may try again. evicted tells
// that the failures of another address were forgotten.
func (f *failures) take(remote string, now time.Time) (succeeded func(), wait time.Duration, evicted bool) {
	key := share.KeyOf(nil, share.AddrOf(remote))
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.byAddress[key]
	if b == nil {
		if len(f.byAddress) >= f.max {
			evicted = f.makeRoom(now)
		}
		b = &bucket{}
		f.byAddress[key] = b
	}
	if wait = b.take(now, f.perMinute, f.perMinute/60); wait > 0 {
		return nil, wait, evicted
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		b.give()
	}, 0, evicted
}

// searched is how many addresses are looked at for one without failures, when there are too many.
const searched = 16

// makeRoom forgets an address: one without failures, or else any. It reports whether that one had
// failures.
func (f *failures) makeRoom(now time.Time) (evicted bool) {
	n := 0
	var last addressKey
	for key, b := range f.byAddress {
		if b.full(now, f.perMinute/60) {
			delete(f.byAddress, key)
			return false
		}
		if last = key; n >= searched {
			break
		}
		n++
	}
	delete(f.byAddress, last)
	return true
}

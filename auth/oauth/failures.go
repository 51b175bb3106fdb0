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

// wait returns the time until an address may ask again, or 0. What is under way is not known to be in vain, and counts for
// nothing: callers behind one address, or one with many calls at once, are not refused for it.
func (f *failures) wait(remote string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.byAddress[keyOf(remote)]
	if b == nil {
		return 0
	}
	return b.wait(now, f.perMinute, f.perMinute/60)
}

// add counts a failure of an address. Those of requests that were under way at one time can be more than there may be: then the
// address waits for longer. evicted tells that the failures of another address were forgotten.
func (f *failures) add(remote string, now time.Time) (evicted bool) {
	key := keyOf(remote)
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
	b.owe(now, f.perMinute/60)
	return evicted
}

func keyOf(remote string) addressKey { return share.KeyOf(nil, share.AddrOf(remote)) }

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

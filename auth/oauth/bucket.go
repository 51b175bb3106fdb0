package oauth

import "time"

// A bucket is a token bucket of which a token can be given back: for what turns out not to be held
// against the caller. The zero value is full. It needs a lock of its owner's.
type bucket struct {
	taken float64 // tokens, at the time last
	last  time.Time
}

// take takes a token. If there is none, it returns the time until there is one.
func (b *bucket) take(now time.Time, burst, perSecond float64) time.Duration {
	b.refill(now, perSecond)
	if b.taken+1 > burst {
		missing := b.taken + 1 - burst
		return max(time.Duration(missing/perSecond*float64(time.Second)), 1)
	}
	b.taken++
	return 0
}

// give gives a token back.
func (b *bucket) give() { b.taken = max(b.taken-1, 0) }

// full reports whether the bucket is as good as a new one.
func (b *bucket) full(now time.Time, perSecond float64) bool {
	b.refill(now, perSecond)
	return b.taken == 0
}

func (b *bucket) refill(now time.Time, perSecond float64) {
	if d := now.Sub(b.last); d > 0 {
		b.taken = max(b.taken-d.Seconds()*perSecond, 0)
		b.last = now
	}
}
